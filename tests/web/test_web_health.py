"""Health, readiness, metrics, and who may read what."""

from __future__ import annotations

import base64

import pytest

from monitor.model.checks import failed
from monitor.model.secrets import Secret
from monitor.web.settings import ServerSettings
from tests.web.site import Site

TOKEN, USERNAME, PASSWORD = "a token for scripts", "operator", "a password for people"
GUARDED = ServerSettings(
    listen="127.0.0.1:0",
    token=Secret(TOKEN),
    username=USERNAME,
    password=Secret(PASSWORD),
    wrong_credentials_delay_seconds=0,
)
BY_TOKEN = ServerSettings(
    listen="127.0.0.1:0", token=Secret(TOKEN), wrong_credentials_delay_seconds=0
)
CLOSED = ("/", "/metrics", "/api/v1/runs", "/api/v1/events/stream", "/none")


def basic(credentials: str) -> str:
    return "Basic " + base64.b64encode(credentials.encode()).decode()


async def test_a_running_daemon_is_healthy(site: Site) -> None:
    """``/healthz`` answers as long as the event loop runs."""
    site.findings["store"] = failed("store", "cannot be written")
    answer = await site.get("/healthz")
    assert (answer.status, answer.document) == (200, {"alive": True, "store": None})


async def test_readiness_names_failed_checks(site: Site) -> None:
    """``/readyz`` is 200 while every check is well, and 503 with each finding by name."""
    assert (await site.get("/readyz")).status == 200
    site.findings["store"] = failed("store", "the disk is full")
    answer = await site.get("/readyz")
    assert answer.status == 503
    assert answer.document == {
        "ready": False,
        "checks": {"store": {"ok": False, "detail": "the disk is full"}},
    }


async def test_metrics_come_in_the_scrapers_format(site: Site) -> None:
    """The accept header reaches the renderer, whose content type is returned."""
    answer = await site.get("/metrics", headers={"Accept": "application/openmetrics-text"})
    assert answer.text == "some 1.0\n"
    assert answer.headers["Content-Type"] == "text/plain; requested=True"


@pytest.mark.parametrize("settings", [GUARDED], ids=["guarded"])
@pytest.mark.parametrize(
    "credentials",
    [
        None,
        "Bearer another token",
        "Bearer",
        f"Token {TOKEN}",
        basic(f"{USERNAME}:another"),
        basic(f"other:{PASSWORD}"),
        basic(PASSWORD),
        "Basic not base64!",
        "Basic " + base64.b64encode(b"\xff\xfe:x").decode(),
    ],
)
async def test_nothing_but_health_is_shown_to_strangers(
    site: Site, credentials: str | None
) -> None:
    """Without the right token or password every page answers 401 with the ways to log in."""
    headers = {} if credentials is None else {"Authorization": credentials}
    for path in CLOSED:
        answer = await site.get(path, headers=headers)
        assert answer.status == 401, path
        assert answer.headers["WWW-Authenticate"] == 'Basic realm="dataprep-monitor"'
        assert answer.headers["Content-Type"] == "application/problem+json"
    assert (await site.get("/healthz")).status == 200
    assert (await site.get("/readyz")).status == 200


@pytest.mark.parametrize("settings", [GUARDED], ids=["guarded"])
@pytest.mark.parametrize(
    "credentials", [f"Bearer {TOKEN}", f"bearer {TOKEN}", basic(f"{USERNAME}:{PASSWORD}")]
)
async def test_the_token_or_the_password_opens(site: Site, credentials: str) -> None:
    """Scripts come with the token, people with name and password."""
    assert (await site.get("/api/v1/runs", headers={"Authorization": credentials})).status == 200


@pytest.mark.parametrize("settings", [BY_TOKEN], ids=["token alone"])
async def test_without_a_password_basic_opens_nothing(site: Site) -> None:
    """With only a token set the answer demands it, and empty credentials are none."""
    answer = await site.get("/", headers={"Authorization": basic(":")})
    assert answer.status == 401
    assert answer.headers["WWW-Authenticate"] == 'Bearer realm="dataprep-monitor"'

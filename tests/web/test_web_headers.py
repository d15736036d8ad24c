"""The headers that every answer of the server has."""

from __future__ import annotations

import pytest

from monitor.model.secrets import Secret
from monitor.web.settings import ServerSettings
from tests.web.site import Answer, Site

GUARDED = ServerSettings(listen="127.0.0.1:0", token=Secret("a token for scripts"))


def assert_headers(answer: Answer) -> None:
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Referrer-Policy"] == "same-origin"
    assert answer.headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert answer.headers["Server"] == "dataprep-monitor"
    assert {"no-store", "no-cache"} & set(answer.headers["Cache-Control"].split(", "))


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/", 200),
        ("/static/page.js", 200),
        ("/metrics", 200),
        ("/healthz", 200),
        ("/api/v1/runs", 200),
        ("/api/v1/runs?limit=x", 400),
        ("/none", 404),
        ("/api/v1/track", 405),
    ],
)
async def test_every_answer_has_the_headers(site: Site, path: str, status: int) -> None:
    """Pages, data and problems alike are taken for what they say, and leak no address."""
    answer = await site.get(path)

    assert answer.status == status
    assert_headers(answer)


@pytest.mark.parametrize("settings", [GUARDED], ids=["guarded"])
async def test_refusals_have_the_headers(site: Site) -> None:
    """So do the answers before any handler."""
    for answer, status in (
        (await site.get("/"), 401),
        (await site.get("/", headers={"Host": "evil.example"}), 421),
        (await site.post("/api/v1/track", headers={"Origin": "null"}), 403),
    ):
        assert answer.status == status
        assert_headers(answer)

"""The token endpoint's answers, from a real local server: every odd one has its outcome."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs

import pytest
from aiohttp import web

from monitor.model.secrets import Secret
from monitor.workspace.access.token_endpoint import (
    NotRefreshed,
    Refreshed,
    RefreshOutcome,
    TokenEndpoint,
)
from monitor.workspace.settings import OauthSettings, WorkspaceSettings
from tests.workspace.scripted import answer, sending_bytes, serving

REFRESH_TOKEN = "refresh token/+&= of north"
CLIENT_SECRET = "secret of the client"
GOOD = {"access_token": "abc", "refresh_token": "def", "token_type": "Bearer", "expires_in": 300}


def endpoint(url: str, **changes: Any) -> TokenEndpoint:
    oauth = OauthSettings(token_url=f"{url}/as/token", client_id="af 08", **changes)
    return TokenEndpoint(WorkspaceSettings(name="north", url=url, oauth=oauth), oauth)


async def refreshed(body: object, status: int = 200, **headers: str) -> Refreshed | NotRefreshed:
    """Return what becomes of such an answer."""
    async with serving(answer(body, status=status, headers=headers)) as server:
        result: Refreshed | NotRefreshed = await endpoint(server.url).refresh(
            Secret(REFRESH_TOKEN), client_secret=Secret(CLIENT_SECRET)
        )
    return result


async def test_the_request_is_a_form() -> None:
    """As RFC 6749 writes it, with client secret and scope only where they are set."""
    forms: list[dict[str, list[str]]] = []

    async def take(request: web.Request) -> web.Response:
        assert request.content_type == "application/x-www-form-urlencoded"
        assert "Authorization" not in request.headers
        forms.append(parse_qs((await request.read()).decode()))
        return web.json_response(GOOD)

    async with serving(take, take) as server:
        await endpoint(server.url).refresh(Secret(REFRESH_TOKEN), client_secret=None)
        await endpoint(server.url, scope="a b").refresh(
            Secret(REFRESH_TOKEN), client_secret=Secret(CLIENT_SECRET)
        )
    least = {
        "grant_type": ["refresh_token"],
        "refresh_token": [REFRESH_TOKEN],
        "client_id": ["af 08"],
    }
    assert forms == [least, {**least, "client_secret": [CLIENT_SECRET], "scope": ["a b"]}]


@pytest.mark.parametrize(
    ("expires_in", "life"),
    [
        (300, 300.0),
        (0.5, 0.5),
        ("300", 300.0),
        (1e300, 366 * 86_400.0),
        (None, None),
        (0, None),
        (-5, None),
        ("soon", None),
        (True, None),
        ([300], None),
        ("nan", None),
    ],
)
async def test_an_odd_life_is_no_life(expires_in: object, life: float | None) -> None:
    """A token with an unreadable lifetime is used until it is refused."""
    result = await refreshed({**GOOD, "expires_in": expires_in})
    assert isinstance(result, Refreshed)
    assert result.life_seconds == life


@pytest.mark.parametrize("absent", [None, "", 5, ["x"], "two\nlines"])
async def test_an_answer_without_refresh_token_keeps_the_former(absent: object) -> None:
    """Where the endpoint does not rotate, the one that was sent stays valid."""
    result = await refreshed({**GOOD, "refresh_token": absent})
    assert isinstance(result, Refreshed)
    assert result.refresh_token is None
    assert result.access_token == Secret("abc")


@pytest.mark.parametrize(
    ("body", "status", "outcome"),
    [
        ({"error": "invalid_grant", "error_description": "used"}, 400, RefreshOutcome.REFUSED),
        ({"error": "invalid_client"}, 401, RefreshOutcome.REJECTED),
        ({"error": "invalid_scope"}, 400, RefreshOutcome.REJECTED),
        ("not found", 404, RefreshOutcome.REJECTED),
        ({"error": ["invalid_grant"]}, 400, RefreshOutcome.REJECTED),
        ({}, 302, RefreshOutcome.REJECTED),
        ({}, 429, RefreshOutcome.THROTTLED),
        ({"error": "invalid_grant"}, 503, RefreshOutcome.SERVER_ERROR),
        ({}, 200, RefreshOutcome.UNANSWERED),
        ([], 200, RefreshOutcome.UNANSWERED),
        ({**GOOD, "access_token": "two\nlines"}, 200, RefreshOutcome.UNANSWERED),
        ({**GOOD, "padding": "x" * 70_000}, 200, RefreshOutcome.UNANSWERED),
    ],
)
async def test_every_other_answer_has_its_outcome(
    body: object, status: int, outcome: RefreshOutcome
) -> None:
    """A refresh that was perhaps handled is not mixed up with one that was refused."""
    result = await refreshed(body, status)
    assert isinstance(result, NotRefreshed)
    assert result.outcome is outcome


async def test_the_wait_of_an_answer_is_taken() -> None:
    """An endpoint that is busy says how long."""
    result = await refreshed({}, 429, **{"Retry-After": "17"})
    assert isinstance(result, NotRefreshed)
    assert result.wait_seconds == 17.0


async def test_a_redirect_is_not_followed() -> None:
    """The refresh token does not travel to where an answer points."""
    async with serving(answer({})) as other:
        moved = answer({}, status=307, headers={"Location": f"{other.url}/as/token"})
        async with serving(moved) as server:
            result = await endpoint(server.url).refresh(Secret(REFRESH_TOKEN), client_secret=None)
        assert other.requests == []
    assert isinstance(result, NotRefreshed)
    assert result.outcome is RefreshOutcome.REJECTED


@pytest.mark.parametrize(
    "sent", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{", b"refresh\r\n\r\n"]
)
async def test_a_broken_answer_is_lost(sent: bytes) -> None:
    """The endpoint has had the request, so it may have been handled."""
    async with sending_bytes(sent) as url:
        result = await endpoint(url).refresh(Secret(REFRESH_TOKEN), client_secret=None)
    assert isinstance(result, NotRefreshed)
    assert result.outcome is RefreshOutcome.UNANSWERED


async def test_nothing_listens() -> None:
    """Without a connection nothing was sent."""
    result = await endpoint("http://127.0.0.1:9").refresh(Secret(REFRESH_TOKEN), client_secret=None)
    assert isinstance(result, NotRefreshed)
    assert result.outcome is RefreshOutcome.NOT_SENT


async def test_no_reason_repeats_a_secret() -> None:
    """An endpoint that repeats what it was sent does not spread it, nor colours of a terminal."""
    told = f"{REFRESH_TOKEN} of {CLIENT_SECRET} is \x1b[31mbad"
    result = await refreshed({"error": "invalid_grant", "error_description": told}, 400)
    assert isinstance(result, NotRefreshed)
    assert REFRESH_TOKEN not in result.reason
    assert CLIENT_SECRET not in result.reason
    assert "\x1b" not in result.reason
    assert "*** of *** is" in result.reason


async def test_no_repr_shows_a_token() -> None:
    """Neither of the endpoint nor of its answer."""
    result = await refreshed({**GOOD, "access_token": "hidden-1", "refresh_token": "hidden-2"})
    assert "hidden" not in repr(result)

"""What can be reached from outside, and by which door."""

from __future__ import annotations

from pathlib import Path

import aiohttp
import pytest

from monitor.callbacks.settings import ListenerSettings
from monitor.web.settings import ServerSettings
from tests.app import fixture
from tests.servers import free_port


async def test_the_door_for_callbacks_leads_nowhere_else(tmp_path: Path) -> None:
    """The public listener serves callbacks alone: no page, no metric, no admin API.

    On one port for all, who opens the door for callbacks opens it for everything.
    """
    port = free_port()
    settings = fixture.configuration(tmp_path, fixture.unreachable("acme"), callbacks_port=port)
    outside = ("/", "/metrics", "/healthz", "/api/v1/runs", "/api/v1/track")
    async with fixture.daemon(settings) as face, aiohttp.ClientSession() as session:
        shown = [await status(session, f"http://127.0.0.1:{port}{path}") for path in outside]
        hook = f"/hooks/acme/{fixture.SECRET.replace(' ', '%20')}"
        callback = {"job_id": "1", "status": "Complete"}
        accepted = await status(session, f"http://127.0.0.1:{port}{hook}", callback)
        inside = await status(session, face.url + hook, callback)

    assert shown == [404] * len(outside)
    assert accepted == 204
    assert inside in (404, 405)


async def test_no_callbacks_are_listened_for_unasked(tmp_path: Path) -> None:
    """Without the section there is no second door, and both stay with the machine by default."""
    port = ListenerSettings().port
    async with (
        fixture.daemon(fixture.configuration(tmp_path, fixture.unreachable("acme"))),
        aiohttp.ClientSession() as session,
    ):
        with pytest.raises(aiohttp.ClientConnectorError):
            await status(session, f"http://127.0.0.1:{port}/hooks/acme")
    assert {ListenerSettings().host, ServerSettings().host} == {"127.0.0.1"}


async def status(
    session: aiohttp.ClientSession, url: str, body: dict[str, str] | None = None
) -> int:
    sent = session.get(url) if body is None else session.post(url, json=body)
    async with sent as answer:
        return answer.status

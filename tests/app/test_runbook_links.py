"""The link of an alert to its runbook, followed from an output to the daemon's own page."""

from __future__ import annotations

import json
from pathlib import Path

import aiohttp
import msgspec

from monitor.sandbox.running.engine import Outcome
from monitor.web.settings import ServerSettings
from tests.app import fixture
from tests.app.eventually import eventually
from tests.app.test_notified import end_a_run, settings_of, webhook
from tests.outputs.receiving import PostReceiver
from tests.servers import free_port


async def test_the_receiver_of_an_alert_can_follow_its_link(tmp_path: Path) -> None:
    """The page that the link names is served by the daemon, and has the section of the rule."""
    workspace = fixture.sandbox()
    async with PostReceiver() as receiver, fixture.started(workspace) as url:
        settings = msgspec.structs.replace(
            settings_of(tmp_path, workspace, url, webhook(receiver, "alert.fired")),
            server=ServerSettings(listen=f"127.0.0.1:{free_port()}"),
        )
        async with fixture.daemon(settings) as face:
            await eventually(lambda: face.is_following("acme"), why="not followed")
            end_a_run(workspace, Outcome.FAILED)
            await eventually(lambda: bool(receiver.accepted), why="no alert came")
            alert = json.loads(receiver.accepted[0].body)["data"]
            link = alert["annotations"]["runbook_url"]
            assert link == f"{face.url}/runbooks#run_failed"
            async with aiohttp.ClientSession() as session, session.get(link) as answer:
                assert (answer.status, 'id="run_failed"' in await answer.text()) == (200, True)

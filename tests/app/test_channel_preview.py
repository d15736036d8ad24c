"""A daemon that shows what its channels would send about an alert, without sending it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from monitor.outputs.notify.settings import ChannelMatch, NotifySettings
from monitor.sandbox.running.engine import Outcome
from tests.app import fixture
from tests.app.eventually import eventually
from tests.app.test_alerts_outputs import end_a_run
from tests.outputs.channels import channel_settings, gotify, titles
from tests.outputs.receiving import PostReceiver


async def test_a_running_daemon_previews_its_messages(tmp_path: Path) -> None:
    """The message is the one that was sent; no preview sends another, and none has a secret."""
    workspace = fixture.sandbox()
    async with PostReceiver() as chat, fixture.started(workspace) as url:
        chat.text = "{}"
        others = ChannelMatch(pipeline=("something else",))
        notify = NotifySettings(
            channels=(
                channel_settings(gotify(chat)),
                channel_settings(gotify(chat), name="others", match=others),
            )
        )
        settings = msgspec.structs.replace(
            fixture.configuration(tmp_path, fixture.workspace_configuration(workspace, url)),
            outputs={"notify": notify},
        )
        async with fixture.daemon(settings) as face:
            await eventually(lambda: face.is_following("acme"), why="not followed")
            end_a_run(workspace, Outcome.FAILED)
            await eventually(lambda: len(titles(chat)) == 1, why="no message")
            (alert,) = (await face.json("/api/v1/alerts?state=firing"))["data"]

            text = await face.text(f"/api/v1/alerts/{alert['fingerprint']}/messages")
            rows: list[dict[str, Any]] = msgspec.json.decode(text)["data"]

            assert [row["channel"] for row in rows] == ["team", "others"]
            assert rows[0]["subject"] == titles(chat)[0]
            assert rows[1]["why_not"].startswith("match pipeline: ")
            assert "s3cr3t-t0ken" not in text
            assert len(chat.requests) == 1

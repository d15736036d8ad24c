"""Explanations and pages say of a channel whether it took an alert, and why it did not."""

from __future__ import annotations

from pathlib import Path

import msgspec

from monitor.outputs.notify.settings import ChannelMatch, NotifySettings
from monitor.sandbox.running.engine import Outcome
from tests.app import fixture
from tests.app.eventually import eventually
from tests.app.test_alerts_outputs import end_a_run
from tests.outputs.channels import channel_settings, gotify
from tests.outputs.receiving import PostReceiver


async def test_a_channel_that_is_about_others_has_notified_of_nothing(tmp_path: Path) -> None:
    """An alert that no channel is about is not shown as notified, and its explanation says why."""
    workspace = fixture.sandbox()
    async with (
        PostReceiver() as chat,
        fixture.started(workspace) as url,
    ):
        chat.text = "{}"
        settings = fixture.configuration(
            tmp_path, fixture.workspace_configuration(workspace, url), broker_url="mqtt://x"
        )
        match = ChannelMatch(pipeline=("something else",))
        notify = NotifySettings(channels=(channel_settings(gotify(chat), match=match),))
        settings = msgspec.structs.replace(settings, outputs={"notify": notify})
        async with fixture.daemon(settings) as face:
            await eventually(lambda: face.is_following("acme"), why="not followed")
            end_a_run(workspace, Outcome.FAILED)

            async def alerts() -> list[dict[str, object]]:
                return list((await face.json("/api/v1/alerts?state=firing"))["data"])

            async def has_fired() -> bool:
                return len(await alerts()) == 1

            await eventually(has_fired, why="no alert fired")
            (alert,) = await alerts()
            explained = await face.json(f"/api/v1/explain?alert={alert['fingerprint']}")
            details = [step["detail"] for step in explained["steps"]]
            assert chat.requests == []
    assert any(
        detail.startswith("notify:team does not take it: match pipeline: ")
        and "fits none of 'something else'" in detail
        for detail in details
    ), details

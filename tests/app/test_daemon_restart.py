"""A daemon that ends in the middle of things, in order or not, and comes back."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from monitor.catalogue.operations import Edition
from tests.app import fixture
from tests.app.eventually import eventually
from tests.app.mqtt_subscriber import Subscriber, ends_in, keeping_broker
from tests.app.processes import Settings, Watched, daemon_process


@pytest.mark.parametrize(
    ("ending", "protocol", "code", "last_words"),
    [
        (signal.SIGTERM, "3.1.1", 0, "stopped"),
        (signal.SIGKILL, "5", -signal.SIGKILL, "offline"),
    ],
    ids=["SIGTERM", "SIGKILL"],
)
async def test_nothing_is_lost_or_reported_twice_over_an_end_in_the_middle(
    tmp_path: Path, ending: signal.Signals, protocol: str, code: int, last_words: str
) -> None:
    """Two lives report each run once with one content, and go on counting where they stopped."""
    workspace, kinds = fixture.sandbox(), fixture.kinds_of(Edition.RL)
    async with (
        fixture.started(workspace) as url,
        keeping_broker(tmp_path) as broker,
        Subscriber(broker.port) as subscriber,
        daemon_process(
            Settings(
                tmp_path,
                Watched("acme", url, workspace.token),
                broker_url=broker.url,
                protocol=protocol,
                with_callbacks=True,
            )
        ) as daemon,
    ):
        await eventually(lambda: daemon.face.is_following("acme"), why="not followed")
        await eventually(daemon.face.has_webhook_tasks, why="no webhook tasks")
        workspace.open_for_work()
        await eventually(
            lambda: len(subscriber.received().ends()) >= 3 and bool(workspace.ledger.active()),
            why="nothing was published",
        )
        counted_before = await daemon.face.ends()
        assert await daemon.end(ending) == code
        ends_before = len(subscriber.received().ends())
        await fixture.until_ended(workspace, kinds, at_least=3)

        await daemon.start()
        counted_after = await daemon.face.ends()
        assert counted_before <= counted_after
        await fixture.until_quiet(workspace)
        await fixture.until_agreed(workspace, kinds, subscriber, daemon.face)

        received = subscriber.received()
        assert ends_before < len(received.ends())
        assert received.ambiguous() == []
        assert received.out_of_order() == {}
        assert received.ends() == ends_in(workspace.ledger, kinds)
        assert subscriber.states("bridge/monitor/state") == ["online", last_words, "online"]
        assert await daemon.end() == 0
        assert workspace.token not in daemon.log
        assert fixture.SECRET not in daemon.log

"""What happened, what was reported and what was counted are the same, run by run."""

from __future__ import annotations

from pathlib import Path

import pytest

from monitor.catalogue.operations import Edition
from tests.app import fixture
from tests.app.eventually import eventually
from tests.app.mqtt_subscriber import Subscriber, counted, ends_in, keeping_broker
from tests.clocks import FastClock
from tests.servers import free_port


@pytest.mark.parametrize("edition", [Edition.RL, Edition.PL])
async def test_ledger_subscriber_and_metrics_agree(tmp_path: Path, edition: Edition) -> None:
    """By polls and callbacks at once every run is reported once, in order, and counted once."""
    clock = FastClock()
    workspace, callbacks_port = fixture.sandbox(edition, clock=clock), free_port()
    kinds = fixture.kinds_of(edition)
    assert kinds == ("flow_run", "job_group", "plan_run")
    async with (
        fixture.started(workspace) as url,
        keeping_broker(tmp_path) as broker,
        Subscriber(broker.port) as subscriber,
        fixture.daemon(
            fixture.configuration(
                tmp_path,
                fixture.workspace_configuration(workspace, url, callbacks_port=callbacks_port),
                broker_url=broker.url,
                callbacks_port=callbacks_port,
            ),
            clock=clock,
        ) as face,
    ):
        await eventually(lambda: face.is_following("acme"), why="not followed")
        await eventually(face.has_webhook_tasks, why="no webhook tasks")
        workspace.open_for_work()
        await fixture.until_ended(workspace, kinds, at_least=3)
        await fixture.until_quiet(workspace)
        await fixture.until_agreed(workspace, kinds, subscriber, face)

        received = subscriber.received()
        assert received.out_of_order() == {}
        assert received.ambiguous() == []
        assert received.ends() == ends_in(workspace.ledger, kinds)
        assert await face.metric("dataprep_monitor_contradictions_total", workspace="acme") == 0
        accepted = "dataprep_monitor_callback_requests_total"
        assert await face.metric(accepted, outcome="accepted")
        assert (await face.readiness()).status == 200


async def test_where_nothing_is_listed_callbacks_report_every_job_group(tmp_path: Path) -> None:
    """In edition LE hand-made webhook tasks are enough for the three counts to agree."""
    clock, callbacks_port = FastClock(), free_port()
    workspace = fixture.sandbox(Edition.LE, cancel_ratio=0.0, clock=clock)
    kinds = fixture.kinds_of(Edition.LE)
    assert kinds == ("job_group",)
    async with (
        fixture.started(workspace) as url,
        keeping_broker(tmp_path) as broker,
        Subscriber(broker.port) as subscriber,
        fixture.daemon(
            fixture.configuration(
                tmp_path,
                fixture.workspace_configuration(
                    workspace, url, callbacks_port=callbacks_port, by_hand=True
                ),
                broker_url=broker.url,
                callbacks_port=callbacks_port,
            ),
            clock=clock,
        ) as face,
    ):
        await eventually(lambda: face.is_following("acme"), why="not followed")
        fixture.make_tasks_by_hand(workspace, callbacks_port)
        workspace.open_for_work()
        await fixture.until_ended(workspace, kinds, at_least=5)
        await fixture.until_quiet(workspace)
        await fixture.until_agreed(workspace, kinds, subscriber, face)

        received = subscriber.received()
        assert received.out_of_order() == {}
        assert counted(received.ends()) == counted(ends_in(workspace.ledger, kinds))

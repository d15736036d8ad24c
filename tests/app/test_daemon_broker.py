"""A broker that is away, from the start and later: nothing is lost for who keeps a session."""

from __future__ import annotations

from pathlib import Path

from monitor.catalogue.operations import Edition
from tests.app import fixture
from tests.app.eventually import eventually
from tests.app.mqtt_subscriber import Subscriber, keeping_broker
from tests.clocks import FastClock


async def test_a_broker_that_comes_and_goes_costs_no_event(tmp_path: Path) -> None:
    """Down at the start, up, down again in the middle, up again: each run is reported once."""
    clock, kinds = FastClock(), fixture.kinds_of(Edition.RL)
    workspace = fixture.sandbox(clock=clock)
    async with (
        fixture.started(workspace) as url,
        keeping_broker(tmp_path) as broker,
        Subscriber(broker.port) as subscriber,
    ):
        # The session is made before the daemon lives; the broker keeps it on disk.
        await broker.stop()
        settings = fixture.configuration(
            tmp_path, fixture.workspace_configuration(workspace, url), broker_url=broker.url
        )
        async with fixture.daemon(settings, clock=clock) as face:
            await eventually(lambda: face.is_following("acme"), why="not followed")
            workspace.open_for_work()
            await fixture.until_ended(workspace, kinds, at_least=1)
            readiness = await face.readiness()
            assert readiness.status == 503
            assert not readiness.checks["mqtt"]["ok"]
            assert "not connected" in readiness.checks["mqtt"]["detail"]
            assert readiness.checks["polls"]["ok"]
            assert subscriber.received().events == {}

            await broker.start()
            await eventually(
                lambda: bool(subscriber.received().ends()), why="nothing was published"
            )
            assert (await face.readiness()).status == 200
            await broker.stop()
            await fixture.until_ended(workspace, kinds, at_least=3)
            broken = "dataprep_monitor_mqtt_connected"
            await eventually(lambda: face.shows(broken, 0), why="the loss was not noticed")

            await broker.start()
            await fixture.until_quiet(workspace)
            await fixture.until_agreed(workspace, kinds, subscriber, face)
            assert subscriber.received().out_of_order() == {}
            assert subscriber.received().ambiguous() == []

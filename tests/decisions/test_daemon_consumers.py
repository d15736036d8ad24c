"""Who reads the log of a whole daemon: outputs that come, go, fall behind, or fail."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import msgspec
from prometheus_client import CollectorRegistry

from monitor.bus.contract import Retention
from monitor.bus.settings import StorageSettings, store_path
from monitor.bus.sqlite import SqliteBus
from monitor.catalogue.operations import Edition
from monitor.config import Configuration
from monitor.model.clock import SystemClock
from monitor.sandbox.sandbox import Sandbox
from tests.app import fixture
from tests.app.daemon_http import Face
from tests.app.eventually import eventually
from tests.app.mqtt_subscriber import Subscriber, counted, ends_in, keeping_broker
from tests.clocks import FastClock
from tests.servers import Relay

OUTCOMES = "dataprep_monitor_notifications_total"
KINDS = fixture.kinds_of(Edition.RL)
KEPT_EVENTS = 8  # of the log that overtakes an output


async def let_some_end(workspace: Sandbox, face: Face) -> None:
    """Let runs of the quick kinds end, and all be counted."""
    await eventually(lambda: face.is_following("acme"), why="not followed")
    before = len(ends_in(workspace.ledger, KINDS))
    for flow in list(workspace.world.flows.live())[:4]:
        workspace.engine.start_flow_run(flow, by=11)
    await eventually(lambda: not workspace.ledger.active(), why="the sandbox is slow")
    happened = ends_in(workspace.ledger, KINDS)
    assert len(happened) > before

    async def are_counted() -> bool:
        return await face.ends() == counted(happened)

    await eventually(are_counted, why=lambda: f"not counted: {counted(happened)}")


async def test_a_consumer_is_added_and_removed(tmp_path: Path) -> None:
    """A new output publishes what happens from now on; one that is gone holds no event for itself.

    From the oldest event on, each new output would show last month's failures again. With a
    place that stays, retention would wait forever for who never comes back.
    """
    clock = FastClock()
    workspace = fixture.sandbox(speed=1_000, clock=clock)
    async with (
        fixture.started(workspace) as url,
        keeping_broker(tmp_path) as broker,
        Subscriber(broker.port) as subscriber,
    ):
        watched = fixture.workspace_configuration(workspace, url)
        without = fixture.configuration(tmp_path, watched)
        async with fixture.daemon(without, clock=clock) as face:
            await let_some_end(workspace, face)
        former = ends_in(workspace.ledger, KINDS)

        with_mqtt = fixture.configuration(tmp_path, watched, broker_url=broker.url)
        async with fixture.daemon(with_mqtt, clock=clock) as face:
            await let_some_end(workspace, face)
        new = ends_in(workspace.ledger, KINDS) - former
        await eventually(
            lambda: subscriber.received().ends() >= new, why=lambda: subscriber.received().ends()
        )
        assert subscriber.received().ends() == new

        async with fixture.daemon(without, clock=clock) as face:
            await let_some_end(workspace, face)
        await all_events_may_leave(without)


def with_short_log(settings: Configuration) -> Configuration:
    return msgspec.structs.replace(
        settings,
        storage=StorageSettings(
            url=settings.storage.url,
            prune_seconds=0.3,
            retention=Retention(events_count=KEPT_EVENTS, events_hard_cap=KEPT_EVENTS),
        ),
        # With a cap of a few events, a second's rest would let them go uncounted.
        metrics=msgspec.structs.replace(settings.metrics, pause_seconds=0.01),
    )


def events_in(settings: Configuration) -> int:
    """Return how many events the log in the file holds."""
    with closing(
        sqlite3.connect(f"file:{store_path(settings.storage.url)}?mode=ro", uri=True)
    ) as file:
        (count,) = file.execute("SELECT count(*) FROM event").fetchone()
    return int(count)


async def all_events_may_leave(settings: Configuration) -> None:
    bus = await SqliteBus.open(settings.storage, clock=SystemClock(), registry=CollectorRegistry())
    consumers = (await bus.status()).consumers
    assert {consumer.consumer for consumer in consumers} == {"metrics", "alerting"}
    await bus.prune(Retention(events_count=0), now=SystemClock().now())
    # These two store their position at most once a second, so a few events may be left for them.
    slowest = min(consumer.position for consumer in consumers)
    assert all(event.position > slowest for event in await bus.events(after=0, limit=1_000))
    await bus.close()


async def test_retention_overtakes_a_consumer(tmp_path: Path) -> None:
    """An output that was down too long misses what expired, publishes how much, and continues.

    Waiting for it without end fills the disk; passing over the gap in silence hides the loss.
    """
    workspace = fixture.sandbox(speed=1_000)
    async with (
        fixture.started(workspace) as url,
        keeping_broker(tmp_path) as broker,
        Subscriber(broker.port) as subscriber,
    ):
        await broker.stop()
        settings = fixture.configuration(
            tmp_path, fixture.workspace_configuration(workspace, url), broker_url=broker.url
        )
        settings = with_short_log(settings)
        async with fixture.daemon(settings) as face:
            await let_some_end(workspace, face)
            lost = "dataprep_monitor_events_lost_total"
            await eventually(
                lambda: events_in(settings) <= KEPT_EVENTS, why="what is over the cap stays"
            )
            await broker.start()

            async def is_lost_event_published() -> bool:
                return bool(await face.metric(lost, consumer="mqtt"))

            await eventually(is_lost_event_published, why="the loss is not published")
            await eventually(
                lambda: face.shows("dataprep_monitor_consumer_backlog", 0, consumer="mqtt"),
                why="the output does not go on",
            )

            async def accounts() -> dict[str, float]:
                return {
                    # Events of alerts too: their topics end with the word.
                    "published": len(subscriber.received("/event").events),
                    "lost by mqtt": await face.total(lost, consumer="mqtt"),
                    "skipped": await face.total(OUTCOMES, output="mqtt", outcome="skipped"),
                    "counted": await face.total("dataprep_monitor_events_total"),
                    "lost by metrics": await face.total(lost, consumer="metrics"),
                }

            latest: dict[str, float] = {}

            async def all_is_accounted_for() -> bool:
                latest.update(await accounts())
                # On a busy machine metrics may be overtaken too: both accounts are of one log.
                return (
                    latest["published"] + latest["lost by mqtt"] + latest["skipped"]
                    == latest["counted"] + latest["lost by metrics"]
                )

            await eventually(all_is_accounted_for, why=lambda: f"it does not add up: {latest}")


async def test_a_failing_output_beside_healthy_ones(tmp_path: Path) -> None:
    """A broker that accepts connections and never answers delays neither metrics nor page.

    Where events go out one output after the other, the slowest of them stops all.
    """
    clock = FastClock()
    workspace = fixture.sandbox(speed=1_000, clock=clock)
    async with (
        fixture.started(workspace) as url,
        keeping_broker(tmp_path) as broker,
        Subscriber(broker.port) as subscriber,
        Relay(broker.port) as relay,
    ):
        relay.is_deaf = True
        settings = fixture.configuration(
            tmp_path,
            fixture.workspace_configuration(workspace, url),
            broker_url=f"mqtt://127.0.0.1:{relay.port}",
        )
        async with fixture.daemon(settings, clock=clock) as face:
            await let_some_end(workspace, face)
            happened = ends_in(workspace.ledger, KINDS)
            assert relay.has_more_than(0)
            readiness = await face.readiness()
            assert not readiness.checks["mqtt"]["ok"]
            assert readiness.checks["polls"]["ok"]
            runs = (await face.json("/api/v1/runs?limit=500"))["data"]
            assert {(run["kind"], run["id"], run["status"]) for run in runs} == happened
            assert subscriber.received().events == {}

            relay.is_deaf = False
            relay.cut()
            await eventually(lambda: subscriber.received().ends() == happened, why="not caught up")

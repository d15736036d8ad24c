"""A file with everything that a store can hold, and what comes out where it is carried to."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from itertools import count
from pathlib import Path

import msgspec
from prometheus_client import CollectorRegistry

from monitor.alerting.alerts.instance import AlertInstance, AlertSpan, FingerprintHistory
from monitor.alerting.alerts.pending_step import FirstEvaluated, TransitionCount
from monitor.app.store_routing import OneShard, SameShards, ShardsOfWorkspaces
from monitor.bus.contract import Change, DeadLetter, Start, StateEntry, Step
from monitor.bus.postgres_address import postgres_address
from monitor.bus.sqlite import SqliteBus
from monitor.bus.transfer.postgres_side import PostgresSource, PostgresTarget
from monitor.bus.transfer.sqlite_side import SqliteSource, SqliteTarget
from monitor.bus.transfer.store_transfer import StoreTransfer
from monitor.bus.transfer.sums import Sums
from monitor.bus.transfer.tables import ShardRow, StoreTable, TransferSource
from monitor.model.alerts import BRIDGE, Alert, AlertState, Severity, Silence
from monitor.model.events import AlertEvent, Event, EventType, RunEvent, run_event_id
from monitor.model.runs import RunKey, RunKind, Source, Status
from monitor.outputs.metrics.rows import AwaitedDurations, Identity, RunCounts
from tests.bus.examples import NOW, SOON, at, callback, run
from tests.clocks import ManualClock

WORKSPACES = ("acme", "beta", "gamma")
ODD = "k\0e\\y"  # what a text of PostgreSQL cannot hold, and what stands for it
EVENTS = 30


def run_event(number: int) -> RunEvent:
    """Return the start of a run; the workspaces take turns."""
    state = run(number, workspace=WORKSPACES[number % 3])
    return RunEvent(
        id=run_event_id(state.key, EventType.RUN_STARTED),
        type=EventType.RUN_STARTED,
        run=state,
        before=None,
        occurred_at=state.created_at,
        recorded_at=at(number),
        observed_by=Source.POLL,
    )


def alert(workspace: str, fingerprint: str) -> Alert:
    return Alert(
        fingerprint=fingerprint,
        name="run_failed",
        rule="run_failed",
        severity=Severity.CRITICAL,
        state=AlertState.FIRING,
        labels={"workspace": workspace},
        templates={},
        starts_at=NOW,
        workspace=workspace,
    )


def alert_event(second: int, workspace: str, fingerprint: str) -> AlertEvent:
    return AlertEvent(
        id=f"alert:{fingerprint}:x:fired",
        type=EventType.ALERT_FIRED,
        alert=alert(workspace, fingerprint),
        occurred_at=NOW,
        recorded_at=at(second),
    )


ALL_EVENTS: tuple[Event, ...] = (
    *map(run_event, range(EVENTS)),
    alert_event(EVENTS + 1, "acme", "f-acme"),
    alert_event(EVENTS + 2, BRIDGE, "f-daemon"),
    alert_event(EVENTS + 3, "beta", "f-past"),
)
NEWEST = len(ALL_EVENTS)


def metrics_state() -> dict[str, bytes | None]:
    identity = Identity("acme", RunKind.JOB_GROUP, "7")
    counts = RunCounts(identity=identity, ended={Status.SUCCEEDED: 5}, touched_at=NOW)
    awaited = AwaitedDurations(
        runs=tuple(RunKey(name, RunKind.JOB_GROUP, "1") for name in ("acme", "beta"))
    )
    return {row.key: msgspec.json.encode(row) for row in (counts, awaited)}


def alerting_state() -> dict[str, bytes | None]:
    silence = Silence(
        id="s1",
        matchers=("workspace=acme",),
        author="a",
        comment="c",
        starts_at=NOW,
        ends_at=NOW + timedelta(hours=1),
        origin="api",
    )
    rows = {
        "e:f-acme": AlertInstance(alert=alert("acme", "f-acme"), since=NOW),
        "e:f-daemon": AlertInstance(alert=alert(BRIDGE, "f-daemon"), since=NOW),
        "p:f-past": FingerprintHistory(spans=(AlertSpan(starts_at=NOW, ends_at=NOW),)),
        "f:run_failed:beta:job_group": FirstEvaluated(at=NOW),
        "m:not_fresh:pipeline:gamma:job_group:7:": FirstEvaluated(at=NOW),
        "b:pipeline:gamma:job_group:7:": FirstEvaluated(at=NOW),
        "t:run_failed:fired": TransitionCount(count=3),
        "s:s1": silence,
    }
    return {key: msgspec.json.encode(row) for key, row in rows.items()}


async def fill(path: Path, *, unread: str = "mqtt") -> None:
    """Make a store; the consumer ``unread`` has read ten events, the others all."""
    bus = await SqliteBus.open(path, clock=ManualClock(), registry=CollectorRegistry())
    for consumer in ("metrics", "alerting", "mqtt", "misses/beta"):
        await bus.subscribe(consumer, start=Start.OLDEST)
    entries = [
        *(StateEntry(workspace=name, topic="t", key=ODD, value=b"v") for name in WORKSPACES),
        StateEntry(workspace=BRIDGE, topic="readiness", key="probe", value=b""),
    ]
    runs = tuple(event.run for event in ALL_EVENTS if isinstance(event, RunEvent))
    await bus.commit(
        Change(
            runs=runs,
            events=ALL_EVENTS,
            state_entries=tuple(entries),
            arrived=(callback(1, workspace="acme"),),
        ),
        timeout_seconds=SOON,
    )
    await bus.receive(callback(2, workspace="beta"), inbox_bound=10, timeout_seconds=SOON)
    letter = DeadLetter(position=5, event=ALL_EVENTS[4], reason="no", refused_at=NOW)
    retained = {f"retained:h:1 dataprep/v1/{name}/state": b"1" for name in WORKSPACES}
    steps = (
        Step(consumer="metrics", state=metrics_state()),
        Step(consumer="alerting", state=alerting_state()),
        Step(consumer="mqtt", state={**retained}, dead_letters=(letter,)),
        Step(consumer="misses/beta"),
    )
    for step in steps:
        position = 10 if step.consumer == unread else NEWEST
        await bus.advance(msgspec.structs.replace(step, position=position), timeout_seconds=SOON)
    await bus.close()


Stored = dict[StoreTable, list[ShardRow]]


async def stored_in(source: TransferSource) -> Stored:
    return {table: [row async for row in source.rows(table)] for table in StoreTable}


async def in_file(path: Path) -> Stored:
    """Return everything that a file holds."""
    source = SqliteSource(path, now=NOW)
    try:
        return await stored_in(source)
    finally:
        source.close()


@asynccontextmanager
async def database_source(url: str) -> AsyncIterator[PostgresSource]:
    source = await PostgresSource.open(postgres_address(url), None)
    try:
        yield source
    finally:
        await source.close()


async def in_database(url: str) -> Stored:
    """Return everything that a database holds."""
    async with database_source(url) as source:
        return await stored_in(source)


async def to_database(
    path: Path, url: str, shards: dict[str, str] | None = None, *, stop_after: int | None = None
) -> Sums:
    """Carry a file into a database; with ``stop_after`` it breaks after so many batches."""
    source = SqliteSource(path, now=NOW)
    target = await PostgresTarget.open(postgres_address(url), None)
    try:
        [end] = (await source.shards()).values()
        routing = ShardsOfWorkspaces(end.workspaces, shards or {})
        on_progress = breaking(stop_after)
        transfer = StoreTransfer(source, target, routing, on_progress=on_progress, batch_rows=7)
        return await transfer.run()
    finally:
        source.close()
        await target.close()


def breaking(after: int | None) -> Callable[[str, int], None]:
    """Return what breaks a transfer after so many batches."""
    batches = count(1)

    def on_progress(_part: str, _rows: int) -> None:
        if next(batches) == after:
            raise KeyboardInterrupt

    return on_progress


async def to_file(url: str, path: Path, *, stop_after: int | None = None) -> Sums:
    """Carry a database into a file; with ``stop_after`` it breaks after so many batches."""
    target = SqliteTarget(path, now=NOW)
    try:
        async with database_source(url) as source:
            on_progress = breaking(stop_after)
            transfer = StoreTransfer(
                source, target, OneShard(), on_progress=on_progress, batch_rows=7
            )
            return await transfer.run()
    finally:
        target.close()


async def to_other_database(url: str, other_url: str) -> Sums:
    """Carry a database into another one."""
    target = await PostgresTarget.open(postgres_address(other_url), None)
    try:
        async with database_source(url) as source:
            transfer = StoreTransfer(source, target, SameShards(), on_progress=lambda *_: None)
            return await transfer.run()
    finally:
        await target.close()

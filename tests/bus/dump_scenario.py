"""A store with everything that one can hold, its dumps, and what comes out where they go."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from pathlib import Path

import msgspec
from prometheus_client import CollectorRegistry

from monitor.alerting.alerts.instance import AlertInstance, AlertSpan, FingerprintHistory
from monitor.alerting.alerts.pending_step import FirstEvaluated, TransitionCount
from monitor.app.consumer_states import WorkspaceStates
from monitor.bus.contract import Change, DeadLetter, Start, StateEntry, Step
from monitor.bus.contract.store_entries import AUDIT_TOPIC, FORM_TOPIC, SESSION_TOPIC
from monitor.bus.dump import postgres_store, sqlite_store
from monitor.bus.dump.dump_file import DumpReader
from monitor.bus.dump.dump_records import (
    Counts,
    DumpSource,
    DumpTarget,
    Shard,
    ShardRow,
    Shards,
    StoreTable,
)
from monitor.bus.dump.dumping import Import, OnProgress, export_store
from monitor.bus.dump.routing import place_in_database, place_in_dump, place_in_file
from monitor.bus.postgres_address import is_postgres, postgres_address
from monitor.bus.settings import store_path
from monitor.bus.sqlite import SqliteBus
from monitor.bus.sqlite.sole_shard import SqliteStore
from monitor.bus.trusted_time import JudgedTime
from monitor.model.alerts import BRIDGE, Alert, AlertState, Severity, Silence
from monitor.model.events import AlertEvent, Event, EventType, RunEvent, run_event_id
from monitor.model.runs import RunKey, RunKind, Source, Status
from monitor.outputs.metrics.counter_rows import AwaitedDurations, Identity, RunCounts
from tests.bus.examples import NOW, SOON, at, callback, run
from tests.clocks import ManualClock

WORKSPACES = ("acme", "beta", "gamma")
ODD = "k\0e\\y"  # what a text of PostgreSQL cannot hold, and what stands for it
EVENTS = 30
# Under the name of the daemon: up to when a report was dealt with.
REPORT_HANDLED = StateEntry(
    workspace=BRIDGE, topic="reports", key="last-night", value=b'{"until":"2026-11-21T07:00:00Z"}'
)


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
        StateEntry(workspace="acme", topic="oauth", key="tokens", value=b"\xff a token pair"),
        REPORT_HANDLED,
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
    for topic in (AUDIT_TOPIC, FORM_TOPIC, SESSION_TOPIC):
        await bus.entries.put(topic, {"k1": b"\xff", "k2": b"{}"}, timeout_seconds=SOON)
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
    # The present clock judges ages in whatever the dump is loaded into.
    await SqliteStore(bus, clock=ManualClock()).keep_judged(JudgedTime.first(NOW))
    await bus.close()


Stored = dict[StoreTable, list[ShardRow]]


def source_of(url: str) -> AbstractAsyncContextManager[DumpSource]:
    """Return the store of a URL, to read it."""
    if is_postgres(url):
        return postgres_store.open_source(postgres_address(url), None)
    return sqlite_store.open_source(store_path(url))


def target_of(url: str) -> AbstractAsyncContextManager[DumpTarget]:
    """Return the store of a URL, to fill it."""
    if is_postgres(url):
        return postgres_store.open_target(postgres_address(url), None)
    return sqlite_store.open_target(store_path(url), now=NOW)


def states_of(shards: Shards) -> WorkspaceStates:
    return WorkspaceStates({name for shard in shards.values() for name in shard.workspaces})


def ignored(_done: int) -> None:
    """Show no progress."""


async def exported(
    url: str,
    dump: Path,
    *,
    workspace: str | None = None,
    shard: str | None = None,
    on_progress: OnProgress = ignored,
) -> Path:
    """Write the dump of a store, and return where."""
    async with source_of(url) as source:
        await export_store(
            source,
            dump,
            place_in_dump(workspace=workspace, shard=shard),
            states_of(await source.shards()),
            version="1.0",
            now=NOW,
            on_progress=on_progress,
        )
    return dump


async def imported(
    dump: Path,
    url: str,
    shards: Mapping[str, str] | None = None,
    *,
    on_progress: OnProgress = ignored,
) -> Counts:
    """Load a dump into a store; ``shards`` are those of workspaces in the configuration."""
    reader = DumpReader(dump)
    stored = reader.header.shards
    place = place_in_database(stored, shards or {}) if is_postgres(url) else place_in_file
    work = Import(reader, place, states_of(stored))
    work.plan(ignored)
    return await work.run(target_of(url), on_progress=on_progress)


async def carried(
    url: str,
    to: str,
    dump: Path,
    shards: Mapping[str, str] | None = None,
    *,
    workspace: str | None = None,
) -> None:
    """Carry a store, or one of its workspaces, into another one."""
    await imported(await exported(url, dump, workspace=workspace), to, shards)


async def stored_in(url: str) -> Stored:
    """Return everything that a store has and a dump of it, by table."""
    async with source_of(url) as source:
        stored = {table: [row async for row in source.rows(table)] for table in StoreTable}
    entries = stored[StoreTable.STORE_ENTRY]
    stored[StoreTable.STORE_ENTRY] = [entry for entry in entries if entry.row[0] == AUDIT_TOPIC]
    return stored


async def shards_of(url: str) -> dict[str, Shard]:
    async with source_of(url) as source:
        return await source.shards()


def file_url(path: Path) -> str:
    return f"sqlite://{path}"

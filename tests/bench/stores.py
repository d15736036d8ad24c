"""Transitions a second: PostgreSQL beside SQLite, and beside a bare writer of the same rows.

Many tasks commit one transition each and wait for it, as observers do; a transition is the row of
a run and an event. The bare writer has no queue, no fence, no contract: it sends rows that were
encoded before to tables like the store's, as many to a transaction as tasks wait on the other
sides, by the library alone. All three take turns in one run, and in being the first, each on a
store that syncs to the disk before it answers.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from tempfile import TemporaryDirectory

import asyncpg
from msgspec import Struct
from prometheus_client import CollectorRegistry

from monitor import logs
from monitor.app.store_opening import open_store
from monitor.bus.contract import Change, EventBus
from monitor.bus.postgres.connections.connecting import Connection
from monitor.bus.postgres.writing.rows import ShardRows, rows_of_change
from monitor.bus.settings import StorageSettings
from monitor.bus.shards import ShardDefinition, ShardGranted, WorkspaceIdentity
from monitor.model.clock import SystemClock
from monitor.model.events import STATUS_EVENTS, RunEvent, run_event_id
from monitor.model.runs import RunKey, RunKind, RunState, Source, Status
from tests.bench.figures import Figure, ratios, table
from tests.postgres_server import PostgresServer

TITLE = "Transitions a second of each store"
_WORKSPACE = "bench"
_COMMIT_SECONDS = 60.0
_BARE_TABLES = """
CREATE TABLE bare_run (LIKE run INCLUDING ALL);
CREATE TABLE bare_event (LIKE event INCLUDING ALL);
"""
_BARE_RUNS = """
INSERT INTO bare_run (shard, workspace, kind, id, status, created_at, ended_at, flow_run, plan_run,
    pipeline_id, body) SELECT * FROM unnest($1::int[], $2::text[], $3::text[], $4::text[],
    $5::text[], $6::bigint[], $7::bigint[], $8::text[], $9::text[], $10::text[], $11::bytea[])
ON CONFLICT (workspace, kind, id) DO UPDATE SET status = excluded.status,
    created_at = excluded.created_at, ended_at = excluded.ended_at, flow_run = excluded.flow_run,
    plan_run = excluded.plan_run, pipeline_id = excluded.pipeline_id, body = excluded.body
"""
_BARE_EVENTS = """
INSERT INTO bare_event (shard, position, recorded_at, id, body)
SELECT * FROM unnest($1::int[], $2::bigint[], $3::bigint[], $4::text[], $5::bytea[])
"""
_SHARD = 1

Transitions = list[ShardRows]  # of one run and one event each


class Sizes(Struct, frozen=True, kw_only=True):
    """Sizes of the measurement."""

    repetitions: int = 5
    transitions: int = 6_000  # in each repetition
    at_once: tuple[int, ...] = (128, 1_000)  # transitions that wait at the same time


async def measure(sizes: Sizes | None = None) -> list[Figure]:
    """Return the rate of each side, and the ratios of PostgreSQL to the other two."""
    sizes = sizes or Sizes()
    logs.configure(level="warning")
    with TemporaryDirectory() as folder:
        server = PostgresServer(is_durable=True)
        async with server:
            database = server.url(await server.create_database())
            async with (
                _granted(f"sqlite://{folder}/state.db") as sqlite,
                _granted(database) as postgres,
                _bare(database) as bare,
            ):
                figures = [
                    await _figures(postgres, sqlite, bare, at_once=at_once, sizes=sizes)
                    for at_once in sizes.at_once
                ]
    return [figure for some in figures for figure in some]


async def _figures(
    postgres: EventBus, sqlite: EventBus, bare: Connection, *, at_once: int, sizes: Sizes
) -> list[Figure]:
    """Let the three sides take turns with so many transitions that wait at the same time."""
    rates: dict[str, list[float]] = {"PostgreSQL": [], "SQLite": [], "bare asyncpg writer": []}
    for number in range(-1, sizes.repetitions):
        changes = _changes(f"{at_once}-{number}", sizes.transitions)
        rows = [rows_of_change(change, shard=_SHARD, now=datetime.now(UTC)) for change in changes]
        sides = [
            partial(_commit_all, postgres, changes, at_once),
            partial(_commit_all, sqlite, changes, at_once),
            partial(_bare_commits, bare, rows, at_once),
        ]
        turns = list(zip(rates.values(), sides, strict=True))
        for measured, commit in turns if number % 2 == 0 else reversed(turns):
            began = time.perf_counter()
            await commit()
            if number >= 0:  # the first repetition only warms all up
                measured.append(sizes.transitions / (time.perf_counter() - began))
    ours, embedded, theirs = (
        Figure(
            name=f"{at_once:,} at once: transitions, {side}",
            values=tuple(values),
            unit="/s",
            better="higher",
        )
        for side, values in rates.items()
    )
    beside_bare = f"{at_once:,} at once: PostgreSQL / bare writer"
    beside_sqlite = f"{at_once:,} at once: PostgreSQL / SQLite"
    return [
        *(ours, embedded, theirs),
        ratios(beside_bare, ours, theirs, target=0.7),
        ratios(beside_sqlite, ours, embedded),
    ]


@asynccontextmanager
async def _granted(url: str) -> AsyncIterator[EventBus]:
    """Yield the bus of one shard of a store."""
    store = await open_store(
        StorageSettings(url=url, daemon="bench"), clock=SystemClock(), registry=CollectorRegistry()
    )
    try:
        name = "" if url.startswith("sqlite") else _WORKSPACE
        identity = WorkspaceIdentity(name=_WORKSPACE, url="https://bench.example")
        await store.define([ShardDefinition(name=name, workspaces=(identity,), digest="same")])
        async with asyncio.timeout(_COMMIT_SECONDS):
            change = await store.next_change()
        if not isinstance(change, ShardGranted):
            raise TypeError(change)
        yield change.bus
        await store.release(name)
    finally:
        await store.close()


async def _commit_all(bus: EventBus, changes: list[Change], at_once: int) -> None:
    waiting = iter(changes)

    async def commit_some() -> None:
        for change in waiting:
            await bus.commit(change, timeout_seconds=_COMMIT_SECONDS)

    async with asyncio.TaskGroup() as group:
        for number in range(at_once):
            group.create_task(commit_some(), name=f"committer {number}")


@asynccontextmanager
async def _bare(url: str) -> AsyncIterator[Connection]:
    connection = await asyncpg.connect(url, ssl=False)
    try:
        await connection.execute(_BARE_TABLES)
        yield connection
    finally:
        await connection.close()


async def _bare_commits(connection: Connection, rows: Transitions, at_once: int) -> None:
    newest: int = await connection.fetchval("SELECT coalesce(max(position), 0) FROM bare_event")
    for start in range(0, len(rows), at_once):
        piece = rows[start : start + at_once]
        runs = [transition.runs[0] for transition in piece]
        events = [
            (_SHARD, position, event.recorded_at, event.id, event.body)
            for position, (event,) in enumerate((row.events for row in piece), newest + start + 1)
        ]
        async with connection.transaction():
            await connection.execute(_BARE_RUNS, *zip(*runs, strict=True))
            await connection.execute(_BARE_EVENTS, *zip(*events, strict=True))


def _changes(name: str, count: int) -> list[Change]:
    """Return the starts of runs, then their ends, each a change of its own."""
    now = datetime.now(UTC)
    changes: list[Change] = []
    for number in range(count):
        status = Status.RUNNING if number < count // 2 else Status.SUCCEEDED
        key = RunKey(_WORKSPACE, RunKind.JOB_GROUP, f"{name}-{number % (count // 2)}")
        run = RunState(
            key=key,
            status=status,
            created_at=now,
            started_at=now,
            finished_at=now if status.is_terminal else None,
            confirmed_at=now,
            confirmed_by=Source.POLL,
        )
        kind = STATUS_EVENTS[status]
        event = RunEvent(
            id=run_event_id(key, kind),
            type=kind,
            run=run,
            before=None,
            occurred_at=now,
            recorded_at=now,
            observed_by=Source.POLL,
        )
        changes.append(Change(runs=(run,), events=(event,)))
    return changes


if __name__ == "__main__":
    sys.stdout.write(table(TITLE, asyncio.run(measure())))

"""Transitions a second: PostgreSQL beside SQLite, and beside a bare writer of the same rows.

Many tasks commit one transition each and wait for it, as observers do; a transition is the row of
a run and an event. The bare writer has no queue, no fence, no contract: it sends rows that were
encoded before, as many to a transaction as tasks wait on the other sides, by the library alone.
All three take turns in one run, each on a store that syncs to the disk before it answers.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from tempfile import TemporaryDirectory

import asyncpg
import msgspec
from msgspec import Struct
from prometheus_client import CollectorRegistry

from monitor import logs
from monitor.app.store import open_store
from monitor.bus.contract import Change, EventBus
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
CREATE TABLE bare_run (workspace text, kind text, id text, status text, created_at bigint,
    ended_at bigint, body bytea, PRIMARY KEY (workspace, kind, id));
CREATE INDEX ON bare_run (workspace, created_at) WHERE ended_at IS NULL;
CREATE INDEX ON bare_run (workspace, kind, status, created_at);
CREATE INDEX ON bare_run (ended_at) WHERE ended_at IS NOT NULL;
CREATE TABLE bare_event (shard integer, position bigint, id text, recorded_at bigint, body bytea,
    PRIMARY KEY (shard, position), UNIQUE (id, shard));
CREATE INDEX ON bare_event (shard, recorded_at, position);
"""
_BARE_RUNS = """
INSERT INTO bare_run SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[],
    $5::bigint[], $6::bigint[], $7::bytea[])
ON CONFLICT (workspace, kind, id) DO UPDATE SET status = excluded.status,
    created_at = excluded.created_at, ended_at = excluded.ended_at, body = excluded.body
"""
_BARE_EVENTS = """
INSERT INTO bare_event SELECT 1, * FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::bytea[])
"""
_encode = msgspec.json.Encoder().encode


class Sizes(Struct, frozen=True, kw_only=True):
    """Sizes of the measurement."""

    repetitions: int = 5
    transitions: int = 6_000  # in each repetition
    at_once: int = 128  # transitions that wait at the same time


class _Sides(Struct, kw_only=True):
    """Transitions a second, for each repetition."""

    postgres: list[float] = []
    sqlite: list[float] = []
    bare: list[float] = []


async def measure(sizes: Sizes | None = None) -> list[Figure]:
    """Return the rate of each side, and the ratios of PostgreSQL to the other two."""
    sizes = sizes or Sizes()
    logs.configure(level="warning")
    sides = _Sides()
    with TemporaryDirectory() as folder:
        server = PostgresServer(is_durable=True)
        async with server:
            database = server.url(await server.create_database())
            async with (
                _granted(f"sqlite://{folder}/state.db") as sqlite,
                _granted(database) as postgres,
                _bare(database) as bare,
            ):
                for number in range(-1, sizes.repetitions):
                    for commit, rates in (
                        (_through(postgres, sizes), sides.postgres),
                        (_through(sqlite, sizes), sides.sqlite),
                        (lambda changes: _bare_commits(bare, changes, sizes), sides.bare),
                    ):
                        changes = _changes(number, sizes.transitions)
                        began = time.perf_counter()
                        await commit(changes)
                        if number >= 0:  # the first repetition only warms all up
                            rates.append(sizes.transitions / (time.perf_counter() - began))
    return _figures(sides)


def _figures(sides: _Sides) -> list[Figure]:
    rates = {
        name: Figure(name=title, values=tuple(values), unit="/s", better="higher")
        for name, title, values in (
            ("postgres", "transitions, PostgreSQL", sides.postgres),
            ("sqlite", "transitions, SQLite", sides.sqlite),
            ("bare", "transitions, bare asyncpg writer", sides.bare),
        )
    }
    beside_bare = ratios("PostgreSQL / bare writer", rates["postgres"], rates["bare"], target=0.7)
    return [
        *rates.values(),
        msgspec.structs.replace(beside_bare, better="higher"),
        ratios("PostgreSQL / SQLite", rates["postgres"], rates["sqlite"]),
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


def _through(bus: EventBus, sizes: Sizes) -> Callable[[list[Change]], Awaitable[None]]:
    async def commit_all(changes: list[Change]) -> None:
        waiting = iter(changes)

        async def commit_some() -> None:
            for change in waiting:
                await bus.commit(change, timeout_seconds=_COMMIT_SECONDS)

        async with asyncio.TaskGroup() as group:
            for number in range(sizes.at_once):
                group.create_task(commit_some(), name=f"committer {number}")

    return commit_all


@asynccontextmanager
async def _bare(url: str) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    connection = await asyncpg.connect(url, ssl=False)
    try:
        await connection.execute(_BARE_TABLES)
        yield connection
    finally:
        await connection.close()


async def _bare_commits(
    connection: asyncpg.Connection[asyncpg.Record], changes: list[Change], sizes: Sizes
) -> None:
    position: int = await connection.fetchval("SELECT coalesce(max(position), 0) FROM bare_event")
    for start in range(0, len(changes), sizes.at_once):
        runs: list[tuple[object, ...]] = []
        events: list[tuple[object, ...]] = []
        for change in changes[start : start + sizes.at_once]:
            (run,), (event,) = change.runs, change.events
            position += 1
            ended = 1 if run.status.is_terminal else None
            key = (run.key.workspace, run.key.kind.value, run.key.id)
            runs.append((*key, run.status.value, position, ended, _encode(run)))
            events.append((position, event.id, position, _encode(event)))
        async with connection.transaction():
            await connection.execute(_BARE_RUNS, *map(list, zip(*runs, strict=True)))
            await connection.execute(_BARE_EVENTS, *map(list, zip(*events, strict=True)))


def _changes(repetition: int, count: int) -> list[Change]:
    """Return the starts of runs, then their ends, each a change of its own."""
    now = datetime.now(UTC)
    changes: list[Change] = []
    for number in range(count):
        status = Status.RUNNING if number < count // 2 else Status.SUCCEEDED
        key = RunKey(_WORKSPACE, RunKind.JOB_GROUP, f"{repetition + 1}-{number % (count // 2)}")
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

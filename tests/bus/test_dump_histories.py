"""Random histories go through dumps of both kinds of store, and come back as they were."""

from __future__ import annotations

import asyncio
import itertools
from datetime import timedelta
from pathlib import Path

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import Struct
from prometheus_client import CollectorRegistry

from monitor.bus.contract import Change, DeadLetter, Retention, Start, StateEntry, Step
from monitor.bus.dump.dump_records import Row, StoreTable
from monitor.bus.sqlite import SqliteBus
from monitor.model.events import Event, RunEvent
from tests.bus.dump_scenario import (
    Stored,
    alert_event,
    carried,
    file_url,
    run_event,
    stored_in,
)
from tests.bus.examples import NOW, SOON, at, callback
from tests.clocks import ManualClock
from tests.postgres_server import PostgresServer

WORKSPACES = ("acme", "beta", "gamma")
_texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
_numbers = itertools.count()


class History(Struct, frozen=True):
    """What a daemon has stored: runs by number, alerts by workspace, and what consumers did."""

    runs: list[int]
    alerts: list[str]
    entries: dict[tuple[str, str], bytes]
    callbacks: dict[int, str]
    read: dict[str, float]  # parts of the log by consumer
    refused: float | None  # the part of the log at which an event was refused
    forgotten_seconds: float | None


histories = st.builds(
    History,
    runs=st.lists(st.integers(0, 99), unique=True, max_size=30),
    alerts=st.lists(st.sampled_from(WORKSPACES), unique=True),
    entries=st.dictionaries(
        st.tuples(st.sampled_from(WORKSPACES), _texts), st.binary(max_size=20), max_size=5
    ),
    callbacks=st.dictionaries(st.integers(0, 20), st.sampled_from(WORKSPACES), max_size=5),
    read=st.dictionaries(st.sampled_from(["mqtt", "file", "hook"]), st.floats(0, 1)),
    refused=st.none() | st.floats(0, 1),
    forgotten_seconds=st.none() | st.floats(0, 100),
)


async def store(history: History, path: Path) -> None:
    """Let a daemon store a history."""
    bus = await SqliteBus.open(path, clock=ManualClock(), registry=CollectorRegistry())
    for consumer in history.read:
        await bus.subscribe(consumer, start=Start.OLDEST)
    events: list[Event] = [
        *map(run_event, history.runs),
        *(
            alert_event(100 + second, workspace, f"f-{workspace}")
            for second, workspace in enumerate(history.alerts)
        ),
    ]
    change = Change(
        runs=tuple(event.run for event in events if isinstance(event, RunEvent)),
        events=tuple(events),
        state_entries=(
            *(StateEntry(workspace=name, topic="o", key="", value=b"") for name in WORKSPACES),
            *(
                StateEntry(workspace=workspace, topic="t", key=key, value=value)
                for (workspace, key), value in history.entries.items()
            ),
        ),
    )
    await bus.commit(change, timeout_seconds=SOON)
    for number, workspace in history.callbacks.items():
        arrived = callback(number, workspace=workspace)
        await bus.receive(arrived, inbox_bound=100, timeout_seconds=SOON)
    for consumer, part in history.read.items():
        letters: tuple[DeadLetter, ...] = ()
        if history.refused is not None and events:
            number = int(history.refused * (len(events) - 1))
            letters = (
                DeadLetter(position=number + 1, event=events[number], reason="", refused_at=NOW),
            )
        step = Step(
            consumer=consumer,
            position=int(part * len(events)),
            state={f"k-{consumer}": b"\x00\xff"},
            dead_letters=letters,
        )
        await bus.advance(step, timeout_seconds=SOON)
    if history.forgotten_seconds is not None:
        retention = Retention(events_seconds=60.0)
        now = at(history.forgotten_seconds) + timedelta(seconds=60)
        await bus.prune(retention, now=now)
    await bus.close()


def comparable(stored: Stored) -> dict[StoreTable, list[Row]]:
    """Return rows whatever their shard, in an order of their own but for events."""
    return {
        table: [row for _, row in rows]
        if table is StoreTable.EVENT
        else sorted((row for _, row in rows), key=repr)
        for table, rows in stored.items()
    }


@settings(max_examples=12, suppress_health_check=list(HealthCheck))
@given(history=histories)
def test_a_history_comes_back_as_it_was(
    history: History, tmp_path: Path, postgres: PostgresServer
) -> None:
    """File, database, another database and file again: in one shard every row is the same."""
    number = next(_numbers)
    asyncio.run(there_and_back(history, tmp_path / str(number), postgres))


async def there_and_back(history: History, folder: Path, postgres: PostgresServer) -> None:
    folder.mkdir()  # noqa: ASYNC240 - of one example
    await store(history, folder / "state.db")
    url = file_url(folder / "state.db")
    before = comparable(await stored_in(url))
    names = [await postgres.create_database() for _ in range(2)]
    shards = dict.fromkeys(WORKSPACES, "one")
    for number, to in enumerate([*map(postgres.url, names), file_url(folder / "back.db")]):
        await carried(url, to, folder / f"{number}.dump", shards)
        url = to
    assert comparable(await stored_in(url)) == before
    for name in names:
        await postgres.drop_database(name)


@settings(max_examples=12, suppress_health_check=list(HealthCheck))
@given(history=histories)
def test_a_history_that_was_split_is_whole_again(
    history: History, tmp_path: Path, postgres: PostgresServer
) -> None:
    """Over three shards: the log has its order and no hole, nothing is skipped or lower."""
    number = next(_numbers)
    asyncio.run(split_and_joined(history, tmp_path / str(number), postgres))


async def split_and_joined(history: History, folder: Path, postgres: PostgresServer) -> None:
    folder.mkdir()  # noqa: ASYNC240 - of one example
    # Between shards, the order is that of the clock.
    await store(msgspec.structs.replace(history, runs=sorted(history.runs)), folder / "state.db")
    url, back = file_url(folder / "state.db"), file_url(folder / "back.db")
    name = await postgres.create_database()
    await carried(url, postgres.url(name), folder / "a.dump")
    await carried(postgres.url(name), back, folder / "b.dump")
    before = comparable(await stored_in(url))
    split = comparable(await stored_in(postgres.url(name)))
    after = comparable(await stored_in(back))
    await postgres.drop_database(name)
    events = StoreTable.EVENT
    assert [row[1:] for row in after[events]] == [row[1:] for row in before[events]]
    positions = {row[1]: row[0] for row in after[events]}
    first = min(positions.values(), default=1)
    assert sorted(positions.values()) == list(range(first, first + len(positions)))
    assert all(row[0] <= positions[row[1]] for row in (*before[events], *split[events]))
    for table in (StoreTable.RUN, StoreTable.STATE_ENTRY, StoreTable.CALLBACK):
        assert after[table] == before[table]
    assert after[StoreTable.CONSUMER_STATE] == before[StoreTable.CONSUMER_STATE]
    assert len(after[StoreTable.DEAD_LETTER]) == len(before[StoreTable.DEAD_LETTER])
    read = {row[0]: row[1] for row in after[StoreTable.CONSUMER]}
    old = {row[1]: row[0] for row in before[events]}
    for consumer, position, *_ in before[StoreTable.CONSUMER]:
        unread = [event for event, place in old.items() if place > position]
        assert all(positions[event] > read[consumer] for event in unread)

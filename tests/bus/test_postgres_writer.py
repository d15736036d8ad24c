"""How the writer of PostgreSQL groups, waits and refuses, and what it makes of damaged rows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from monitor.bus.contract import Change, Start, StateEntry, Step
from monitor.bus.postgres.bus import PostgresBus
from monitor.bus.settings import StorageSettings
from monitor.model.errors import BusSchemaError, BusUnavailableError
from tests.bus.examples import SOON, callback, event, events, log_of, run
from tests.bus.postgres_backend import TestDaemon, connect, new_database
from tests.postgres_server import PostgresServer

LONG_LINGER = 600.0
SHORT_SECONDS = 0.1
_DAMAGES = [b"", b"{}", b"[]", b"null", b"{", b",", b"\xff", b"\0", b"[" * 50_000]


@pytest.fixture
async def url(postgres: PostgresServer) -> str:
    return postgres.url(await new_database(postgres))


@pytest.fixture
async def daemon(url: str) -> AsyncIterator[TestDaemon]:
    async with TestDaemon(url, settings=StorageSettings(queue_bound=100)) as made:
        yield made


def transactions(daemon: TestDaemon) -> float:
    name = "dataprep_monitor_commit_duration_seconds_count"
    return daemon.registry.get_sample_value(name) or 0.0


async def test_many_writes_share_a_transaction(daemon: TestDaemon) -> None:
    """Changes, steps and callbacks of two shards that come at once take a few transactions."""
    buses = [await daemon.open("a"), await daemon.open("b")]
    for bus in buses:
        await bus.subscribe("mqtt", start=Start.OLDEST)
    before = transactions(daemon)
    await asyncio.gather(
        *(
            write
            for number in range(15)
            for bus in buses
            for write in (
                bus.commit(events(number), timeout_seconds=SOON),
                bus.advance(Step(consumer="mqtt", position=number), timeout_seconds=SOON),
                bus.receive(
                    callback(number, workspace=bus.shard), inbox_bound=99, timeout_seconds=SOON
                ),
            )
        )
    )

    assert [len(await log_of(bus)) for bus in buses] == [15, 15]
    assert 1 <= transactions(daemon) - before <= 3


async def test_a_write_that_may_linger_goes_with_the_next_one(daemon: TestDaemon) -> None:
    """A step that can wait causes no transaction, and is in that of the next write."""
    bus = await daemon.open()
    await bus.subscribe("mqtt", start=Start.OLDEST)
    before = transactions(daemon)
    step = asyncio.create_task(
        bus.advance(
            Step(consumer="mqtt", position=7), timeout_seconds=SOON, linger_seconds=LONG_LINGER
        )
    )
    done, _ = await asyncio.wait([step], timeout=SHORT_SECONDS)
    assert not done
    assert transactions(daemon) == before
    await bus.commit(events(1), timeout_seconds=SOON)
    await step

    assert transactions(daemon) == before + 1
    assert await (await daemon.open()).subscribe("mqtt", start=Start.OLDEST) == 7


async def test_a_full_queue_refuses_at_once(daemon: TestDaemon) -> None:
    """Writes beyond the bound are refused without waiting; the others are stored."""
    bus = await daemon.open()
    results = await asyncio.gather(
        *(bus.commit(events(number), timeout_seconds=SOON) for number in range(103)),
        return_exceptions=True,
    )

    refused = [result for result in results if isinstance(result, BusUnavailableError)]
    assert [str(error) for error in refused] == ["100 writes are waiting already"] * 3
    assert len(await log_of(bus)) == 100


async def test_a_write_whose_caller_is_gone_is_not_stored(daemon: TestDaemon) -> None:
    """One that is cancelled while it is queued stores no row."""
    bus = await daemon.open()
    first = asyncio.create_task(bus.commit(events(1), timeout_seconds=SOON))
    second = asyncio.create_task(bus.commit(events(2), timeout_seconds=SOON))
    await asyncio.sleep(0)
    second.cancel()
    await asyncio.gather(first, second, return_exceptions=True)

    assert await log_of(bus) == [(1, "1")]


async def test_a_stuck_transaction_is_cut_and_written_again(url: str) -> None:
    """A server that does not answer holds up a write only until the line is cut."""
    async with TestDaemon(url, answer_seconds=4 * SHORT_SECONDS) as daemon:
        bus = await daemon.open()
        await bus.commit(events(1), timeout_seconds=SOON)
        locking = await connect(url)
        async with locking.transaction():
            await locking.execute("SELECT FROM shard FOR UPDATE")
            writing = asyncio.create_task(bus.commit(events(2), timeout_seconds=SOON))
            done, _ = await asyncio.wait([writing], timeout=9 * SHORT_SECONDS)
            assert not done
        await writing
        await locking.close()

        assert await log_of(bus) == [(1, "1"), (2, "2")]


async def test_a_position_that_is_gone_is_no_end_of_the_log(daemon: TestDaemon) -> None:
    """Events that retention has not removed are missed: the shard is given up, with a reason."""
    bus = await daemon.open()
    await bus.commit(events(1, 2, 3), timeout_seconds=SOON)
    bus = await daemon.open()
    other = await connect(daemon.url)
    await other.execute("DELETE FROM event WHERE position = 2")
    await other.close()

    with pytest.raises(BusUnavailableError, match="changed by another program"):
        await bus.events(after=0, limit=9)
    with pytest.raises(BusUnavailableError, match="changed by another program"):
        await bus.watch()


@pytest.mark.parametrize("body", _DAMAGES)
async def test_a_damaged_row_is_no_plausible_answer(daemon: TestDaemon, body: bytes) -> None:
    """Each query that meets it fails; others are answered, and new rows are stored."""
    bus = await daemon.open()
    await bus.commit(Change(runs=(run(1),), events=(event(1),)), timeout_seconds=SOON)
    await bus.receive(callback(1), inbox_bound=9, timeout_seconds=SOON)
    other = await connect(daemon.url)
    for table in ("run", "event", "callback"):
        await other.execute(f"UPDATE {table} SET body = $1", body)  # noqa: S608 - names of this file
    await other.close()
    again = await daemon.open()
    questions: list[Callable[[PostgresBus], Awaitable[object]]] = [
        lambda bus: bus.runs([run(1).key]),
        lambda bus: bus.recent_runs(limit=9),
        lambda bus: bus.events(after=0, limit=9),
        lambda bus: bus.read("mqtt", after=0, limit=9),
        lambda bus: bus.inbox("marketing", limit=9),
    ]
    for question in questions:
        with pytest.raises(BusSchemaError):
            await question(again)

    entry = StateEntry(workspace="acme", topic="t", key="k", value=b"\xff\0")
    await again.commit(Change(runs=(run(2),), state_entries=(entry,)), timeout_seconds=SOON)
    assert await again.runs([run(2).key]) == {run(2).key: run(2)}
    assert await again.state_entries("acme", "t") == {"k": b"\xff\0"}

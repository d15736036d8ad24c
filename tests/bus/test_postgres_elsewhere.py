"""Shards of other daemons: read from the store, and instructed through it."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator

import pytest

from monitor.bus.contract import Change, Start, StateEntry, Step
from monitor.bus.postgres.leases.rendezvous import best_daemon
from monitor.bus.postgres.writing.instruction_table import OPEN_BOUND
from monitor.bus.shards import ShardInstructions, ShardsElsewhere
from monitor.model.errors import BusLostError, ConfigurationError
from monitor.model.runs import Status
from tests.bus.examples import SOON, at, event, run
from tests.bus.postgres_members import shards
from tests.bus.postgres_stores import LONG_SECONDS, StoreCluster, StoreHost, store_cluster

NAMES = tuple(f"workspace-{number}" for number in range(6))
OF_NORTH = next(name for name in NAMES if best_daemon(name, ("north", "south")) == "north")
OF_SOUTH = next(name for name in NAMES if best_daemon(name, ("north", "south")) == "south")
BOTH = (OF_NORTH, OF_SOUTH)


@pytest.fixture
async def cluster(empty_database: str) -> AsyncIterator[StoreCluster]:
    async with store_cluster(empty_database) as cluster:
        yield cluster


async def two(cluster: StoreCluster) -> tuple[StoreHost, StoreHost]:
    """Return two daemons that hold one shard each."""
    north = await cluster.join("north", shards(*BOTH))
    await north.has(*BOTH)
    south = await cluster.join("south", shards(*BOTH))
    await south.has(OF_SOUTH)
    await north.has(OF_NORTH)
    return north, south


def elsewhere(host: StoreHost) -> ShardsElsewhere:
    assert host.store.elsewhere is not None
    return host.store.elsewhere


def instructions(host: StoreHost, shard: str) -> ShardInstructions:
    found: ShardInstructions = host.buses[shard].instructions  # type: ignore[attr-defined] # of Postgres
    return found


async def test_the_logs_of_all_shards_are_read_as_one(cluster: StoreCluster) -> None:
    """In the order of their recording, after any positions, with any holders."""
    north, south = await two(cluster)
    for number in range(60):
        host, name = (north, OF_NORTH) if number % 3 else (south, OF_SOUTH)
        stored = event(number, recorded_at=at(number))
        await host.buses[name].commit(Change(events=(stored,)), timeout_seconds=SOON)
    log = south.store.log
    found: list[int] = []
    after: dict[str, int] = {}
    while some := await log.events(after, limit=7):
        after |= {recorded.shard: recorded.position for recorded in some}
        found += [int(recorded.event.run.key.id) for recorded in some]  # type: ignore[union-attr] # runs
    assert found == list(range(60))
    assert after == await log.positions()
    since = await log.positions_since(at(57))
    rest = await log.events(since, limit=10)
    assert [recorded.event.recorded_at for recorded in rest] == [at(57), at(58), at(59)]


async def test_an_event_of_another_daemon_wakes_a_reader(cluster: StoreCluster) -> None:
    """A reader that follows the logs of all shards sees it within seconds."""
    north, south = await two(cluster)
    positions = await south.store.log.positions()
    assert not await south.store.log.wait(positions, timeout_seconds=0.01)
    waiting = asyncio.create_task(south.store.log.wait(positions, timeout_seconds=LONG_SECONDS))
    await north.buses[OF_NORTH].commit(Change(events=(event(1),)), timeout_seconds=SOON)
    assert await waiting


async def test_the_present_of_a_shard_elsewhere_is_read(cluster: StoreCluster) -> None:
    """Active runs, state entries and the state of a consumer, of several shards by one query."""
    north, south = await two(cluster)
    bus = north.buses[OF_NORTH]
    entry = StateEntry(workspace=OF_NORTH, topic="status", key="la\0st", value=b"{}")
    runs = (run(1, workspace=OF_NORTH), run(2, Status.FAILED, workspace=OF_NORTH))
    await bus.commit(Change(runs=runs, state_entries=(entry,)), timeout_seconds=SOON)
    await bus.subscribe("alerting", start=Start.NEWEST)
    await bus.advance(Step(consumer="alerting", state={"a": b"1"}), timeout_seconds=SOON)
    read = elsewhere(south)
    assert await read.state_entries_of(BOTH, ["status", "other"]) == [entry]
    assert await read.active_runs_of(BOTH) == [runs[0]]
    assert await read.consumer_states("alerting", BOTH) == {OF_NORTH: {"a": b"1"}}
    stored = await read.stored_shards(BOTH)
    assert await stored[OF_NORTH].consumer_state("alerting") == {"a": b"1"}


async def test_an_instruction_is_executed_by_the_holder_and_its_outcome_returns(
    cluster: StoreCluster,
) -> None:
    """In the order in which they were asked; an outcome that is not there yet is None."""
    north, south = await two(cluster)
    asked = elsewhere(south)
    first = await asked.instruct(OF_NORTH, "Track", b"1", timeout_seconds=SOON)
    second = await asked.instruct(OF_NORTH, "Track", b"2", timeout_seconds=SOON)
    assert await asked.outcome(first, timeout_seconds=0.05) is None
    outcome = asyncio.create_task(asked.outcome(first, timeout_seconds=LONG_SECONDS))
    own = instructions(north, OF_NORTH)
    async with asyncio.timeout(LONG_SECONDS):
        for number, body in ((first, b"1"), (second, b"2")):
            instruction = await own.next()
            assert (instruction.id, instruction.body) == (number, body)
            assert instruction.created_by == "south"
            await own.finish(instruction.id, b"done " + body, timeout_seconds=SOON)
    assert await outcome == b"done 1"
    assert await asked.outcome(second, timeout_seconds=SOON) == b"done 2"


async def test_the_next_holder_executes_what_the_former_has_left(cluster: StoreCluster) -> None:
    """The former one cannot store an outcome any more."""
    north, south = await two(cluster)
    number = await elsewhere(south).instruct(OF_NORTH, "Track", b"1", timeout_seconds=SOON)
    former = instructions(north, OF_NORTH)
    async with asyncio.timeout(LONG_SECONDS):
        assert (await former.next()).id == number
        await north.store.drain()
        await north.store.release(OF_NORTH)
        await south.has(*BOTH)
        with pytest.raises(BusLostError):
            await former.finish(number, b"late", timeout_seconds=SOON)
        own = instructions(south, OF_NORTH)
        assert (await own.next()).id == number
        await own.finish(number, b"done", timeout_seconds=SOON)
    assert await elsewhere(south).outcome(number, timeout_seconds=SOON) == b"done"


async def test_instructions_without_an_executor_are_bounded(cluster: StoreCluster) -> None:
    """One more than the bound is refused, and says why."""
    _, south = await two(cluster)
    asked = elsewhere(south)
    for _ in itertools.repeat(None, OPEN_BOUND):
        await asked.instruct(OF_NORTH, "Track", b"", timeout_seconds=SOON)
    with pytest.raises(ConfigurationError, match=f"{OPEN_BOUND} instructions wait"):
        await asked.instruct(OF_NORTH, "Track", b"", timeout_seconds=SOON)

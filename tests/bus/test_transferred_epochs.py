"""Where the log of a database went back once, sequences never do again: by a transfer or a move."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from monitor.bus.contract import Change, EventBus, Step
from monitor.bus.shards import CLUSTER, SOLE
from monitor.bus.sqlite import SqliteBus
from monitor.bus.sqlite.sole_log import SoleLog
from tests.bus.examples import SOON
from tests.bus.postgres_backend import TestDaemon
from tests.bus.postgres_members import prepare_database
from tests.bus.test_workspace_move import move
from tests.bus.transfer_scenes import (
    ALL_EVENTS,
    fill,
    run_event,
    to_database,
    to_file,
    to_other_database,
)
from tests.clocks import ManualClock
from tests.postgres_server import PostgresServer

SHARDS = {"beta": "small", "gamma": "small"}
ALL = ("acme", "small", CLUSTER)
_numbers = count(300)
Place = tuple[int, int]  # the epoch and the position, which are the sequence


async def went_back(url: str, shard: str) -> None:
    """Let the last half of the shard's log be of its second epoch, and what comes of the third."""
    connection = await prepare_database(url)
    number = await connection.fetchval(
        "UPDATE shard SET log_epoch = 2 WHERE name = $1 RETURNING number", shard
    )
    await connection.execute(
        "UPDATE event SET epoch = 1 WHERE shard = $1 AND position > (SELECT avg(position)"
        " FROM event WHERE shard = $1)",
        number,
    )
    await connection.close()


async def places(bus: EventBus) -> dict[str, Place]:
    """Return where each event stands, in the order of the log; one that is new is the last."""
    stored = {e.event.id: (e.epoch, e.position) for e in await bus.events(after=0, limit=1_000)}
    new = run_event(next(_numbers))
    await bus.commit(Change(events=(new,)), timeout_seconds=SOON)
    [added] = await bus.events(after=max(place[1] for place in stored.values()), limit=9)
    for consumer in (await bus.status()).consumers:  # one that counts must have read all
        step = Step(consumer=consumer.consumer, position=added.position)
        await bus.advance(step, timeout_seconds=SOON)
    by_id = (await bus.events_by_id([*stored, new.id])).items()
    all_places = {**stored, new.id: (added.epoch, added.position)}
    assert {event_id: (e.epoch, e.position) for event_id, e in by_id} == all_places
    assert list(all_places.values()) == sorted(all_places.values())
    return all_places


async def of_database(url: str, *shards: str) -> dict[str, Place]:
    async with TestDaemon(url) as daemon:
        found: dict[str, Place] = {}
        for shard in shards:
            bus = await daemon.open(shard)
            found |= await places(bus)
            await bus.close()
        return found


async def of_file(path: Path) -> dict[str, Place]:
    bus = await SqliteBus.open(path, clock=ManualClock(), registry=CollectorRegistry())
    found = await places(bus)
    log = await SoleLog(bus).events({SOLE: 0}, limit=1_000)
    assert {e.event.id: (e.epoch, e.position) for e in log} == found
    await bus.close()
    return found


@pytest.fixture
async def url(tmp_path: Path, empty_database: str) -> str:
    """Return a database of which one shard's log went back."""
    await fill(tmp_path / "state.db")
    await to_database(tmp_path / "state.db", empty_database, SHARDS)
    await went_back(empty_database, "small")
    return empty_database


def assert_no_lower(now: dict[str, Place], before: dict[str, Place]) -> None:
    assert len(now.keys() & before.keys()) == len(before)
    assert [key for key in before if now[key] < before[key]] == []
    assert max(now.values()) > max(before.values())


async def test_no_sequence_is_lower_after_transfers(
    tmp_path: Path, url: str, postgres: PostgresServer
) -> None:
    """Into a file, back into a database with the shards as they were, and into another one."""
    before = await of_database(url, *ALL)
    await to_file(url, tmp_path / "back.db")
    in_file = await of_file(tmp_path / "back.db")
    assert_no_lower(in_file, before)
    for attempt in range(2):
        name = await postgres.create_database()
        other = postgres.url(name)
        if attempt == 0:
            await to_database(tmp_path / "back.db", other, SHARDS)
            again = await of_database(other, *ALL)
            assert_no_lower(again, in_file)
        else:
            await to_other_database(url, other)
            assert_no_lower(await of_database(other, *ALL), before)
        await postgres.drop_database(name)


@pytest.mark.parametrize(("workspace", "to"), [("beta", "acme"), ("acme", "small")])
async def test_no_sequence_is_lower_after_a_move(url: str, workspace: str, to: str) -> None:
    """Out of the shard whose log went back, and into it."""
    shards = {"acme", "small"}
    before = await of_database(url, *sorted(shards))
    await move(url, workspace, to)
    after = await of_database(url, *(shards if workspace == "beta" else [to]))
    moved = {event.id for event in ALL_EVENTS if event.workspace == workspace}
    assert_no_lower(after, before)
    assert min(after[key] for key in moved) > max(before[key] for key in moved)

"""A workspace changes its shard: whole, in order, and without a hole in either log."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from monitor.app.store_routing import ShardsOfWorkspaces, joined_state
from monitor.bus.contract import DeadLetter
from monitor.bus.postgres_address import postgres_address
from monitor.bus.shards import CLUSTER, SOLE
from monitor.bus.transfer.postgres_side import open_store
from monitor.bus.transfer.tables import StoreTable
from monitor.bus.transfer.workspace_move import MovedWorkspace, WorkspaceMove
from monitor.model.alerts import BRIDGE
from monitor.model.errors import ConfigurationError
from monitor.outputs.metrics.rows import AwaitedDurations
from tests.bus.transfer_scenes import (
    ALL_EVENTS,
    NEWEST,
    Stored,
    fill,
    in_database,
    in_file,
    to_database,
    to_file,
)
from tests.postgres_server import PostgresServer

ONE = dict.fromkeys(("acme", "beta", "gamma"), "one")


async def move(url: str, workspace: str, to: str) -> MovedWorkspace:
    connection = await open_store(postgres_address(url), None)
    try:
        return await WorkspaceMove(
            connection,
            workspace,
            to,
            make_routing=lambda shards, home: ShardsOfWorkspaces(shards, shards, home=home),
            join_states=joined_state,
        ).run()
    finally:
        connection.terminate()


def log(stored: Stored, shard: str) -> list[tuple[int, str]]:
    return [(row[0], row[1]) for name, row in stored[StoreTable.EVENT] if name == shard]


def consumers(stored: Stored, shard: str) -> dict[str, int]:
    return {row[0]: row[1] for name, row in stored[StoreTable.CONSUMER] if name == shard}


def states(stored: Stored, shard: str, consumer: str) -> dict[str, bytes]:
    return {
        row[1]: row[2]
        for name, row in stored[StoreTable.CONSUMER_STATE]
        if name == shard and row[0] == consumer
    }


def ids(*workspaces: str) -> list[str]:
    return [event.id for event in ALL_EVENTS if event.workspace in workspaces]


async def test_a_workspace_moves_into_a_new_shard(tmp_path: Path, empty_database: str) -> None:
    """Both logs are whole, each consumer has read in both what it had read, and rows follow."""
    await fill(tmp_path / "state.db")
    await to_database(tmp_path / "state.db", empty_database, ONE)
    moved = await move(empty_database, "beta", "two")
    stored = await in_database(empty_database)
    events = ids("beta")
    before = 2 * NEWEST - len(ids(BRIDGE))  # these are in the shard of the cluster
    assert moved == MovedWorkspace("one", events=len(events), runs=10)
    # After the log that it leaves, so that none of its events has a lower position than before.
    assert log(stored, "two") == list(enumerate(events, start=before + 1))
    stayed = ids("acme", "gamma")
    assert log(stored, "one") == list(enumerate(stayed, start=before - len(stayed) + 1))
    # Of the first ten events, three were of beta; those that stay keep their distance to the end.
    assert consumers(stored, "two") == {
        "mqtt": before + 3,
        "metrics": before + len(events),
        "alerting": before + len(events),
        "misses/beta": before + len(events),
    }
    assert consumers(stored, "one") == {
        "mqtt": before - len(stayed) + 7,
        "metrics": before,
        "alerting": before,
    }
    [(shard, (_, position, body))] = stored[StoreTable.DEAD_LETTER]
    letter = msgspec.json.decode(body, type=DeadLetter)
    assert (shard, letter.position) == ("two", position)
    assert (position, letter.event.id) in log(stored, "two")
    assert set(states(stored, "two", "mqtt")) == {"retained:h:1 dataprep/v1/beta/state"}
    assert set(states(stored, "two", "alerting")) == {
        *("p:f-past", "f:run_failed:beta:job_group", "s:s1"),
    }
    assert "s:s1" in states(stored, "one", "alerting")
    for table in (StoreTable.RUN, StoreTable.STATE_ENTRY, StoreTable.CALLBACK):
        assert {name for name, row in stored[table] if row[0] == "beta"} == {"two"}
        assert {name for name, row in stored[table] if row[0] not in ("beta", BRIDGE)} == {"one"}


async def test_shards_become_one_by_moves(tmp_path: Path, empty_database: str) -> None:
    """A shard that loses its last workspace goes with it: counters, silences and all."""
    await fill(tmp_path / "state.db")
    await to_database(tmp_path / "state.db", empty_database)
    for workspace in ("acme", "beta"):
        await move(empty_database, workspace, "gamma")
    stored = await in_database(empty_database)
    events = [*ids("gamma"), *ids("acme"), *ids("beta")]
    positions = [position for position, _ in log(stored, "gamma")]
    assert [name for _, name in log(stored, "gamma")] == events
    assert positions == list(range(positions[0], positions[0] + len(events)))
    first, newest = positions[0], positions[-1]
    assert {name for rows in stored.values() for name, _ in rows} == {"gamma", CLUSTER}
    places = consumers(stored, "gamma")
    assert (places["metrics"], places["alerting"]) == (newest, newest)
    # It had read a part of each log: what is unread is not skipped, though some may come again.
    assert places["mqtt"] == first + 2
    alerting = states(stored, "gamma", "alerting")
    assert len(alerting) == 6
    awaited = states(stored, "gamma", "metrics")['["waiting"]']
    runs = msgspec.json.decode(awaited, type=AwaitedDurations).runs
    assert sorted(run.workspace for run in runs) == ["acme", "beta"]
    await to_file(empty_database, tmp_path / "back.db")
    alerting = states(await in_file(tmp_path / "back.db"), SOLE, "alerting")
    assert len(alerting) == 8
    assert msgspec.json.decode(alerting["t:run_failed:fired"]) == {"count": 3}


async def test_a_move_back_and_forth_changes_no_count(tmp_path: Path, empty_database: str) -> None:
    """What moves away and returns is there once, and no log grows by it."""
    await fill(tmp_path / "state.db")
    await to_database(tmp_path / "state.db", empty_database, ONE)
    before = await in_database(empty_database)
    await move(empty_database, "beta", "two")
    await move(empty_database, "beta", "one")
    after = await in_database(empty_database)
    for table in (StoreTable.RUN, StoreTable.STATE_ENTRY, StoreTable.CALLBACK):
        assert sorted(after[table], key=str) == sorted(before[table], key=str)
    assert sorted(event for _, event in log(after, "one")) == sorted(
        event for _, event in log(before, "one")
    )
    assert states(after, "one", "alerting") == states(before, "one", "alerting")
    positions = [position for position, _ in log(after, "one")]
    assert positions == list(range(positions[0], positions[0] + len(positions)))
    assert consumers(after, "one")["metrics"] == positions[-1]


@pytest.mark.parametrize(
    ("workspace", "to", "problem"),
    [
        ("delta", "two", "workspace 'delta' is not in the store"),
        ("beta", "one", "workspace 'beta' is in shard 'one' already"),
        ("beta", "two", "alerting has still to read 22 events of shard one"),
    ],
)
async def test_a_move_that_cannot_be_changes_nothing(
    tmp_path: Path, empty_database: str, workspace: str, to: str, problem: str
) -> None:
    """An unknown workspace, its own shard, and events that alerts have not seen."""
    await fill(tmp_path / "state.db", unread="alerting")
    await to_database(tmp_path / "state.db", empty_database, ONE)
    before = await in_database(empty_database)
    with pytest.raises(ConfigurationError, match=problem):
        await move(empty_database, workspace, to)
    assert await in_database(empty_database) == before


async def test_instructions_are_executed_first(
    tmp_path: Path, postgres: PostgresServer, empty_database: str
) -> None:
    """A silence that waits for the holder of a shard would be lost, or meet another shard."""
    await fill(tmp_path / "state.db")
    await to_database(tmp_path / "state.db", empty_database, ONE)
    await postgres.execute(
        "INSERT INTO instruction (shard, id, kind, body) SELECT number, name, 'x', '{}' FROM shard",
        database=empty_database.rpartition("/")[2],
    )
    with pytest.raises(ConfigurationError, match=r"2 instructions .* wait for a daemon"):
        await move(empty_database, "beta", "two")

"""A file goes into a database, a shard for each workspace, and back; nothing is lost or doubled."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from monitor.bus.contract import DeadLetter
from monitor.bus.postgres.connections.connecting import connect
from monitor.bus.postgres.connections.migrations import LOCK, prepare
from monitor.bus.postgres_address import postgres_address
from monitor.bus.shards import CLUSTER
from monitor.bus.sqlite import SqliteBus
from monitor.bus.transfer.postgres_side import open_database
from monitor.bus.transfer.tables import StoreTable
from monitor.model.alerts import BRIDGE
from monitor.model.errors import BusLockedError, BusUnavailableError, ConfigurationError
from tests.app.eventually import eventually
from tests.bus.examples import SOON, events
from tests.bus.transfer_scenes import (
    ALL_EVENTS,
    NEWEST,
    ODD,
    Stored,
    fill,
    in_database,
    in_file,
    to_database,
    to_file,
    to_other_database,
)
from tests.clocks import ManualClock
from tests.postgres_server import PostgresServer

SHARDS = {"beta": "small", "gamma": "small"}
SHARD_OF = {"acme": "acme", **SHARDS, BRIDGE: CLUSTER}


@pytest.fixture
async def store(tmp_path: Path) -> Path:
    """Return a closed store that holds a little of everything."""
    await fill(tmp_path / "state.db")
    return tmp_path / "state.db"


def logs(stored: Stored) -> dict[str, list[tuple[int, str]]]:
    found: dict[str, list[tuple[int, str]]] = {}
    for shard, row in stored[StoreTable.EVENT]:
        found.setdefault(shard, []).append((row[0], row[1]))
    return found


def keys(stored: Stored, consumer: str) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for shard, row in stored[StoreTable.CONSUMER_STATE]:
        if row[0] == consumer:
            found.setdefault(shard, set()).add(row[1].rpartition(" ")[2])
    return found


async def test_each_workspace_goes_into_its_shard(store: Path, empty_database: str) -> None:
    """Events keep their order and ids, positions have no holes, and rows follow their workspace."""
    await to_database(store, empty_database, SHARDS)
    stored = await in_database(empty_database)
    expected: dict[str, list[str]] = {"acme": [], "small": [], CLUSTER: []}
    for event in ALL_EVENTS:
        expected[SHARD_OF[event.workspace]].append(event.id)
    # After all that the file had numbered: what a subscriber sees as sequence never goes back.
    assert logs(stored) == {
        shard: list(enumerate(ids, start=NEWEST + 1)) for shard, ids in expected.items()
    }
    bodies = {row[1]: row[3] for _, row in stored[StoreTable.EVENT]}
    assert bodies == {event.id: msgspec.json.encode(event) for event in ALL_EVENTS}
    for table in (StoreTable.RUN, StoreTable.CALLBACK, StoreTable.STATE_ENTRY):
        for shard, row in stored[table]:
            assert shard == SHARD_OF[row[0]], (table, row)
    assert {row[2] for _, row in stored[StoreTable.STATE_ENTRY]} == {ODD, "probe"}


async def test_consumers_go_on_behind_what_they_have_read(store: Path, empty_database: str) -> None:
    """Of the first ten events, four are of one shard and six of another one."""
    await to_database(store, empty_database, SHARDS)
    stored = await in_database(empty_database)
    newest = {shard: NEWEST + len(log) for shard, log in logs(stored).items()}
    consumers = {(shard, row[0]): row[1] for shard, row in stored[StoreTable.CONSUMER]}
    assert consumers == {
        ("acme", "mqtt"): NEWEST + 4,
        ("small", "mqtt"): NEWEST + 6,
        (CLUSTER, "mqtt"): NEWEST,
        ("small", "misses/beta"): newest["small"],
        **{(shard, name): newest[shard] for shard in newest for name in ("metrics", "alerting")},
    }
    [(shard, (consumer, position, body))] = stored[StoreTable.DEAD_LETTER]
    letter = msgspec.json.decode(body, type=DeadLetter)
    assert (shard, consumer) == ("small", "mqtt")
    assert position == letter.position == NEWEST + 3
    assert (position, letter.event.id) in logs(stored)["small"]


async def test_states_of_consumers_follow_their_workspaces(
    store: Path, empty_database: str
) -> None:
    """Counters, alerts and topics go with their workspace; silences into each; sums into one.

    Workspaces that are added later take the silences of the cluster's shard.
    """
    await to_database(store, empty_database, SHARDS)
    stored = await in_database(empty_database)
    assert keys(stored, "mqtt") == {
        "acme": {"dataprep/v1/acme/state"},
        "small": {"dataprep/v1/beta/state", "dataprep/v1/gamma/state"},
    }
    assert keys(stored, "metrics") == {
        "acme": {'["runs","acme","job_group","7"]', '["waiting"]'},
        "small": {'["waiting"]'},
    }
    assert keys(stored, "alerting") == {
        CLUSTER: {"e:f-daemon", "t:run_failed:fired", "s:s1"},
        "acme": {"e:f-acme", "s:s1"},
        "small": {
            *("p:f-past", "f:run_failed:beta:job_group", "s:s1"),
            *("m:not_fresh:pipeline:gamma:job_group:7:", "b:pipeline:gamma:job_group:7:"),
        },
    }


async def test_a_store_comes_back_as_it_was(
    store: Path, empty_database: str, tmp_path: Path
) -> None:
    """Into a database and back into a file: the same rows, and the log in its order.

    Positions go on after the newest one of all logs: none of them is used for another event.
    """
    before = await in_file(store)
    await to_database(store, empty_database, SHARDS)
    newest = max(
        position for log in logs(await in_database(empty_database)).values() for position, _ in log
    )
    await to_file(empty_database, tmp_path / "back.db")
    after = await in_file(tmp_path / "back.db")
    assert logs(after) == {
        shard: [(newest + position, name) for position, name in log]
        for shard, log in logs(before).items()
    }
    positions = {row[0]: row[1] for _, row in before[StoreTable.CONSUMER]}
    assert {row[0]: row[1] - newest for _, row in after[StoreTable.CONSUMER]} == positions
    for table in (StoreTable.STATE_ENTRY, StoreTable.CALLBACK):
        assert sorted(after[table]) == sorted(before[table]), table
    for table in (StoreTable.CONSUMER_STATE, StoreTable.RUN):
        assert {row[:2] for _, row in after[table]} == {row[:2] for _, row in before[table]}
    bus = await SqliteBus.open(
        tmp_path / "back.db", clock=ManualClock(), registry=CollectorRegistry()
    )
    await bus.commit(events(1), timeout_seconds=SOON)
    assert (await bus.status()).newest_position == newest + NEWEST + 1
    await bus.close()
    assert list(tmp_path.glob("*unfinished*")) == []  # noqa: ASYNC240 - a folder of four files


async def test_a_database_goes_into_another_one_as_it_is(
    store: Path, postgres: PostgresServer, empty_database: str
) -> None:
    """Shards, positions and states are the same there, also of a shard without a workspace."""
    await to_database(store, empty_database, SHARDS)
    await postgres.execute(
        "WITH made AS (INSERT INTO shard (name) VALUES ('alone') RETURNING number)"
        " INSERT INTO consumer (shard, name, position) SELECT number, 'metrics', 0 FROM made",
        database=empty_database.rpartition("/")[2],
    )
    other = postgres.url(await postgres.create_database())
    await to_other_database(empty_database, other)
    before, after = await in_database(empty_database), await in_database(other)
    assert {table: sorted(rows, key=str) for table, rows in after.items()} == {
        table: sorted(rows, key=str) for table, rows in before.items()
    }


@pytest.mark.parametrize("stop_after", [2, 9])
async def test_an_interrupted_transfer_is_continued(
    store: Path, empty_database: str, stop_after: int
) -> None:
    """What was carried stays, no daemon takes half a store, and the next attempt ends it."""
    with pytest.raises(KeyboardInterrupt):
        await to_database(store, empty_database, SHARDS, stop_after=stop_after)
    with pytest.raises(ConfigurationError, match="transfer that has not ended"):
        await started(empty_database)
    sums = await to_database(store, empty_database, SHARDS)
    assert sum(sums.counts()["acme"].values()) + sum(sums.counts()["small"].values()) > NEWEST
    stored = await in_database(empty_database)
    assert sum(map(len, logs(stored).values())) == NEWEST
    await started(empty_database)


async def test_an_interrupted_file_is_continued(
    store: Path, empty_database: str, tmp_path: Path
) -> None:
    """The file has its name only when all of it is there; another source is refused meanwhile."""
    await to_database(store, empty_database, SHARDS)
    back = tmp_path / "back.db"
    with pytest.raises(KeyboardInterrupt):
        await to_file(empty_database, back, stop_after=4)
    with pytest.raises(ConfigurationError, match="was begun from 127"):
        await to_file(empty_database.replace("127.0.0.1", "localhost"), back)
    await to_file(empty_database, back)
    assert len((await in_file(back))[StoreTable.EVENT]) == NEWEST


async def started(url: str) -> None:
    """Do what a daemon does first with a database."""
    connection = await connect(postgres_address(url), None, purpose="test", timeout_seconds=SOON)
    try:
        await prepare(connection)
    finally:
        connection.terminate()


async def test_what_does_not_arrive_is_found(
    store: Path, postgres: PostgresServer, empty_database: str
) -> None:
    """A row that the database changes is reported by table and shard, and no daemon takes it."""
    with pytest.raises(KeyboardInterrupt):
        await to_database(store, empty_database, SHARDS, stop_after=9)
    name = empty_database.rpartition("/")[2]
    change = "UPDATE event SET body = '{}' WHERE position = (SELECT min(position) + 2 FROM event)"
    await postgres.execute(change, database=name)
    with pytest.raises(BusUnavailableError, match="other contents in the"):
        await to_database(store, empty_database, SHARDS)
    with pytest.raises(ConfigurationError, match="transfer that has not ended"):
        await started(empty_database)


async def test_a_store_in_use_is_left_alone(
    store: Path, postgres: PostgresServer, empty_database: str, tmp_path: Path
) -> None:
    """A file that a daemon holds, a database with a living daemon, and a target with a store."""
    bus = await SqliteBus.open(store, clock=ManualClock(), registry=CollectorRegistry())
    with pytest.raises(BusLockedError, match="is held by process"):
        await to_database(store, empty_database)
    await bus.close()
    await to_database(store, empty_database)
    with pytest.raises(ConfigurationError, match="holds the shards _cluster, acme, beta, gamma"):
        await to_database(store, empty_database)
    with pytest.raises(ConfigurationError, match="is there already"):
        await to_file(empty_database, store)
    await postgres.execute(
        "INSERT INTO daemon (id, incarnation, host, process, process_id, version, schema,"
        " started_at, renewed_at, expires_at, lease_seconds) SELECT 'm1', gen_random_uuid(), 'h1',"
        " '', 1, '1', 1, now(), now(), now() + interval '1 minute', 9",
        database=empty_database.rpartition("/")[2],
    )
    with pytest.raises(BusLockedError, match="is in use by m1 on h1; end these daemons first"):
        await to_file(empty_database, tmp_path / "back.db")


async def test_logs_become_one_only_where_all_is_counted(
    tmp_path: Path, empty_database: str
) -> None:
    """Counters would count events again that another shard's have passed, so it is refused."""
    await fill(tmp_path / "state.db", unread="metrics")
    await to_database(tmp_path / "state.db", empty_database, SHARDS)
    with pytest.raises(
        ConfigurationError, match="metrics has still to read 1 events of shard _cluster"
    ):
        await to_file(empty_database, tmp_path / "back.db")


async def test_a_transfer_waits_for_the_end_of_the_one_before(empty_database: str) -> None:
    """The session of one that has just ended may hold its lock for another moment."""
    address = postgres_address(empty_database)
    before = await connect(address, None, purpose="test", timeout_seconds=20.0)
    await before.execute("SELECT pg_advisory_lock($1)", LOCK)
    opening = asyncio.create_task(open_database(address, None))
    waiting = "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted)"
    await eventually(lambda: before.fetchval(waiting), why="it does not wait")
    before.terminate()
    (await opening).terminate()

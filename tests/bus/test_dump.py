"""A dump of any store goes into any other; nothing is lost, doubled or told otherwise."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from monitor.bus.contract import Change, DeadLetter, EventBus, Received
from monitor.bus.dump.dump_file import DumpReader
from monitor.bus.dump.dump_records import StoreTable
from monitor.bus.shards import CLUSTER, SOLE
from monitor.model.alerts import BRIDGE
from monitor.model.errors import ConfigurationError
from tests.bus.dump_scenario import (
    ALL_EVENTS,
    NEWEST,
    ODD,
    REPORT_HANDLED,
    Stored,
    carried,
    exported,
    file_url,
    fill,
    imported,
    run_event,
    shards_of,
    stored_in,
)
from tests.bus.examples import SOON, callback
from tests.bus.postgres_backend import TestDaemon
from tests.postgres_server import PostgresServer

SHARDS = {"beta": "small", "gamma": "small"}
SHARD_OF = {"acme": "acme", **SHARDS, BRIDGE: CLUSTER}


@pytest.fixture
async def store(tmp_path: Path) -> str:
    """Return the URL of a closed file that holds a little of everything."""
    await fill(tmp_path / "state.db")
    return file_url(tmp_path / "state.db")


@pytest.fixture
async def database(store: str, empty_database: str, tmp_path: Path) -> str:
    """Return the URL of a database of three shards with the same contents."""
    await carried(store, empty_database, tmp_path / "filled.dump", SHARDS)
    return empty_database


def logs(stored: Stored) -> dict[str, list[tuple[int, str]]]:
    found: dict[str, list[tuple[int, str]]] = {}
    for shard, row in stored[StoreTable.EVENT]:
        found.setdefault(shard, []).append((row[0], row[1]))
    return found


def keys(stored: Stored, consumer: str) -> dict[str, set[str]]:
    found: defaultdict[str, set[str]] = defaultdict(set)
    for shard, row in stored[StoreTable.CONSUMER_STATE]:
        if row[0] == consumer:
            found[shard].add(row[1].rpartition(" ")[2])
    return dict(found)


async def test_a_file_is_restored_as_it_was(store: str, tmp_path: Path) -> None:
    """Every row is the same: ids, positions, letters, alerts, silences, inbox, the token pair."""
    dump = await exported(store, tmp_path / "a.dump")
    counts = await imported(dump, file_url(tmp_path / "restored.db"))
    stored = await stored_in(store)
    assert await stored_in(file_url(tmp_path / "restored.db")) == stored
    assert await shards_of(file_url(tmp_path / "restored.db")) == await shards_of(store)
    assert counts[SOLE] == {table: len(rows) for table, rows in stored.items()}
    assert all(counts[SOLE].values())
    assert dump.stat().st_mode & 0o777 == 0o600


async def test_a_database_is_restored_as_it_was(
    database: str, postgres: PostgresServer, tmp_path: Path
) -> None:
    """Shards, positions, epochs and states are the same, also of a shard without a workspace."""
    for statement in (
        "INSERT INTO shard (name) VALUES ('alone')",
        "INSERT INTO consumer (shard, name, position) SELECT max(number), 'metrics', 0 FROM shard",
        "UPDATE event SET epoch = 1 WHERE position > (SELECT avg(position) FROM event)",
        "UPDATE shard SET log_epoch = 2",
    ):
        await postgres.execute(statement, database=database.rpartition("/")[2])
    other = postgres.url(await postgres.create_database())
    await carried(database, other, tmp_path / "a.dump")
    assert await stored_in(other) == await stored_in(database)
    assert await shards_of(other) == await shards_of(database)


@pytest.mark.parametrize(
    ("is_from_file", "is_into_file"), [(True, True), (True, False), (False, True), (False, False)]
)
async def test_what_reports_were_dealt_with_goes_along(
    store: str,
    database: str,
    postgres: PostgresServer,
    tmp_path: Path,
    *,
    is_from_file: bool,
    is_into_file: bool,
) -> None:
    """Between all kinds of store; how a file has judged ages is its own and stays."""
    to = file_url(tmp_path / "to.db")
    if not is_into_file:
        to = postgres.url(await postgres.create_database())
    await carried(store if is_from_file else database, to, tmp_path / "a.dump", SHARDS)
    rows = (await stored_in(to))[StoreTable.STATE_ENTRY]
    assert [(shard, *row) for shard, row in rows if row[0] == BRIDGE] == [
        (
            SOLE if is_into_file else CLUSTER,
            *(BRIDGE, REPORT_HANDLED.topic, REPORT_HANDLED.key, REPORT_HANDLED.value),
        )
    ]


async def test_no_session_is_in_a_dump(store: str, database: str, tmp_path: Path) -> None:
    """Audit lines go with the whole store, or with the cluster's shard; log-ins never."""
    for url, shard in ((store, SOLE), (database, CLUSTER)):
        reader = DumpReader(await exported(url, tmp_path / f"of{shard}.dump"))
        entries = [row for table, row in reader.records() if table is StoreTable.STORE_ENTRY]
        assert entries == [(shard, ("audit", "k1", b"\xff")), (shard, ("audit", "k2", b"{}"))]
    dump = await exported(database, tmp_path / "acme.dump", workspace="acme")
    assert StoreTable.STORE_ENTRY not in {table for table, _ in DumpReader(dump).records()}


async def test_each_workspace_goes_into_its_shard(store: str, database: str) -> None:
    """Events keep their order and ids, positions have no holes, and rows follow their workspace."""
    stored = await stored_in(database)
    expected: dict[str, list[str]] = {"acme": [], "small": [], CLUSTER: []}
    for event in ALL_EVENTS:
        expected[SHARD_OF[event.workspace]].append(event.id)
    # Up to the newest that the file had numbered: what a subscriber sees as sequence is the same
    # or greater, and what follows is greater than all.
    assert logs(stored) == {
        shard: list(enumerate(ids, start=NEWEST + 1 - len(ids))) for shard, ids in expected.items()
    }
    bodies = {row[1]: row[-1] for _, row in stored[StoreTable.EVENT]}
    assert bodies == {event.id: msgspec.json.encode(event) for event in ALL_EVENTS}
    for table in (StoreTable.RUN, StoreTable.CALLBACK, StoreTable.STATE_ENTRY):
        assert len(stored[table]) == len((await stored_in(store))[table])
        for shard, row in stored[table]:
            assert shard == SHARD_OF[row[0]], (table, row)
    entries = {row[2:] for _, row in stored[StoreTable.STATE_ENTRY]}
    assert entries == {
        *((ODD, b"v"), ("tokens", b"\xff a token pair")),
        (REPORT_HANDLED.key, REPORT_HANDLED.value),
    }


async def test_consumers_continue_after_what_they_have_read(database: str) -> None:
    """Of the first ten events, four are of one shard and six of another one."""
    stored = await stored_in(database)
    unread = {shard: len(log) for shard, log in logs(stored).items()}
    consumers = {(shard, row[0]): row[1] for shard, row in stored[StoreTable.CONSUMER]}
    assert consumers == {
        ("acme", "mqtt"): NEWEST - unread["acme"] + 4,
        ("small", "mqtt"): NEWEST - unread["small"] + 6,
        (CLUSTER, "mqtt"): NEWEST - unread[CLUSTER],
        ("small", "misses/beta"): NEWEST,
        **{(shard, name): NEWEST for shard in unread for name in ("metrics", "alerting")},
    }
    [(shard, (consumer, position, body))] = stored[StoreTable.DEAD_LETTER]
    letter = msgspec.json.decode(body, type=DeadLetter)
    assert (shard, consumer) == ("small", "mqtt")
    assert position == letter.position
    assert (position, letter.event.id) in logs(stored)["small"]


async def test_states_of_consumers_follow_their_workspaces(database: str) -> None:
    """Counters, alerts and topics go with their workspace; silences into each; sums into one.

    Workspaces that are added later take the silences of the cluster's shard.
    """
    stored = await stored_in(database)
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


async def test_a_split_store_becomes_one_again(store: str, database: str, tmp_path: Path) -> None:
    """The same rows, and the log in its order; no event has a lower position than in its shard."""
    back = file_url(tmp_path / "back.db")
    await carried(database, back, tmp_path / "a.dump")
    before, split, after = await stored_in(store), await stored_in(database), await stored_in(back)
    [log] = logs(after).values()
    assert [name for _, name in log] == [event.id for event in ALL_EVENTS]
    assert [position for position, _ in log] == list(range(log[0][0], log[0][0] + NEWEST))
    positions = {name: position for position, name in log}
    for shard in logs(split).values():
        assert all(positions[name] >= position for position, name in shard)
    shift = log[0][0] - 1
    consumers = {row[0]: row[1] for _, row in before[StoreTable.CONSUMER]}
    assert {row[0]: row[1] - shift for _, row in after[StoreTable.CONSUMER]} == consumers
    for table in (StoreTable.STATE_ENTRY, StoreTable.CALLBACK):
        assert sorted(after[table]) == sorted(before[table]), table
    for table in (StoreTable.CONSUMER_STATE, StoreTable.RUN):
        assert {row[:2] for _, row in after[table]} == {row[:2] for _, row in before[table]}


async def test_logs_become_one_only_where_nothing_is_counted_twice(
    tmp_path: Path, empty_database: str, postgres: PostgresServer
) -> None:
    """Counters that have read the same time of all shards continue there; others are refused."""
    await fill(tmp_path / "state.db", unread="metrics")
    url = file_url(tmp_path / "state.db")
    await carried(url, empty_database, tmp_path / "a.dump", SHARDS)
    back = file_url(tmp_path / "back.db")
    await carried(empty_database, back, tmp_path / "b.dump")
    stored = await stored_in(back)
    read = {row[0]: row[1] for _, row in stored[StoreTable.CONSUMER]}["metrics"]
    assert sum(position <= read for position, _ in logs(stored)[SOLE]) == 10
    await postgres.execute(
        "UPDATE consumer SET position = newest_position FROM shard WHERE shard.number = shard"
        " AND shard.name = 'acme' AND consumer.name = 'metrics'",
        database=empty_database.rpartition("/")[2],
    )
    with pytest.raises(ConfigurationError, match="metrics has still to read events of shards"):
        await carried(empty_database, file_url(tmp_path / "no.db"), tmp_path / "c.dump")
    assert not (tmp_path / "no.db").exists()


async def test_an_event_that_is_gone_leaves_its_dead_letter(
    store: str, empty_database: str, tmp_path: Path
) -> None:
    """A consumer counts what retention took from it, once; a letter names no other event."""
    with closing(sqlite3.connect(tmp_path / "state.db")) as db, db:
        db.execute("DELETE FROM event WHERE position <= 12")
    await carried(store, file_url(tmp_path / "whole.db"), tmp_path / "a.dump")
    assert await stored_in(file_url(tmp_path / "whole.db")) == await stored_in(store)
    await carried(store, empty_database, tmp_path / "b.dump", SHARDS)
    stored = await stored_in(empty_database)
    [(shard, (consumer, position, _))] = stored[StoreTable.DEAD_LETTER]
    assert (shard, consumer) == ("small", "mqtt")
    assert position < logs(stored)["small"][0][0]
    lost = [row[2] for _, row in stored[StoreTable.CONSUMER] if row[0] == "mqtt"]
    assert sorted(lost) == [0, 0, 2]
    oldest = {
        shard: end.oldest_position for shard, end in (await shards_of(empty_database)).items()
    }
    for shard, row in stored[StoreTable.CONSUMER]:
        assert row[1] >= oldest[shard] - 1


async def test_a_workspace_moves_to_another_shard(
    database: str, postgres: PostgresServer, tmp_path: Path
) -> None:
    """A dump of the database goes into a new one, with another shard in the configuration."""
    other = postgres.url(await postgres.create_database())
    await carried(database, other, tmp_path / "a.dump", {"beta": "acme", "gamma": "small"})
    before, after = await stored_in(database), await stored_in(other)
    ids = {
        shard: [event.id for event in ALL_EVENTS if event.workspace in names]
        for shard, names in {"acme": ("acme", "beta"), "small": ("gamma",)}.items()
    }
    positions = {name: position for log in logs(before).values() for position, name in log}
    for shard, expected in ids.items():
        assert [name for _, name in logs(after)[shard]] == expected
        assert all(positions[name] <= position for position, name in logs(after)[shard])
    assert logs(after)[CLUSTER] == logs(before)[CLUSTER]
    assert keys(after, "alerting")["acme"] == {
        *("e:f-acme", "s:s1", "p:f-past", "f:run_failed:beta:job_group")
    }
    [(shard, row)] = after[StoreTable.DEAD_LETTER]
    assert (shard, row[1]) in [("acme", position) for position, _ in logs(after)["acme"]]


@pytest.mark.parametrize("is_file", [True, False])
async def test_one_workspace_is_exported(
    store: str, database: str, postgres: PostgresServer, tmp_path: Path, *, is_file: bool
) -> None:
    """Its rows and no others, as a shard of its name, also into a database with other shards."""
    url = store if is_file else database
    dump = await exported(url, tmp_path / "a.dump", workspace="gamma")
    other = postgres.url(await postgres.create_database())
    await carried(url, other, tmp_path / "b.dump", workspace="acme")
    await imported(dump, other, {"gamma": "third"})
    stored = await stored_in(other)
    assert {shard for rows in stored.values() for shard, _ in rows} == {"acme", "third"}
    for workspace, shard in (("gamma", "third"), ("acme", "acme")):
        expected = [event.id for event in ALL_EVENTS if event.workspace == workspace]
        assert [name for _, name in logs(stored)[shard]] == expected
        assert logs(stored)[shard][-1][0] == NEWEST
    assert keys(stored, "alerting")["third"] == {
        *("s:s1", "m:not_fresh:pipeline:gamma:job_group:7:", "b:pipeline:gamma:job_group:7:")
    }
    with pytest.raises(ConfigurationError, match="has shard third, workspace gamma already"):
        await imported(dump, other, {"gamma": "third"})


async def unread(bus: EventBus, consumer: str) -> list[str]:
    """Return what the consumer has still to read."""
    [position] = [
        status.position for status in (await bus.status()).consumers if status.consumer == consumer
    ]
    batch = await bus.read(consumer, after=position, limit=1_000)
    assert batch.gap is None
    return [recorded.event.id for recorded in batch.events]


async def test_a_carried_log_continues(database: str) -> None:
    """No event is stored twice, none is skipped by a consumer, and a callback is known again."""
    async with TestDaemon(database) as daemon:
        for shard, number, read in (("acme", 300, 4), ("small", 301, 6)):
            bus, event = await daemon.open(shard), run_event(number)
            newest = (await bus.status()).newest_position
            known = [recorded.event for recorded in await bus.events(after=0, limit=1_000)]
            change = Change(events=(*known, event), runs=(event.run,))
            await bus.commit(change, timeout_seconds=SOON)
            added = await bus.events(after=newest, limit=10)
            assert [(new.position, new.event.id) for new in added] == [(newest + 1, event.id)]
            ids = [event.id for event in known]
            assert await unread(bus, "mqtt") == [*ids[read:], event.id]
            for consumer in ("metrics", "alerting"):
                assert await unread(bus, consumer) == [event.id]
        # One was processed, one waits: neither is taken again.
        for name, number in (("acme", 1), ("beta", 2)):
            again = callback(number, workspace=name)
            received = await bus.receive(again, inbox_bound=10, timeout_seconds=SOON)
            assert received is Received.DUPLICATE
        [waiting] = (await bus.inbox("beta", limit=10)).callbacks
        assert waiting.fingerprint == callback(2).fingerprint


async def test_no_sequence_is_lower(
    database: str, postgres: PostgresServer, tmp_path: Path
) -> None:
    """Epoch and position, of a log that went back: in a database, a file, and after a move."""
    for statement in (
        "UPDATE event SET epoch = 1 WHERE position > (SELECT avg(position) FROM event)",
        "UPDATE shard SET log_epoch = 2",
    ):
        await postgres.execute(statement, database=database.rpartition("/")[2])
    others = [postgres.url(await postgres.create_database()) for _ in range(2)]
    dump = await exported(database, tmp_path / "a.dump")
    await imported(dump, others[0])
    await imported(dump, others[1], {"beta": "acme"})
    await imported(dump, back := file_url(tmp_path / "back.db"))
    before, same = await sequences(database), await sequences(others[0])
    assert same == before
    for url in (others[1], back):
        after = await sequences(url)
        assert after.keys() == before.keys()
        assert [name for name in before if after[name] < before[name]] == []
        assert {shard.log_epoch for shard in (await shards_of(url)).values()} == {2}


async def sequences(url: str) -> dict[str, tuple[int, int]]:
    """Return epoch and position of each event; in a log they never go back."""
    found: dict[str, tuple[int, int]] = {}
    newest: defaultdict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for shard, (position, name, _, epoch, _) in (await stored_in(url))[StoreTable.EVENT]:
        found[name] = (epoch, position)
        assert found[name] > newest[shard]
        newest[shard] = found[name]
    return found

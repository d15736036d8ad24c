"""Several shards and daemons on one PostgreSQL: the fence, foreign callbacks, common retention."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator

import pytest
from msgspec.structs import replace

from monitor.bus.contract import (
    Change,
    DeadLetter,
    EventBus,
    Pruned,
    Received,
    Retention,
    Start,
    StateEntry,
    Step,
)
from monitor.bus.postgres.bus import PostgresBus
from monitor.bus.postgres.reading.stored_runs import StoredPostgresRuns
from monitor.bus.postgres.writing.arrivals import learn_arrivals
from monitor.bus.postgres.writing.pruning import prune_all
from monitor.bus.postgres.writing.rows import callback_row
from monitor.model.errors import BusLostError, BusUnavailableError
from monitor.model.runs import RunKey, RunKind, Status
from tests.app.eventually import eventually
from tests.bus.examples import SOON, at, callback, event, events, key, log_of, run
from tests.bus.postgres_backend import TestDaemon, connect, new_database
from tests.postgres_server import PostgresServer

_INSERT = (
    "INSERT INTO callback (shard, workspace, fingerprint, received_at, received_by, body)"
    " VALUES ($1, $2, $3, $4, 'other', $5)"
)
# For a row of this database: a lock on a transaction, which is waited for, is of no database.
_WAITS = (
    "SELECT EXISTS (SELECT FROM pg_locks AS waiting JOIN pg_locks AS held USING (pid)"
    " JOIN pg_database ON pg_database.oid = held.database"
    " WHERE NOT waiting.granted AND datname = current_database())"
)


@pytest.fixture
async def url(postgres: PostgresServer) -> str:
    return postgres.url(await new_database(postgres))


@pytest.fixture
async def daemon(url: str) -> AsyncIterator[TestDaemon]:
    async with TestDaemon(url) as made:
        yield made


@pytest.fixture
async def other(url: str) -> AsyncIterator[TestDaemon]:
    async with TestDaemon(url, name="other") as made:
        yield made


def fenced_writes(daemon: TestDaemon) -> float:
    return daemon.registry.get_sample_value("dataprep_monitor_fenced_writes_total") or 0.0


async def receive(daemon: TestDaemon, bus: PostgresBus, number: int, *, bound: int = 9) -> Received:
    """Receive a callback at a daemon that may not hold the shard."""
    return await daemon.writer.receive(
        callback(number), bus.leased.number, inbox_bound=bound, timeout_seconds=SOON
    )


async def waiting(bus: EventBus, *, after: int = 0) -> list[str]:
    arrivals = await bus.inbox("marketing", after=after, limit=100)
    return [stored.run_id for stored in arrivals.callbacks]


async def test_each_shard_has_a_log_of_its_own(daemon: TestDaemon) -> None:
    """Writes of many shards that wait together have positions without holes in each."""
    buses = [await daemon.open(name) for name in ("a", "b", "c")]
    await asyncio.gather(
        *(
            bus.commit(events(number), timeout_seconds=SOON)
            for number in range(30)
            for bus in buses[: 1 + number % 3]
        )
    )

    for bus, count in zip(buses, (30, 20, 10), strict=True):
        assert [position for position, _ in await log_of(bus)] == list(range(1, count + 1))
    assert await buses[1].events_by_id([event(0).id]) == {}
    assert (await buses[1].events_by_id([event(1).id]))[event(1).id].position == 1


async def test_a_shard_that_was_taken_over_takes_no_writes(
    daemon: TestDaemon, other: TestDaemon
) -> None:
    """They are refused and counted; shards whose writes wait together with them are not."""
    lost, kept = await daemon.open("lost"), await daemon.open("kept")
    await lost.commit(events(1), timeout_seconds=SOON)
    reading = asyncio.create_task(lost.wait(1, timeout_seconds=SOON))
    new = await other.open("lost")
    results = await asyncio.gather(
        lost.commit(events(2), timeout_seconds=SOON),
        kept.commit(events(3), timeout_seconds=SOON),
        lost.commit(events(4), timeout_seconds=SOON),
        return_exceptions=True,
    )

    assert [type(result) for result in results] == [BusLostError, tuple, BusLostError]
    assert fenced_writes(daemon) == 2
    assert await log_of(new) == [(1, "1")]
    assert await log_of(kept) == [(1, "3")]
    for ended in (reading, lost.watch(), lost.events(after=0, limit=1), lost.confirm()):
        with pytest.raises(BusLostError):
            await ended
    assert not lost.may_publish()
    assert kept.may_publish()


async def test_a_daemon_that_lost_its_shard_removes_no_dead_letters(
    daemon: TestDaemon, other: TestDaemon
) -> None:
    """They are the new holder's, as all else that is stored of the shard."""
    lost = await daemon.open("lost")
    await lost.subscribe("mqtt", start=Start.OLDEST)
    letter = DeadLetter(position=1, event=event(1), reason="too large", refused_at=at(0))
    await lost.advance(Step(consumer="mqtt", dead_letters=(letter,)), timeout_seconds=SOON)
    new = await other.open("lost")
    with pytest.raises(BusLostError):
        await lost.advance(Step(consumer="mqtt", removed_letters=(1,)), timeout_seconds=SOON)

    assert await new.dead_letters("mqtt", limit=9) == [letter]
    await new.advance(Step(consumer="mqtt", removed_letters=(1,)), timeout_seconds=SOON)
    assert await new.dead_letters("mqtt", limit=9) == []


async def test_every_write_after_a_lost_lease_is_counted(daemon: TestDaemon, url: str) -> None:
    """In mid-write, queued after it or tried later: each is refused, and each is counted once."""
    bus = await daemon.open()
    connection = await connect(url)
    try:
        async with connection.transaction():
            await connection.execute("UPDATE shard SET holder = 'other', epoch = epoch + 1")
            writes = [asyncio.create_task(bus.commit(events(1), timeout_seconds=SOON))]
            await eventually(lambda: connection.fetchval(_WAITS), why="nothing waits")
            writes += [
                asyncio.create_task(bus.commit(events(number), timeout_seconds=SOON))
                for number in (2, 3)
            ]
            await asyncio.sleep(0)
            bus.lose("the lease was not renewed in time")
            writes.append(asyncio.create_task(bus.commit(events(4), timeout_seconds=SOON)))
            results = await asyncio.gather(*writes, return_exceptions=True)
        await daemon.writer.close()
        stored = await connection.fetchval("SELECT count(*) FROM event")
    finally:
        await connection.close()

    assert [type(result) for result in results] == [BusLostError] * 4
    assert fenced_writes(daemon) == 4
    assert stored == 0


async def test_a_lost_shard_is_noticed_by_asking(daemon: TestDaemon, other: TestDaemon) -> None:
    """A holder that writes nothing learns of a takeover when it has its lease confirmed."""
    bus = await daemon.open()
    await bus.confirm()
    await other.open()

    with pytest.raises(BusLostError, match="taken over"):
        await bus.confirm()
    assert daemon.deadline.seconds_left() > 0
    assert not bus.may_publish()


async def test_a_passed_deadline_ends_publishing(daemon: TestDaemon) -> None:
    """Without a renewal in time the shard may be another's, whatever its row says."""
    bus = await daemon.open()
    daemon.deadline.revoke()

    assert not bus.may_publish()
    with pytest.raises(BusLostError, match="not been renewed"):
        await bus.confirm()


async def test_a_write_that_the_server_refuses_spoils_no_other(daemon: TestDaemon) -> None:
    """Nothing of it is stored; those that wait together with it are."""
    bus = await daemon.open()
    # No compression makes it fit into an index.
    endless = replace(event(2), id=f"marketing:job_group:2:{secrets.token_hex(8_000)}")
    results = await asyncio.gather(
        bus.commit(events(1), timeout_seconds=SOON),
        bus.commit(Change(runs=(run(2),), events=(endless,)), timeout_seconds=SOON),
        bus.commit(events(3), timeout_seconds=SOON),
        return_exceptions=True,
    )

    assert isinstance(results[1], BusUnavailableError)
    assert (results[0], results[2]) == ((), ())
    assert sorted(name for _, name in await log_of(bus)) == ["1", "3"]
    assert await bus.runs([key(2)]) == {}
    failures = (await bus.status()).write_failures
    assert failures is not None
    assert (failures.count, failures.is_over) == (1, True)


async def test_any_text_is_stored_and_found(daemon: TestDaemon) -> None:
    """The character that the server cannot store, and the one that stands for it, are no others."""
    bus = await daemon.open()
    names = ["\0", "\\0", "\\\\0", "a\0b", "\\", "ä"]
    await bus.commit(
        Change(
            runs=tuple(
                replace(run(1), key=RunKey("marketing", RunKind.JOB_GROUP, name)) for name in names
            ),
            state_entries=tuple(
                StateEntry(workspace="marketing", topic=name, key=name, value=name.encode())
                for name in names
            ),
        ),
        timeout_seconds=SOON,
    )
    await bus.subscribe("\0", start=Start.OLDEST)
    state: dict[str, bytes | None] = {name: name.encode() for name in names}
    await bus.advance(Step(consumer="\0", state=state), timeout_seconds=SOON)

    keys = [RunKey("marketing", RunKind.JOB_GROUP, name) for name in names]
    assert list(await bus.runs(keys)) == keys
    for name in names:
        assert await bus.state_entries("marketing", name) == {name: name.encode()}
    assert await bus.consumer_state("\0") == state
    assert (await (await daemon.open()).status()).consumers[0].consumer == "\0"


async def test_any_daemon_takes_callbacks(daemon: TestDaemon, other: TestDaemon) -> None:
    """They are stored once, within the bound, and its holder learns of them when it asks."""
    bus = await daemon.open()
    answers = [await receive(other, bus, number, bound=2) for number in (1, 1, 2, 3, 2)]

    stored, again, full = Received.STORED, Received.DUPLICATE, Received.FULL
    assert answers == [stored, again, stored, full, again]
    assert other.foreign == [bus.leased.number] * 2
    assert await waiting(bus) == []
    assert await learn_arrivals(daemon.reader, [bus]) == {"shard"}
    assert await learn_arrivals(daemon.reader, [bus]) == set()
    assert await waiting(bus) == ["1", "2"]
    assert await receive(daemon, bus, 2) is Received.DUPLICATE
    assert await receive(daemon, bus, 4) is Received.STORED
    assert daemon.foreign == []
    assert await waiting(bus) == ["1", "2", "4"]


async def test_a_processed_callback_is_a_duplicate_everywhere(
    daemon: TestDaemon, other: TestDaemon
) -> None:
    """Until retention has forgotten it, whatever the clock of another daemon shows."""
    bus = await daemon.open()
    change = Change(events=(event(1),), arrived=(callback(1),))
    await bus.commit(change, timeout_seconds=SOON)
    other.clock.set_wall(at(40 * 86_400))
    assert await receive(other, bus, 1) is Received.DUPLICATE

    await bus.prune(Retention(), now=at(86_401))
    assert await receive(other, bus, 1) is Received.STORED
    await learn_arrivals(daemon.reader, [bus])
    assert await waiting(bus) == ["1"]


async def test_a_callback_whose_id_is_lower_may_come_later(daemon: TestDaemon) -> None:
    """Of two transactions the one with the lower id commits last: it is read after the other."""
    bus = await daemon.open()
    first, second = await connect(daemon.url), await connect(daemon.url)
    opened = first.transaction()
    await opened.start()
    for connection, number in ((first, 1), (second, 2)):
        row = callback_row(callback(number), shard=bus.leased.number)
        await connection.execute(
            _INSERT, row.shard, row.workspace, row.fingerprint, row.received_at, row.body
        )
    await learn_arrivals(daemon.reader, [bus])
    arrivals = await bus.inbox("marketing", limit=9)
    await opened.commit()
    await learn_arrivals(daemon.reader, [bus])
    later = await bus.inbox("marketing", after=arrivals.until, limit=9)

    assert [stored.run_id for stored in arrivals.callbacks] == ["2"]
    assert [stored.run_id for stored in later.callbacks] == ["1"]
    assert later.callbacks[0].id < arrivals.callbacks[0].id
    await bus.commit(
        Change(processed=tuple(c.id for c in arrivals.callbacks)), timeout_seconds=SOON
    )
    assert await waiting(await daemon.open()) == ["1"]
    await first.close()
    await second.close()


async def test_older_callbacks_are_read_from_the_store(
    daemon: TestDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory has the places of all that wait, and the contents of the newest only."""
    monkeypatch.setattr("monitor.bus.postgres.writing.waiting_callbacks.BODIES_KEPT", 2)
    bus = await daemon.open()
    for number in range(5):
        await receive(daemon, bus, number)

    assert await waiting(bus) == ["0", "1", "2", "3", "4"]
    assert await waiting(bus, after=1) == ["1", "2", "3", "4"]


async def test_runs_of_all_shards_are_read_together(daemon: TestDaemon, other: TestDaemon) -> None:
    """With any holders, and newest first over all."""
    first, second = await daemon.open("a"), await other.open("b")
    await first.commit(Change(runs=(run(1), run(3))), timeout_seconds=SOON)
    mine = run(2, Status.FAILED, workspace="finance")
    await second.commit(Change(runs=(mine,), events=(event(2),)), timeout_seconds=SOON)
    stored = StoredPostgresRuns(daemon.reader)

    assert await stored.recent_runs(limit=9) == [run(3), mine, run(1)]
    assert await stored.runs([mine.key, run(1).key]) == {mine.key: mine, run(1).key: run(1)}
    assert list(await stored.events_by_id([event(2).id])) == [event(2).id]


async def test_retention_of_many_shards_is_common(daemon: TestDaemon) -> None:
    """One call removes what is due in each; where nothing is, nothing is written."""
    due = [await daemon.open(f"due-{number}") for number in range(3)]
    idle = await daemon.open("idle")
    for number, bus in enumerate(due):
        old = run(number, Status.FAILED, workspace=f"w{number}")
        await bus.commit(Change(runs=(old,), events=(event(1), event(2))), timeout_seconds=SOON)
        await bus.receive(
            callback(number, workspace=f"w{number}"), inbox_bound=9, timeout_seconds=SOON
        )
    await idle.commit(events(1, recorded_at=at(200_000)), timeout_seconds=SOON)
    transactions = idle.leased.last_transaction
    retention = Retention(events_seconds=60, runs_seconds=86_400)
    pruned = await prune_all(daemon.writer, daemon.reader, [*due, idle], retention, now=at(200_000))

    for number, bus in enumerate(due):
        removed = pruned[f"due-{number}"]
        assert (removed.events, removed.runs) == (2, 1)
        assert [stored.run_id for stored in removed.callbacks] == [str(number)]
        assert await log_of(bus) == []
    assert pruned["idle"] == Pruned(events=0, runs=0, callbacks=())
    assert idle.leased.last_transaction == transactions


async def test_an_unnamed_consumer_keeps_its_place_for_a_while(daemon: TestDaemon) -> None:
    """A daemon of the version before may still have it; named again, it goes on."""
    lease = await daemon.claim()
    bus = await PostgresBus.open(
        lease,
        writer=daemon.writer,
        reader=daemon.reader,
        clock=daemon.clock,
        settings=daemon.settings,
    )
    await bus.commit(events(1, 2), timeout_seconds=SOON)
    await bus.subscribe("old", start=Start.OLDEST)
    await bus.advance(Step(consumer="old", position=1), timeout_seconds=SOON)

    assert await bus.keep_only(["new"]) == []
    assert await bus.subscribe("old", start=Start.NEWEST) == 1
    assert await bus.keep_only(["old"]) == []
    assert await (await daemon.open()).keep_only(["new"]) == ["old"]

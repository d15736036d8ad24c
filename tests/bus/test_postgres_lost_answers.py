"""A connection that breaks at any byte of a transaction: what was acknowledged is stored, once."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator

import pytest

from monitor.bus.contract import Change, EventBus, Received, Start, StateEntry, Step
from monitor.model.errors import BusLostError, BusUnavailableError
from tests.bus.examples import SOON, callback, event, events, log_of, run
from tests.bus.postgres_backend import TestDaemon, new_database
from tests.postgres_server import PostgresServer
from tests.servers import Relay

SHORT_SECONDS = 0.3
_CUTS = 40
# Of the test's own database: the server may not have noticed the ends of connections of others.
_WRITING_PROCESS = (
    "SELECT pid FROM pg_stat_activity"
    " WHERE datname = current_database() AND query LIKE 'WITH fence %'"
)
_AWAIT_END = (
    "DO $$ BEGIN WHILE EXISTS (SELECT FROM pg_stat_activity WHERE pid = {process}) LOOP"
    " PERFORM pg_sleep(0.01); PERFORM pg_stat_clear_snapshot(); END LOOP; END $$"
)
# A statement that the server knows has some 4,000 bytes here, and its answer about 100.
_REQUEST_BYTES, _ANSWER_BYTES = 4_000, 150


class CuttingRelay(Relay):
    """Cuts all connections at a byte, or keeps requests back until their sender is gone."""

    def __init__(self, target_port: int) -> None:
        super().__init__(target_port)
        self._left: dict[bool, int] = {}
        self._closes = False
        self._client: asyncio.StreamWriter | None = None  # the newest
        self._kept: list[tuple[asyncio.StreamWriter, bytes]] = []
        self.is_closed = False  # no connection gets through
        self.is_keeping = False  # requests do not reach the server
        self.happened = asyncio.Event()  # a cut, or something was kept

    def cut_after(self, bytes_: int, *, of_answers: bool, closing: bool = False) -> None:
        """Cut when so many more bytes have passed; ``closing`` refuses connections afterwards."""
        self._left = {of_answers: bytes_}
        self._closes = closing

    def hang_up(self) -> None:
        """Cut the newest client alone: the server does not notice."""
        assert self._client is not None
        self._client.transport.abort()

    def release(self) -> None:
        """Let the server have what was kept, though its sender is gone."""
        for writer, chunk in self._kept:
            writer.write(chunk)
            writer.write_eof()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.is_closed:
            writer.transport.abort()
            return
        self._client = writer
        await self._join(reader, writer)

    async def _forward(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_answer: bool
    ) -> None:
        try:
            while chunk := await reader.read(65_536):
                if self.is_keeping and not is_answer:
                    self._kept.append((writer, chunk))
                    self.happened.set()
                    return  # the server's side stays open
                if len(chunk) > self._left.get(is_answer, len(chunk)):
                    writer.write(chunk[: self._left[is_answer]])
                    await writer.drain()
                    self._end()
                    return
                if is_answer in self._left:
                    self._left[is_answer] -= len(chunk)
                writer.write(chunk)
                await writer.drain()
        except OSError:
            pass
        writer.transport.abort()

    def _end(self) -> None:
        self._left = {}
        self.is_closed = self._closes
        self.happened.set()
        self.cut()


@pytest.fixture
async def relay(postgres: PostgresServer) -> AsyncIterator[CuttingRelay]:
    async with CuttingRelay(postgres.port) as standing:
        yield standing


@pytest.fixture
async def daemon(postgres: PostgresServer, relay: CuttingRelay) -> AsyncIterator[TestDaemon]:
    """Return a daemon whose writer goes through the relay."""
    database = await new_database(postgres)
    urls = postgres.url(database), postgres.url(database, port=relay.port)
    async with TestDaemon(urls[0], writer_url=urls[1], answer_seconds=SOON) as made:
        yield made


async def write_all_kinds(bus: EventBus, number: int) -> Received:
    """Store a run with its event, a callback, a step with an event, and what runs alone.

    Returns the answer for the callback.
    """
    commit = Change(runs=(run(number),), events=(event(number),))
    step = Step(consumer="mqtt", position=number, events=(event(100_000 + number),))
    _, received, *_ = await asyncio.gather(
        bus.commit(commit, timeout_seconds=SOON),
        bus.receive(callback(number), inbox_bound=10_000, timeout_seconds=SOON),
        bus.advance(step, timeout_seconds=SOON),
        bus.subscribe(f"consumer-{number}", start=Start.OLDEST),
        bus.keep_only([f"consumer-{number}", "mqtt"]),
    )
    return received


async def test_acknowledged_writes_are_stored_once(daemon: TestDaemon, relay: CuttingRelay) -> None:
    """Wherever the line breaks, before, in or after a COMMIT, each write is there, and once."""
    chance = random.Random(7)  # noqa: S311 - the same cuts each time
    bus = await daemon.open()
    await bus.subscribe("mqtt", start=Start.OLDEST)
    await write_all_kinds(bus, 0)
    for number in range(1, _CUTS):
        of_answers = number % 2 == 0
        most = _ANSWER_BYTES if of_answers else _REQUEST_BYTES
        relay.cut_after(chance.randrange(most), of_answers=of_answers)
        assert await write_all_kinds(bus, number) is Received.STORED

    assert relay.has_more_than(_CUTS // 2)
    stored = await log_of(bus)
    assert [position for position, _ in stored] == list(range(1, 2 * _CUTS + 1))
    expected = [str(n) for start in (0, 100_000) for n in range(start, start + _CUTS)]
    assert sorted(name for _, name in stored) == sorted(expected)
    assert len(await bus.recent_runs(limit=1_000)) == _CUTS
    assert len((await bus.inbox("marketing", limit=1_000)).callbacks) == _CUTS
    assert (await bus.status()).newest_position == 2 * _CUTS


async def test_the_memory_of_the_holder_is_what_the_store_has(
    daemon: TestDaemon, relay: CuttingRelay
) -> None:
    """After answers were lost the next holder reads what the one before knew."""
    bus = await daemon.open()
    await bus.subscribe("mqtt", start=Start.OLDEST)
    for number in range(10):
        relay.cut_after(20 * number, of_answers=True)
        await write_all_kinds(bus, number)
    before = await bus.status(), await log_of(bus), await bus.inbox("marketing", limit=99)
    again = await daemon.open()

    after = await again.status(), await log_of(again), await again.inbox("marketing", limit=99)
    assert after == before


async def test_a_refused_write_is_not_stored(daemon: TestDaemon, relay: CuttingRelay) -> None:
    """Without answers, writes are refused in their time, and are not there afterwards."""
    bus = await daemon.open()
    await bus.commit(events(1), timeout_seconds=SOON)
    relay.is_closed = True
    relay.cut()
    with pytest.raises(BusUnavailableError):
        await bus.probe(timeout_seconds=SHORT_SECONDS)  # the writer learns of the cut
    for number in (2, 3):
        with pytest.raises(BusUnavailableError):
            await bus.commit(events(number), timeout_seconds=SHORT_SECONDS)
    relay.is_closed = False
    await bus.commit(events(4), timeout_seconds=SOON)

    assert await log_of(bus) == [(1, "1"), (2, "4")]
    failures = (await bus.status()).write_failures
    assert failures is not None
    assert (failures.count, failures.is_over) == (2, True)


@pytest.mark.parametrize("of_answers", [True, False])
async def test_a_late_answer_says_what_happened(
    daemon: TestDaemon, relay: CuttingRelay, *, of_answers: bool
) -> None:
    """A write on its way when the line breaks ends when it is known whether it was kept."""
    bus = await daemon.open()
    await bus.commit(events(1), timeout_seconds=SOON)
    relay.cut_after(0, of_answers=of_answers, closing=True)
    writing = asyncio.create_task(bus.commit(events(2), timeout_seconds=SHORT_SECONDS))
    await relay.happened.wait()
    done, _ = await asyncio.wait([writing], timeout=2 * SHORT_SECONDS)
    assert not done
    relay.is_closed = False
    (outcome,) = await asyncio.gather(writing, return_exceptions=True)

    is_kept = not isinstance(outcome, BaseException)
    assert is_kept or isinstance(outcome, BusUnavailableError)
    assert is_kept == of_answers
    assert [name for _, name in await log_of(bus)] == (["1", "2"] if is_kept else ["1"])


async def test_a_statement_that_arrives_late_is_not_executed(
    postgres: PostgresServer, daemon: TestDaemon, relay: CuttingRelay
) -> None:
    """A write that the network delivers after its sender has written it again changes nothing."""
    entry = StateEntry(workspace="marketing", topic="watermark", key="k", value=b"first")
    bus = await daemon.open()
    await bus.commit(Change(state_entries=(entry,)), timeout_seconds=SOON)
    relay.is_keeping = True
    database = daemon.url.rpartition("/")[2]
    (writing_process,) = await postgres.fetch(_WRITING_PROCESS, database=database)
    second = StateEntry(workspace="marketing", topic="watermark", key="k", value=b"2")
    late = Change(state_entries=(second,))
    writing = asyncio.create_task(bus.commit(late, timeout_seconds=SOON))
    await relay.happened.wait()
    relay.is_keeping = False
    relay.hang_up()
    await writing
    last = StateEntry(workspace="marketing", topic="watermark", key="k", value=b"3")
    await bus.commit(Change(state_entries=(last,)), timeout_seconds=SOON)
    relay.release()
    await postgres.execute(_AWAIT_END.format(process=writing_process["pid"]))
    await bus.commit(events(1), timeout_seconds=SOON)

    assert await bus.state_entries("marketing", "watermark") == {"k": b"3"}
    assert await log_of(bus) == [(1, "1")]


async def test_a_takeover_ends_what_waits_for_an_answer(
    daemon: TestDaemon, relay: CuttingRelay
) -> None:
    """A daemon that finds another holder when it returns has lost the shard, and says so."""
    bus = await daemon.open()
    await bus.commit(events(1), timeout_seconds=SOON)
    relay.cut_after(0, of_answers=False, closing=True)
    writing = asyncio.create_task(bus.commit(events(2), timeout_seconds=SOON))
    await relay.happened.wait()
    async with TestDaemon(daemon.url, name="another") as other:
        await other.open()
        relay.is_closed = False
        with pytest.raises(BusLostError):
            await writing
        with pytest.raises(BusLostError):
            await bus.watch()
    assert not bus.may_publish()

"""`EventBus` of one shard in a store that daemons share.

What the shard's holder knows of it is in memory (`LeasedShard`): the end of the log, the consumers,
the callbacks that wait. It has no other writer, so reads go to the server only for what is
older. Callbacks alone are stored by other daemons too, and learned by `arrivals.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Collection, Sequence
from datetime import datetime
from functools import partial
from typing import Self

import structlog

from monitor.bus.contract import (
    Arrivals,
    Batch,
    Change,
    Gap,
    Pruned,
    Received,
    Recorded,
    Retention,
    Start,
    Step,
    StoredCallback,
    StoreStatus,
)
from monitor.bus.postgres.connections.connecting import Connection
from monitor.bus.postgres.connections.reader import PostgresReader
from monitor.bus.postgres.leases.lease import Lease
from monitor.bus.postgres.reading.shard_opening import read_shards
from monitor.bus.postgres.reading.status import status_of
from monitor.bus.postgres.reading.stored_shard import PostgresStoredShard
from monitor.bus.postgres.writing import consumers, pruning
from monitor.bus.postgres.writing.arrivals import learn_waiting, read_callbacks
from monitor.bus.postgres.writing.instruction_table import PostgresInstructions
from monitor.bus.postgres.writing.leased_shard import LeasedShard
from monitor.bus.postgres.writing.rows import ShardRows, callback_row, rows_of_change, rows_of_step
from monitor.bus.postgres.writing.writer import PostgresWriter
from monitor.bus.settings import StorageSettings
from monitor.model.clock import Clock
from monitor.model.errors import BusLostError, BusUnavailableError

logger = structlog.get_logger()

# How long a consumer that no configuration names keeps its place: an upgrade takes less.
_CONSUMER_GRACE_SECONDS = 86_400.0
_FENCE = "SELECT holder, epoch FROM shard WHERE number = $1"


class PostgresBus(PostgresStoredShard):
    """One shard, held by this daemon until it is lost or closed. Made by `open`."""

    def __init__(
        self,
        held: LeasedShard,
        *,
        writer: PostgresWriter,
        reader: PostgresReader,
        clock: Clock,
        settings: StorageSettings,
        consumer_grace_seconds: float = _CONSUMER_GRACE_SECONDS,
    ) -> None:
        super().__init__(held.lease.shard, held.number, reader)
        self._held = held
        self._writer = writer
        self._clock = clock
        self._settings = settings
        self._consumer_grace_seconds = consumer_grace_seconds
        self._is_closed = False
        self.instructions = PostgresInstructions(held, writer)
        self._ended: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        held.on_loss = self._end_lost

    @classmethod
    async def open(
        cls,
        lease: Lease,
        *,
        writer: PostgresWriter,
        reader: PostgresReader,
        clock: Clock,
        settings: StorageSettings,
        consumer_grace_seconds: float = _CONSUMER_GRACE_SECONDS,
    ) -> Self:
        """Return the bus of a shard that was just claimed; as `open_many`."""
        (bus,) = await cls.open_many(
            [lease],
            writer=writer,
            reader=reader,
            clock=clock,
            settings=settings,
            consumer_grace_seconds=consumer_grace_seconds,
        )
        return bus

    @classmethod
    async def open_many(
        cls,
        leases: Sequence[Lease],
        *,
        writer: PostgresWriter,
        reader: PostgresReader,
        clock: Clock,
        settings: StorageSettings,
        consumer_grace_seconds: float = _CONSUMER_GRACE_SECONDS,
    ) -> list[Self]:
        """Return the buses of shards that were just claimed, by a few queries for all of them.

        Raises:
            BusLostError: one of them is not held by this daemon.
            BusUnavailableError: the store does not answer.
        """
        shards = await read_shards(reader, leases)
        for held in shards:
            writer.hold(held)  # before the inbox is read: nothing that arrives may be missed
        try:
            await learn_waiting(reader, shards)
        except BaseException:
            for held in shards:
                writer.abandon(held, "the shard could not be read")
            raise
        return [
            cls(
                held,
                writer=writer,
                reader=reader,
                clock=clock,
                settings=settings,
                consumer_grace_seconds=consumer_grace_seconds,
            )
            for held in shards
        ]

    @property
    def leased(self) -> LeasedShard:
        return self._held

    @property
    def lease_seconds(self) -> float:
        return self._settings.lease_seconds

    def may_publish(self) -> bool:
        return not self._is_closed and self._held.lease.may_publish()

    async def confirm(self) -> None:
        rows = await self._reading.fetch(_FENCE, self._number)
        lease = self._held.lease
        if not rows or (rows[0]["holder"], rows[0]["epoch"]) != (lease.holder, lease.epoch):
            self.lose(f"the shard {lease.shard} was taken over by another daemon")
        if not self.may_publish():
            raise BusLostError(lease.lost_reason or "the lease has not been renewed in time")

    async def watch(self) -> None:
        reason = await asyncio.shield(self._ended)
        if reason is not None:
            raise BusLostError(reason)

    def lose(self, reason: str) -> None:
        """End it at once: the shard is not, or not surely, this daemon's any more."""
        self._held.lose(reason)

    def _end_lost(self, reason: str) -> None:
        self._writer.abandon(self._held, reason)
        self._reading.end(BusLostError(reason))
        if not self._ended.done():
            self._ended.set_result(reason)

    async def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        self._held.tail.end()
        self._held.first_entries.forget()
        if not self._held.is_over and self._writer.is_writing(self._held):
            await self._finish_writes()
        self._writer.abandon(self._held, "the store is closed")
        self._reading.end(BusUnavailableError("the store is closed"))
        if not self._ended.done():
            self._ended.set_result(None)

    async def _finish_writes(self) -> None:
        """Wait for what was accepted: it is written before a job that comes after it."""
        try:
            await self._writer.run(
                _do_nothing, [self._held], timeout_seconds=self._settings.commit_timeout_seconds
            )
        except BusUnavailableError as exc:
            logger.warning("shard closed unfinished", shard=self.shard, reason=str(exc))

    async def commit(
        self, change: Change, *, timeout_seconds: float, linger_seconds: float = 0.0
    ) -> tuple[Received, ...]:
        """As the contract says. Cancelled while it is being stored, it may have been kept."""
        rows = rows_of_change(change, shard=self._number, now=self._clock.now())
        return await self._store(
            rows, timeout_seconds=timeout_seconds, linger_seconds=linger_seconds
        )

    async def receive(
        self, callback: StoredCallback, *, inbox_bound: int, timeout_seconds: float
    ) -> Received:
        row = callback_row(callback, shard=self._number, bound=inbox_bound)
        (received,) = await self._store(ShardRows(callbacks=[row]), timeout_seconds=timeout_seconds)
        return received

    def _store(
        self, rows: ShardRows, *, timeout_seconds: float, linger_seconds: float = 0.0
    ) -> Awaitable[tuple[Received, ...]]:
        if self._is_closed:
            raise BusUnavailableError("the store is closed")
        return self._writer.store(
            self._held, rows, timeout_seconds=timeout_seconds, linger_seconds=linger_seconds
        )

    async def state_entries(self, workspace: str, topic: str) -> dict[str, bytes]:
        self._reading.check()
        entries = await self._held.first_entries.of_topic(workspace, topic, self._reading.fetch)
        return await super().state_entries(workspace, topic) if entries is None else entries

    async def inbox(self, workspace: str, *, after: int = 0, limit: int) -> Arrivals:
        self._reading.check()
        places = self._held.arrivals.after(workspace, after, limit=limit)
        older = [place.id for place in places if place.callback is None]
        read = await read_callbacks(self._reading, older)
        callbacks = (place.callback or read.get(place.id) for place in places)
        return Arrivals(
            # One that was processed meanwhile is in neither.
            callbacks=tuple(callback for callback in callbacks if callback is not None),
            until=places[-1].place if places else after,
        )

    async def subscribe(self, consumer: str, *, start: Start) -> int:
        known = self._held.consumers.get(consumer)
        if known is None or not known.is_named:
            await self._store(
                ShardRows(subscription=(consumer, start)),
                timeout_seconds=self._settings.commit_timeout_seconds,
            )
        self._reading.check()
        return self._held.consumers[consumer].position

    async def keep_only(self, consumers_kept: Collection[str]) -> list[str]:
        self._reading.check()
        if all(
            name in consumers_kept and progress.is_named
            for name, progress in self._held.consumers.items()
        ):
            return []
        work = partial(
            consumers.keep_only,
            consumers=frozenset(consumers_kept),
            grace_seconds=self._consumer_grace_seconds,
        )
        dropped: list[str] = await self._writer.run(
            work,
            [self._held],
            timeout_seconds=self._settings.commit_timeout_seconds,
            on_kept=partial(self._held.keep_only, consumers_kept),
        )
        return dropped

    async def read(self, consumer: str, *, after: int, limit: int) -> Batch:
        self._reading.check()
        in_memory = self._held.tail.after(after, limit=limit)
        if in_memory is not None:
            return Batch(events=in_memory)
        batch = await self._read_stored(after=after, limit=limit)
        if batch.gap is not None:
            await self._count_loss(consumer, batch.gap)
        return batch

    async def events(self, *, after: int, limit: int) -> list[Recorded]:
        self._reading.check()
        in_memory = self._held.tail.after(after, limit=limit)
        if in_memory is not None:
            return list(in_memory)
        return list((await self._read_stored(after=after, limit=limit)).events)

    async def _read_stored(self, *, after: int, limit: int) -> Batch:
        """Return events, and what is missing between ``after`` and the first still stored.

        Raises:
            BusLostError: events are gone that retention has not removed. A reader that got nothing
                here would ask again at once, without end.
        """
        known = self._held.tail.newest
        recorded = await super().events(after=after, limit=limit)
        first = recorded[0].position if recorded else max(known, after) + 1
        last = min(first + limit - 1, max(known, recorded[-1].position if recorded else 0))
        positions = [event.position for event in recorded]
        is_cut = first == after + 1 or first <= self._held.cut_until + 1
        if not is_cut or positions != list(range(first, last + 1)):
            self.lose(
                f"the log was changed by another program: of the positions {after + 1} to {last} "
                f"it has {len(recorded)}"
            )
            self._reading.check()
        gap = Gap(until=first - 1, lost=first - 1 - after) if first > after + 1 else None
        return Batch(events=tuple(recorded), gap=gap)

    async def _count_loss(self, consumer: str, gap: Gap) -> None:
        progress = self._held.consumers.get(consumer)
        if progress is None or progress.counted_until >= gap.until:
            return
        lost_before = progress.lost
        await self._writer.run(
            partial(consumers.count_loss, consumer=consumer, gap=gap),
            [self._held],
            timeout_seconds=self._settings.commit_timeout_seconds,
            on_kept=partial(self._held.count_loss, consumer),
        )
        if progress.lost > lost_before:
            logger.warning("retention removed unread events", consumer=consumer, lost=gap.lost)

    async def wait(self, after: int, *, timeout_seconds: float) -> bool:
        has_ended = await self._held.tail.wait_past(after, timeout_seconds=timeout_seconds)
        if self._held.tail.is_over:
            self._reading.check()
            raise BusUnavailableError("the store is closed")
        return has_ended

    async def advance(
        self, step: Step, *, timeout_seconds: float, linger_seconds: float = 0.0
    ) -> None:
        await self._store(
            rows_of_step(step), timeout_seconds=timeout_seconds, linger_seconds=linger_seconds
        )
        progress = self._held.consumers.get(step.consumer)
        if progress is not None and progress.letters_at_most > consumers.DEAD_LETTERS_BOUND:
            await self._writer.run(
                partial(consumers.trim_dead_letters, consumer=step.consumer),
                [self._held],
                timeout_seconds=timeout_seconds,
            )
            progress.letters_at_most = consumers.DEAD_LETTERS_BOUND

    async def probe(self, *, timeout_seconds: float) -> None:
        self._reading.check()
        await self._writer.probe(timeout_seconds=timeout_seconds)

    async def status(self) -> StoreStatus:
        self._reading.check()
        return await status_of(
            self._held,
            self._reading,
            write_failures=self._writer.failures.failures,
            monotonic=self._clock.monotonic(),
        )

    async def prune(self, retention: Retention, *, now: datetime) -> Pruned:
        self._reading.check()
        pruned = await pruning.prune(
            self._writer,
            self._reading,
            [self._held],
            retention,
            now=now,
            timeout_seconds=self._settings.commit_timeout_seconds,
        )
        return pruned[self._number]


async def _do_nothing(_connection: Connection, _shards: Sequence[LeasedShard]) -> None:
    """Be a transaction, with the fence alone."""

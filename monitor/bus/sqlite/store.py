"""The embedded store: `EventBus` on one SQLite file."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from sqlite3 import Connection
from typing import Any, Self, TypeVar

import structlog
from prometheus_client import CollectorRegistry

from monitor.bus.contract import (
    Arrivals,
    Batch,
    Change,
    DeadLetter,
    Gap,
    Pruned,
    Received,
    Recorded,
    Retention,
    Start,
    StateEntry,
    Step,
    StoredCallback,
    StoreStatus,
)
from monitor.bus.log_tail import LogTail
from monitor.bus.settings import StorageSettings, store_path
from monitor.bus.shards import SOLE
from monitor.bus.sqlite import changes, inbox, log, progress, pruning, runs
from monitor.bus.sqlite.connection import (
    CommitNews,
    StoreConnection,
    connect,
    connect_reading,
)
from monitor.bus.sqlite.entries import SqliteEntries
from monitor.bus.sqlite.lock import StoreLock, take
from monitor.bus.sqlite.reader import StoreReader
from monitor.bus.sqlite.writer import StoreWriter
from monitor.bus.write_queue import WriteFailureRecord, commit_durations
from monitor.model.alerts import PipelineOfKind
from monitor.model.clock import Clock
from monitor.model.errors import BusLostError, BusUnavailableError
from monitor.model.runs import RunKey, RunKind, RunState, Status

T = TypeVar("T")

logger = structlog.get_logger()

_VERIFY_SECONDS = 1.0  # between two looks at whether the files are still ours
# No workspace can have this name, so the probe's state entry collides with none.
_PROBE = StateEntry(workspace="bridge", topic="readiness", key="probe", value=b"")


class SqliteBus:
    """One file, locked by one daemon. Made by `open`.

    An event id is unique among the stored events, so retention could let an old one in again. It
    does not come: a remembered run emits no event twice, and one that was forgotten since its end
    is historical. If the machine fails right after a failed write, what was refused may be stored
    after all, state and events together; committing it again makes the same ids.
    """

    def __init__(
        self,
        *,
        lock: StoreLock,
        writer: StoreWriter,
        reader: StoreReader,
        tail: LogTail,
        arrivals: inbox.RecentCallbacks,
        failures: WriteFailureRecord,
        clock: Clock,
        settings: StorageSettings,
    ) -> None:
        self._lock = lock
        self._writer = writer
        self._reader = reader
        self._tail = tail
        self._arrivals = arrivals
        self._failures = failures
        self._clock = clock
        self._settings = settings
        self._path = lock.store
        limit = settings.commit_timeout_seconds
        self.entries = SqliteEntries(writer, reader, timeout_seconds=limit)
        self._is_closed = False

    @classmethod
    async def open(
        cls, where: StorageSettings | Path, *, clock: Clock, registry: CollectorRegistry
    ) -> Self:
        """Take the file for this process, creating or upgrading it.

        Raises:
            BusLockedError: another daemon has it; the message names its process.
            BusSchemaError: a newer monitor wrote it, it is damaged, or no store of the monitor.
            BusUnavailableError: it cannot be opened or made, or may not be where it is.
            ConfigurationError: the settings name no file.
        """
        settings = where if isinstance(where, StorageSettings) else StorageSettings()
        path = where if isinstance(where, Path) else store_path(settings.url)
        lock = await asyncio.to_thread(take, path, clock.now())
        path = lock.store
        reader = StoreReader(
            partial(connect_reading, path), timeout_seconds=settings.read_timeout_seconds
        )
        try:
            failures = WriteFailureRecord(clock, registry)
            tail, arrivals = LogTail(await reader.run(log.newest_position)), inbox.RecentCallbacks()
            writer = StoreWriter(
                partial(connect, path),
                clock=clock,
                durations=commit_durations(registry),
                on_commit=partial(_update_memory, tail, arrivals),
                verify=lock.verify,
                failures=failures,
                queue_bound=settings.queue_bound,
                stall_seconds=settings.stall_seconds,
            )
        except BaseException:
            await reader.close()
            lock.release()
            raise
        # The writer works on cached pages and may not meet the damage for long.
        reader.on_loss = writer.die
        logger.info("store opened", store=str(path))
        return cls(
            lock=lock,
            writer=writer,
            reader=reader,
            tail=tail,
            arrivals=arrivals,
            failures=failures,
            clock=clock,
            settings=settings,
        )

    @property
    def shard(self) -> str:
        return SOLE

    @property
    def lease_seconds(self) -> float:
        return 0.0

    def may_publish(self) -> bool:
        return not self._is_closed and self._writer.is_alive

    async def confirm(self) -> None:
        await self._verify()
        if not self.may_publish():
            raise BusLostError("the store is closed or lost")

    async def watch(self) -> None:
        """As the contract says: the writer dies of a lost or damaged file, or of a hung disk."""
        while True:
            try:
                async with asyncio.timeout(_VERIFY_SECONDS):
                    return await self._writer.watch()
            except TimeoutError:
                await self._verify()

    async def _verify(self) -> None:
        """Look at the files also when nothing is written."""
        try:
            await asyncio.to_thread(self._lock.verify)
        except BusLostError as exc:
            # A close at the same time removes the side files itself.
            if not self._is_closed:
                self._writer.die(exc)

    async def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        self._tail.end()
        await self._writer.close()
        await self._reader.close()
        # In a thread: the last connection to be closed writes the log back into the file.
        await asyncio.to_thread(self._lock.release)
        logger.info("store closed", store=str(self._path))

    async def commit(
        self, change: Change, *, timeout_seconds: float, linger_seconds: float = 0.0
    ) -> tuple[Received, ...]:
        """As the contract says. Cancelled while it is being stored, it may have been kept."""
        del linger_seconds  # a transaction of its own costs next to nothing here
        prepared = changes.prepare_change(change, now=self._clock.now())
        return await self._writer.write(changes.store, prepared, timeout_seconds=timeout_seconds)

    async def runs(self, keys: Collection[RunKey]) -> dict[RunKey, RunState]:
        return await self._reader.run(partial(runs.by_key, keys=keys))

    async def active_runs(self, workspace: str) -> list[RunState]:
        return await self._reader.run(partial(runs.active, workspace=workspace))

    async def recent_runs(
        self,
        *,
        workspaces: Collection[str] | None = None,
        kind: RunKind | None = None,
        statuses: Collection[Status] = (),
        pipelines: Collection[PipelineOfKind] | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        before: RunKey | None = None,
        limit: int,
    ) -> list[RunState]:
        wanted = runs.RecentRuns(
            workspaces=None if workspaces is None else frozenset(workspaces),
            kind=kind,
            statuses=tuple(statuses),
            pipelines=None if pipelines is None else tuple(pipelines),
            since=since,
            until=until,
            before=before,
            limit=limit,
        )
        return await self._reader.run(partial(runs.recent, wanted=wanted))

    async def pipeline_runs(
        self,
        pipelines: Collection[PipelineOfKind],
        *,
        limit: int,
        since: datetime | None = None,
        before: datetime | None = None,
    ) -> dict[PipelineOfKind, list[RunState]]:
        find = partial(runs.of_pipelines, since=since, before=before, limit=limit)
        return await self._reader.run(partial(find, pipelines=tuple(pipelines)))

    async def children(self, key: RunKey) -> list[RunState]:
        return await self._reader.run(partial(runs.children, key=key))

    async def state_entries(self, workspace: str, topic: str) -> dict[str, bytes]:
        return await self._reader.run(
            partial(changes.entries_of_topic, workspace=workspace, topic=topic)
        )

    async def receive(
        self, callback: StoredCallback, *, inbox_bound: int, timeout_seconds: float
    ) -> Received:
        row = inbox.inbox_row(callback, bound=inbox_bound)
        return await self._writer.write(inbox.receive, row, timeout_seconds=timeout_seconds)

    async def inbox(self, workspace: str, *, after: int = 0, limit: int) -> Arrivals:
        waiting = self._arrivals.waiting_after(workspace, after, limit=limit)
        if waiting is None or self._is_closed:
            waiting = await self._reader.run(
                partial(inbox.waiting, workspace=workspace, after=after, limit=limit)
            )
        # There is no other writer, so ids become visible in their order.
        return Arrivals(callbacks=tuple(waiting), until=waiting[-1].id if waiting else after)

    async def subscribe(self, consumer: str, *, start: Start) -> int:
        return await self._write(partial(progress.subscribe, consumer=consumer, start=start))

    async def keep_only(self, consumers: Collection[str]) -> list[str]:
        return await self._write(partial(progress.keep_only, consumers=frozenset(consumers)))

    async def read(self, consumer: str, *, after: int, limit: int) -> Batch:
        in_memory = self._tail.after(after, limit=limit)
        if in_memory is not None:
            return Batch(events=in_memory)

        known = self._tail.newest

        def find(db: StoreConnection) -> tuple[Batch, Gap | None]:
            batch = log.read_batch(db, after=after, limit=limit, known=known)
            return batch, progress.uncounted(db, consumer, batch.gap)

        batch, uncounted = await self._reader.run(find)
        if uncounted is not None:
            await self._write(partial(progress.count_loss, consumer=consumer, gap=uncounted))
            logger.warning(
                "retention removed unread events", consumer=consumer, lost=uncounted.lost
            )
        return batch

    async def events(self, *, after: int, limit: int) -> list[Recorded]:
        in_memory = self._tail.after(after, limit=limit)
        if in_memory is not None:
            return list(in_memory)
        return await self._reader.run(
            partial(log.read, after=after, limit=limit, known=self._tail.newest)
        )

    async def events_by_id(self, ids: Collection[str]) -> dict[str, Recorded]:
        return await self._reader.run(partial(log.by_id, ids=ids))

    async def events_since(self, recorded_at: datetime) -> int:
        return await self._reader.run(partial(log.position_before, recorded_at=recorded_at))

    async def wait(self, after: int, *, timeout_seconds: float) -> bool:
        has_ended = await self._tail.wait_past(after, timeout_seconds=timeout_seconds)
        if self._tail.is_over:
            raise BusUnavailableError("the store is closed")
        return has_ended

    async def advance(
        self,
        step: Step,
        *,
        timeout_seconds: float,
        linger_seconds: float = 0.0,
    ) -> None:
        take = partial(progress.advance, step=step, events=log.rows(step.events))
        await self._writer.write(
            _each, take, timeout_seconds=timeout_seconds, linger_seconds=linger_seconds
        )

    async def consumer_state(self, consumer: str) -> dict[str, bytes]:
        return await self._reader.run(partial(progress.state, consumer=consumer))

    async def dead_letters(self, consumer: str, *, limit: int) -> list[DeadLetter]:
        return await self._reader.run(
            partial(progress.dead_letters, consumer=consumer, limit=limit)
        )

    async def dead_letters_after(
        self, consumer: str, position: int | None, *, limit: int
    ) -> list[DeadLetter]:
        return await self._reader.run(
            partial(progress.dead_letters_after, consumer=consumer, position=position, limit=limit)
        )

    async def probe(self, *, timeout_seconds: float) -> None:
        await self._writer.write(_probe, None, timeout_seconds=timeout_seconds, is_probe=True)

    async def status(self) -> StoreStatus:
        failures = self._failures.failures

        def find(db: Connection) -> StoreStatus:
            return StoreStatus(
                newest_position=log.newest_position(db),
                oldest_position=log.oldest_position(db),
                consumers=progress.consumer_statuses(db),
                inbox=inbox.sizes(db),
                store_bytes=self._lock.store_bytes(),
                write_failures=failures,
            )

        return await self._reader.run(find)

    async def prune(self, retention: Retention, *, now: datetime) -> Pruned:
        events = await self._in_pieces(partial(pruning.cut_events, retention=retention, now=now))
        if events:
            self._tail.drop()
        forgotten = await self._in_pieces(
            partial(pruning.forget_runs, retention=retention, now=now)
        )
        await self._in_pieces(partial(pruning.forget_processed, now=now))
        expired: list[StoredCallback] = []
        expire = partial(pruning.expire_callbacks, retention=retention, now=now)
        while piece := await self._write(expire):
            expired += piece
            self._arrivals.forget(callback.id for callback in piece)
        return Pruned(events=events, runs=forgotten, callbacks=tuple(expired))

    async def _in_pieces(self, remove: Callable[[Connection], int]) -> int:
        removed = 0
        while piece := await self._write(remove):
            removed += piece
        return removed

    async def _write(self, work: Callable[[StoreConnection], T]) -> T:
        limit = self._settings.commit_timeout_seconds
        # What `_each` returns for this work is what this work returns.
        result: T = await self._writer.write(_each, work, timeout_seconds=limit)
        return result


def _update_memory(tail: LogTail, arrivals: inbox.RecentCallbacks, news: CommitNews) -> None:
    if news.events:
        tail.append(news.events)
    arrivals.add(news.callbacks)
    arrivals.forget(news.processed)


def _probe(db: StoreConnection, probes: Sequence[None]) -> Sequence[None]:
    changes.store_entries(db, [_PROBE])
    return probes


def _each(db: StoreConnection, works: Sequence[Callable[[StoreConnection], Any]]) -> list[Any]:
    return [work(db) for work in works]

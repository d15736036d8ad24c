"""The one writer of a daemon. What is queued for all its shards goes into few transactions.

A task on the loop owns the connection and takes one group of jobs after the other; of a group, all
changes and steps are one statement. A job is claimed when there is a connection. From then on its
transaction is never cancelled: if its answer is lost, the rows of its shards say how it ended
(`unanswered.py`), and before that is known nothing else is written. Callers of a shard that is lost
meanwhile fail at once.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from typing import Any, TypeVar

import asyncpg
import structlog
from asyncpg import exceptions as server_errors
from prometheus_client import CollectorRegistry, Counter

from monitor.bus.commit_durations import commit_durations
from monitor.bus.contract import Received, StoredCallback
from monitor.bus.postgres.batch import Given, numbered
from monitor.bus.postgres.connecting import Connection
from monitor.bus.postgres.failures import SERVER_ERRORS, reason_of, unavailable
from monitor.bus.postgres.held_shard import HeldShard
from monitor.bus.postgres.inbox_bounds import ForeignInboxes
from monitor.bus.postgres.rows import CallbackRow, Rows, callback_row
from monitor.bus.postgres.transactions import (
    Probe,
    ReceiveForeign,
    RunWork,
    StoreRows,
    Transaction,
    Work,
)
from monitor.bus.postgres.unanswered import kept_of
from monitor.bus.settings import StorageSettings
from monitor.bus.write_failures import WriteFailureRecord
from monitor.bus.write_queue import WriteGroup, WriteJob, WriteQueue
from monitor.model.clock import Clock
from monitor.model.errors import BusLostError, BusUnavailableError
from monitor.model.waits import backoff_seconds

T = TypeVar("T")

log = structlog.get_logger()

# Kinds of jobs; those of the first two are done together.
_ROWS, _FOREIGN, _PROBE, _WORK = "rows", "foreign", "probe", "work"
# Jobs of one statement: more would hold the loop, and the row of the shard, for long.
_TOGETHER = 250
_RETRIES = 3  # of a transaction that the server asks to repeat
_RECONNECT_SECONDS, _LONGEST_RECONNECT_SECONDS = 0.05, 1.0
# Errors of one job and not of the store; the rest of the group is not affected.
_JOB_ERRORS = (
    server_errors.DataError,
    server_errors.IntegrityConstraintViolationError,
    server_errors.ProgramLimitExceededError,
    server_errors.CardinalityViolationError,
    server_errors.CharacterNotInRepertoireError,
    asyncpg.InterfaceError,  # values that cannot be sent
    OverflowError,
    UnicodeEncodeError,
)
# After these the same transaction may succeed, on this connection or on a new one.
_REPEATED_ERRORS = (
    server_errors.TransactionRollbackError,
    server_errors.FeatureNotSupportedError,  # a plan that a change of the schema has outdated
    server_errors.ReadOnlySQLTransactionError,  # a primary that became a standby
)
# Every statement finds its rows by an index; a plan made while a table was small must do so too.
_PLANS = (
    "SELECT set_config(name, value, false) FROM (VALUES ('plan_cache_mode', 'force_generic_plan'),"
    " ('enable_seqscan', 'off'), ('enable_hashjoin', 'off'), ('enable_mergejoin', 'off'),"
    " ('jit', 'off')) AS settings (name, value)"
)


class PostgresWriter:
    """Runs writes in the order of their arrival, many to a transaction."""

    def __init__(
        self,
        connect: Callable[[], Awaitable[Connection]],
        *,
        daemon_id: str,
        clock: Clock,
        registry: CollectorRegistry,
        settings: StorageSettings,
        on_foreign: Callable[[int], None],
        answer_seconds: float = 6.0,
    ) -> None:
        """Call ``on_foreign`` with the number of a shard, not held here, that got a callback.

        ``answer_seconds``: a connection that gives no answer for so long is cut.
        """
        self.failures = WriteFailureRecord(clock, registry)
        self._connect = connect
        self._daemon_id = daemon_id
        self._clock = clock
        self._durations = commit_durations(registry)
        self._fenced = Counter(
            "dataprep_monitor_fenced_writes",
            "Writes that were refused because another daemon holds the shard.",
            registry=registry,
        )
        self._stall_seconds = settings.stall_seconds
        self._answer_seconds = answer_seconds
        self._on_foreign = on_foreign
        self._held: dict[int, HeldShard] = {}
        self._inboxes = ForeignInboxes()
        self._groups: asyncio.Queue[WriteGroup | None] = asyncio.Queue()
        self._jobs = WriteQueue(
            bound=settings.queue_bound,
            failures=self.failures,
            on_group=self._groups.put_nowait,
            on_late=_give_up,
        )
        self._connection: Connection | None = None
        self._failed_attempts = 0
        self._is_closed = False
        self._closing = asyncio.Event()
        self._death: BaseException | None = None
        self._task = asyncio.create_task(self._serve(), name="store writer")

    @property
    def is_connected(self) -> bool:
        return self._connection is not None and not self._connection.is_closed()

    def hold(self, shard: HeldShard) -> None:
        """Take writes for a shard, and tell it of callbacks that arrive here."""
        self._held[shard.number] = shard

    def abandon(self, shard: HeldShard, reason: str) -> None:
        """Take no more writes for the shard; who waits for one fails."""
        if self._held.get(shard.number) is shard:
            del self._held[shard.number]
        self._jobs.fail_some(
            lambda job: shard in _shards_of(job) and len(_shards_of(job)) == 1,
            lambda: BusLostError(reason),
        )

    async def store(
        self,
        shard: HeldShard,
        rows: Rows,
        *,
        timeout_seconds: float,
        patience_seconds: float = 0.0,
    ) -> tuple[Received, ...]:
        """Return once the rows are durable, with an answer for each callback.

        Raises:
            BusLostError: the shard is not ours any more.
            BusUnavailableError: nothing of it was kept.
        """
        return await self._write(
            WriteJob(_ROWS, Given(shard, rows)), timeout_seconds, patience_seconds
        )

    async def receive(
        self, callback: StoredCallback, shard: int, *, inbox_bound: int, timeout_seconds: float
    ) -> Received:
        """Store a callback for the shard of that number, whoever holds it."""
        row = callback_row(callback, shard=shard, now=self._clock.now(), bound=inbox_bound)
        if (held := self._held.get(shard)) is not None:
            # Another daemon may take it over meanwhile: then the callback is stored all the same.
            with contextlib.suppress(BusLostError):
                (received,) = await self.store(
                    held, Rows(callbacks=[row]), timeout_seconds=timeout_seconds
                )
                return received
        job: WriteJob[Received] = WriteJob(_FOREIGN, row)
        return await self._write(job, timeout_seconds)

    async def probe(self, *, timeout_seconds: float) -> None:
        """Return once something that nobody reads is durable."""
        await self._write(WriteJob(_PROBE, None, is_probe=True), timeout_seconds)

    async def run(
        self, work: Work, shards: Sequence[HeldShard], *, timeout_seconds: float
    ) -> Any:
        """Return the result of ``work``, run in a transaction of these shards once it is durable.

        It is called with those that are still held, and again where nothing of it was kept.
        """
        return await self._write(WriteJob(_WORK, (work, tuple(shards))), timeout_seconds)

    async def close(self) -> None:
        """Finish what is queued, then close the connection."""
        if self._is_closed:
            return
        self._is_closed = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._stall_seconds):
                await self._jobs.drain()
        self._closing.set()
        self._jobs.fail_all(lambda: BusUnavailableError("the store is closed"))
        self._jobs.stop_timer()
        self._groups.put_nowait(None)
        if self._connection is not None:
            # Nothing is under way any more, or it hangs.
            self._connection.terminate()
        await self._task

    async def _write(
        self, job: WriteJob[T], timeout_seconds: float, patience_seconds: float = 0.0
    ) -> T:
        if self._is_closed:
            raise BusUnavailableError("the store is closed")
        if self._death is not None:
            raise BusUnavailableError(f"the writer has died: {self._death}") from self._death
        for shard in _shards_of(job):
            if shard.lease.is_lost and len(_shards_of(job)) == 1:
                raise BusLostError(str(shard.lease.lost_reason))
        return await self._jobs.write(
            job, timeout_seconds=timeout_seconds, patience_seconds=patience_seconds
        )

    async def _serve(self) -> None:
        while (group := await self._groups.get()) is not None:
            try:
                await self._write_group(group)
            except Exception as exc:
                # Whatever it is, no caller may wait for ever.
                log.exception("store writer died")
                self._death = exc
                self._jobs.fail_all(lambda: BusUnavailableError("the writer has died"))
            finally:
                self._jobs.finish()
        self._drop_connection()

    async def _write_group(self, group: WriteGroup) -> None:
        by_kind: defaultdict[str, WriteGroup] = defaultdict(list)
        for job in group:
            by_kind[job.work].append(job)
        for kind in (_ROWS, _FOREIGN):
            for jobs in _pieces(by_kind[kind]):
                await self._write_together(jobs)
        if probes := by_kind[_PROBE]:
            await self._write_together(probes)
        for job in by_kind[_WORK]:
            await self._write_together([job])

    async def _write_together(self, jobs: WriteGroup) -> None:
        """Write the jobs in one transaction; where one of them is refused, each in its own."""
        try:
            await self._transact(jobs)
        except _JOB_ERRORS as exc:
            if len(jobs) == 1:
                self._refuse(jobs, exc)
                return
            for job in jobs:
                await self._write_together([job])

    async def _transact(self, jobs: WriteGroup) -> None:
        """Execute until it is known how it ended, for as long as anybody waits."""
        for attempt in range(1, 1_000_000):
            connection = await self._connected(jobs)
            claimed = [job for job in self._jobs.claim(jobs) if not job.answer.done()]
            if connection is None or not claimed:
                return
            transaction = self._transaction_of(claimed)
            began = self._clock.monotonic()
            try:
                await self._in_time(connection, transaction.execute(connection))
            except _REPEATED_ERRORS as exc:
                self._drop_connection()
                if attempt >= _RETRIES:
                    self._refuse(claimed, exc)
                    return
            except SERVER_ERRORS as exc:
                if _is_refusal(exc, connection):
                    if isinstance(exc, _JOB_ERRORS):
                        self._jobs.unclaim(claimed)
                        raise
                    self._refuse(claimed, exc)
                    return
                self._report_loss(exc)
                if await self._was_kept(transaction):
                    self._conclude(transaction, claimed)
                    return
            else:
                self._durations.observe(self._clock.monotonic() - began)
                self._conclude(transaction, claimed)
                return
            self._jobs.unclaim(claimed)

    def _transaction_of(self, jobs: WriteGroup) -> Transaction:
        kind = jobs[0].work
        if kind == _ROWS:
            return StoreRows(jobs, daemon_id=self._daemon_id)
        if kind == _FOREIGN:
            return ReceiveForeign(
                jobs,
                daemon_id=self._daemon_id,
                inboxes=self._inboxes,
                on_stored=self._learn_foreign,
            )
        if kind == _PROBE:
            return Probe(self._daemon_id)
        work, shards = jobs[0].given
        return RunWork(work, [shard for shard in shards if not shard.lease.is_lost])

    async def _was_kept(self, transaction: Transaction) -> bool:
        """Find out whether a transaction without an answer was kept, and then what it answered."""
        shards = transaction.shards
        if not shards:
            return False
        for attempt in range(1, 1_000_000):
            self._drop_connection()
            if self._closing.is_set() or all(shard.lease.is_lost for shard in shards):
                return False
            try:
                self._connection = await self._connect_once()
                kept = await self._in_time(self._connection, kept_of(self._connection, shards))
                if kept:
                    await self._in_time(
                        self._connection, transaction.recover(self._connection, kept)
                    )
                return bool(kept)
            except (*SERVER_ERRORS, BusUnavailableError) as exc:
                self._report_loss(exc)
            await self._pause(attempt)
        return False

    def _conclude(self, transaction: Transaction, jobs: WriteGroup) -> None:
        held = transaction.conclude()
        for shard in transaction.shards:
            if shard.number not in held:
                self._lose(shard, jobs)
        stored = 0
        for job in jobs:
            shards = _shards_of(job)
            if job.error is None and shards and not any(s.number in held for s in shards):
                job.error = BusLostError(_lost(shards[0]))
            stored += job.error is None and not job.is_probe
            if isinstance(transaction, RunWork):
                job.result = transaction.result
        if stored:
            self.failures.stored()
        if self._failed_attempts:
            log.info("store writable again", failures=self._failed_attempts)
            self._failed_attempts = 0

    def _lose(self, shard: HeldShard, jobs: WriteGroup) -> None:
        refused = sum(shard in _shards_of(job) for job in jobs)
        self._fenced.inc(refused)
        log.warning("writes fenced", shard=shard.lease.shard, writes=refused)
        shard.lose(_lost(shard))

    def _learn_foreign(self, row: CallbackRow, id_: int) -> None:
        if (held := self._held.get(row.shard)) is not None:
            held.arrivals.add([numbered(row, id_)])
        else:
            self._on_foreign(row.shard)

    def _refuse(self, jobs: WriteGroup, cause: BaseException) -> None:
        """Fail jobs of which nothing was kept."""
        for job in jobs:
            job.error = BusUnavailableError(f"the store did not take it: {reason_of(cause)}")
            job.error.__cause__ = cause
        refused = sum(not job.is_probe for job in jobs)
        if refused:
            self.failures.refused(reason_of(cause), writes=refused)
        log.warning("store write failed", error=reason_of(cause), writes=len(jobs))

    async def _connected(self, jobs: WriteGroup) -> Connection | None:
        """Return the connection, trying for as long as anybody waits; None if nobody does."""
        for attempt in range(1, 1_000_000):
            if self._connection is not None and not self._connection.is_closed():
                return self._connection
            if self._closing.is_set() or all(job.answer.done() for job in jobs):
                return None
            try:
                self._connection = await self._connect_once()
            except (*SERVER_ERRORS, BusUnavailableError) as exc:
                self._report_loss(exc)
                await self._pause(attempt)
        return None

    async def _connect_once(self) -> Connection:
        connection = await self._connect()
        try:
            await self._in_time(connection, connection.execute(_PLANS))
        except BaseException:
            connection.terminate()
            raise
        return connection

    async def _in_time(self, connection: Connection, answer: Awaitable[T]) -> T:
        """Return the answer. A late one is not cancelled, which is no answer: its line is cut."""
        loop = asyncio.get_running_loop()
        limit = loop.call_later(self._answer_seconds, connection.terminate)
        try:
            return await answer
        finally:
            limit.cancel()

    async def _pause(self, attempt: int) -> None:
        seconds = backoff_seconds(
            attempt, base_seconds=_RECONNECT_SECONDS, cap_seconds=_LONGEST_RECONNECT_SECONDS
        )
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._closing.wait()

    def _report_loss(self, cause: BaseException) -> None:
        self._failed_attempts += 1
        if self._failed_attempts == 1 and not self._closing.is_set():
            reason = str(cause) if isinstance(cause, BusUnavailableError) else reason_of(cause)
            log.warning("store connection lost", error=reason)

    def _drop_connection(self) -> None:
        if self._connection is not None:
            self._connection.terminate()
            self._connection = None


def _give_up(job: WriteJob[Any]) -> None:
    """End a claimed job that is late, where whoever stores the same again finds it there."""
    if job.work in (_FOREIGN, _PROBE):
        job.error = BusUnavailableError(f"no answer within {job.timeout_seconds:g} s")
        job.end()


def _shards_of(job: WriteJob[Any]) -> Sequence[HeldShard]:
    if job.work == _ROWS:
        return (job.given.shard,)
    return job.given[1] if job.work == _WORK else ()


def _pieces(jobs: WriteGroup) -> Iterator[WriteGroup]:
    for start in range(0, len(jobs), _TOGETHER):
        yield jobs[start : start + _TOGETHER]


def _is_refusal(exc: BaseException, connection: Connection) -> bool:
    """True where the server has said that nothing was kept, or was not even asked."""
    if connection.is_closed():
        return False
    if isinstance(exc, asyncpg.PostgresError):
        return getattr(exc, "severity_en", None) == "ERROR"
    return isinstance(exc, asyncpg.InterfaceError)


def _lost(shard: HeldShard) -> str:
    return shard.lease.lost_reason or (
        f"the shard {shard.lease.shard} is not held by this daemon any more"
    )

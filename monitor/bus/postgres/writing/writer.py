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
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from itertools import count
from typing import Any, TypeVar

import structlog
from prometheus_client import CollectorRegistry

from monitor.bus.contract import Received, StoredCallback
from monitor.bus.postgres.connections.connecting import Connection
from monitor.bus.postgres.connections.connection_failures import SERVER_ERRORS, reason_of
from monitor.bus.postgres.connections.server_refusals import JOB_ERRORS, REPEATED_ERRORS, is_refusal
from monitor.bus.postgres.postgres_metrics import fenced_writes
from monitor.bus.postgres.writing.batch import Given, numbered
from monitor.bus.postgres.writing.inbox_bounds import ForeignInboxes
from monitor.bus.postgres.writing.job_kinds import (
    FOREIGN,
    PROBE,
    ROWS,
    WORK,
    give_up,
    has_caller,
    has_holder,
    is_lost,
    pieces,
    shards_of,
)
from monitor.bus.postgres.writing.leased_shard import LeasedShard
from monitor.bus.postgres.writing.rows import CallbackRow, ShardRows, callback_row
from monitor.bus.postgres.writing.transactions import (
    FencedTransaction,
    Probe,
    ReceiveForeign,
    RunUnfenced,
    RunWork,
    StoreRows,
    Transaction,
    Work,
)
from monitor.bus.postgres.writing.unanswered import kept_of
from monitor.bus.postgres.writing.writer_line import WriterLine
from monitor.bus.settings import StorageSettings
from monitor.bus.write_queue import (
    WriteFailureRecord,
    WriteGroup,
    WriteJob,
    WriteQueue,
    commit_durations,
)
from monitor.model.clock import Clock
from monitor.model.errors import BusError, BusLostError, BusUnavailableError

T = TypeVar("T")

log = structlog.get_logger()

_ATTEMPTS = 3  # at a transaction that the server asks to repeat


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
        self._daemon_id = daemon_id
        self._clock = clock
        self._durations = commit_durations(registry)
        self._fenced = fenced_writes(registry)
        self._stall_seconds = settings.stall_seconds
        self._on_foreign = on_foreign
        self._held: dict[int, LeasedShard] = {}
        self._inboxes = ForeignInboxes()
        self._groups: asyncio.Queue[WriteGroup | None] = asyncio.Queue()
        self._jobs = WriteQueue(
            bound=settings.queue_bound,
            failures=self.failures,
            on_group=self._groups.put_nowait,
            on_late=give_up,
        )
        self._line = WriterLine(connect, answer_seconds=answer_seconds)
        self._is_closed = False
        self._death: BaseException | None = None
        self._ended = asyncio.Event()
        self._task = asyncio.create_task(self._serve(), name="store writer")

    def hold(self, shard: LeasedShard) -> None:
        """Take writes for a shard, and tell it of callbacks that arrive here."""
        self._held[shard.number] = shard

    def is_writing(self, shard: LeasedShard) -> bool:
        """True while a write of the shard has no answer."""
        return self._jobs.has_some(lambda job: shard in shards_of(job))

    def abandon(self, shard: LeasedShard, reason: str) -> None:
        """Take no more writes for the shard; who waits for one fails."""
        if self._held.get(shard.number) is shard:
            del self._held[shard.number]
        self._jobs.fail_some(
            lambda job: shard in shards_of(job) and len(shards_of(job)) == 1,
            lambda: self._fence(shard) if shard.lease.is_lost else BusLostError(reason),
        )

    def store(
        self,
        shard: LeasedShard,
        rows: ShardRows,
        *,
        timeout_seconds: float,
        linger_seconds: float = 0.0,
    ) -> Awaitable[tuple[Received, ...]]:
        """Return once the rows are durable, with an answer for each callback.

        Raises:
            BusLostError: the shard is not ours any more.
            BusUnavailableError: nothing of it was kept.
        """
        return self._write(WriteJob(ROWS, Given(shard, rows)), timeout_seconds, linger_seconds)

    async def receive(
        self, callback: StoredCallback, shard: int, *, inbox_bound: int, timeout_seconds: float
    ) -> Received:
        """Store a callback for the shard of that number, whichever daemon holds it."""
        row = callback_row(callback, shard=shard, bound=inbox_bound)
        if (held := self._held.get(shard)) is not None:
            # Another daemon may take it over meanwhile: then the callback is stored all the same.
            with contextlib.suppress(BusLostError):
                (received,) = await self.store(
                    held, ShardRows(callbacks=[row]), timeout_seconds=timeout_seconds
                )
                return received
        job: WriteJob[Received] = WriteJob(FOREIGN, row)
        return await self._write(job, timeout_seconds)

    async def probe(self, *, timeout_seconds: float) -> None:
        """Return once a value that is never read is durable."""
        await self._write(WriteJob(PROBE, None, is_probe=True), timeout_seconds)

    async def run(
        self,
        work: Work,
        shards: Sequence[LeasedShard],
        *,
        timeout_seconds: float,
        on_kept: Callable[[Any], None] | None = None,
    ) -> Any:
        """Return the result of ``work``, run in a transaction of these shards once it is durable.

        It is called with those that are still held, and again where nothing of it was kept. Then
        ``on_kept`` is called with its result, before anything else is written. Without shards it
        is about none of them, and may be called again also where it was kept.
        """
        job: WriteJob[Any] = WriteJob(WORK, (work, tuple(shards), on_kept))
        return await self._write(job, timeout_seconds)

    async def watch(self) -> None:
        """Return when the writer was closed.

        Raises:
            BusUnavailableError: it has died of an error that it does not know.
        """
        await self._ended.wait()
        if self._death is not None:
            raise self._died() from self._death

    async def close(self) -> None:
        """Finish what is queued, then close the connection."""
        if self._is_closed:
            return
        self._is_closed = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._stall_seconds):
                await self._jobs.drain()
        self._line.close()  # nothing is under way any more, or it hangs
        self._jobs.fail_all(lambda: BusUnavailableError("the store is closed"))
        self._jobs.stop_timer()
        self._groups.put_nowait(None)
        await self._task
        self._ended.set()

    def _write(
        self, job: WriteJob[T], timeout_seconds: float, linger_seconds: float = 0.0
    ) -> Awaitable[T]:
        if self._is_closed:
            raise BusUnavailableError("the store is closed")
        if self._death is not None:
            raise self._died() from self._death
        if is_lost(job) and len(shards_of(job)) == 1:
            raise self._fence(shards_of(job)[0])
        return self._jobs.write(job, timeout_seconds=timeout_seconds, linger_seconds=linger_seconds)

    def _died(self) -> BusUnavailableError:
        return BusUnavailableError(f"the writer has died: {self._death}")

    async def _serve(self) -> None:
        while (group := await self._groups.get()) is not None:
            try:
                await self._write_group(group)
            except Exception as exc:  # whatever it is, no caller may wait without end
                log.exception("store writer died")
                self._death = exc
                self._ended.set()
                self._jobs.fail_all(self._died)
            finally:
                self._jobs.finish()
        self._line.drop()

    async def _write_group(self, group: WriteGroup) -> None:
        by_kind: defaultdict[str, WriteGroup] = defaultdict(list)
        for job in group:
            by_kind[job.work].append(job)
        for kind in (ROWS, FOREIGN):
            for jobs in pieces(by_kind[kind]):
                await self._write_together(jobs)
        if probes := by_kind[PROBE]:
            await self._write_together(probes)
        for job in by_kind[WORK]:
            await self._write_together([job])

    async def _write_together(self, jobs: WriteGroup) -> None:
        """Write the jobs in one transaction; where one of them is refused, each in its own."""
        try:
            await self._transact(jobs)
        except JOB_ERRORS as exc:
            if len(jobs) > 1:
                for job in jobs:
                    await self._write_together([job])
                return
            self._refuse(jobs, exc)
        # Now, and not with the whole group: callers prepare their next writes meanwhile.
        for job in jobs:
            job.end()

    async def _transact(self, jobs: WriteGroup) -> None:
        """Execute until it is known how it ended, for as long as anybody waits."""
        for attempt in count(1):
            connection = await self._line.connection(partial(has_caller, jobs))
            claimed = self._claim(jobs)
            if connection is None or not claimed:
                return
            try:
                has_ended = await self._execute(connection, claimed)
            except REPEATED_ERRORS as exc:
                self._line.drop()
                if attempt == _ATTEMPTS:
                    self._refuse(claimed, exc)
                    return
                has_ended = False
            if has_ended:
                return
            self._jobs.unclaim(claimed)

    def _claim(self, jobs: WriteGroup) -> WriteGroup:
        """Return the jobs with a caller that waits, of a shard that is still held."""
        claimed = [job for job in self._jobs.claim(jobs) if not job.answer.done()]
        for job in claimed:
            if is_lost(job):
                job.error = self._fence(shards_of(job)[0])
        return [job for job in claimed if job.error is None]

    async def _execute(self, connection: Connection, jobs: WriteGroup) -> bool:
        """Execute once; False where nothing was kept and it may be tried again.

        Raises:
            asyncpg.PostgresError: the server asks to repeat it, or refuses one of the jobs.
        """
        transaction = self._transaction_of(jobs)
        began = self._clock.monotonic()
        try:
            await self._line.in_time(connection, transaction.execute(connection))
        except BusError as exc:  # of a job that ran alone
            for job in jobs:
                job.error = exc
            return True
        except SERVER_ERRORS as exc:
            if not is_refusal(exc, connection):
                self._line.report(exc)
                if not await self._was_kept(transaction):
                    return False
            elif isinstance(exc, (*REPEATED_ERRORS, *JOB_ERRORS)):
                self._jobs.unclaim(jobs)
                raise
            else:
                self._refuse(jobs, exc)
                return True
        else:
            self._durations.observe(self._clock.monotonic() - began)
        self._conclude(transaction, jobs)
        return True

    def _transaction_of(self, jobs: WriteGroup) -> Transaction:
        kind = jobs[0].work
        if kind == ROWS:
            return StoreRows(jobs, daemon_id=self._daemon_id)
        if kind == FOREIGN:
            return ReceiveForeign(
                jobs,
                daemon_id=self._daemon_id,
                inboxes=self._inboxes,
                on_stored=self._learn_foreign,
            )
        if kind == PROBE:
            return Probe(self._daemon_id)
        work, shards, on_kept = jobs[0].given
        if not shards:
            return RunUnfenced(work)
        held = [shard for shard in shards if not shard.lease.is_lost]
        return RunWork(work, held, on_kept)

    async def _was_kept(self, transaction: Transaction) -> bool:
        """Find out whether a transaction without an answer was kept, and then what it answered."""
        self._line.drop()
        if not (isinstance(transaction, FencedTransaction) and (shards := transaction.shards)):
            return False
        while True:
            connection = await self._line.connection(partial(has_holder, shards))
            if connection is None:
                return False
            try:
                kept = await self._line.in_time(connection, kept_of(connection, shards))
                if kept:
                    await self._line.in_time(connection, transaction.recover(connection, kept))
                return bool(kept)
            except SERVER_ERRORS as exc:
                self._line.report(exc)
                self._line.drop()

    def _conclude(self, transaction: Transaction, jobs: WriteGroup) -> None:
        self._line.report_work()
        held = transaction.conclude()
        lost = [shard for shard in transaction.shards if shard.number not in held]
        for shard in lost:
            self._lose(shard, jobs)
        for job in jobs if lost else ():
            shards = shards_of(job)
            if job.error is None and shards and not any(s.number in held for s in shards):
                job.error = BusLostError(shards[0].loss)
        if isinstance(transaction, RunWork | RunUnfenced):
            jobs[0].result = transaction.result
        if any(job.error is None and not job.is_probe for job in jobs):
            self.failures.stored()
            self._line.report_answer()

    def _fence(self, shard: LeasedShard) -> BusLostError:
        """Count a write of a shard that is known to be lost; return the error of its caller."""
        self._fenced.inc()
        return BusLostError(shard.loss)

    def _lose(self, shard: LeasedShard, jobs: WriteGroup) -> None:
        refused = [job for job in jobs if shard in shards_of(job)]
        log.warning("writes fenced", shard=shard.lease.shard, writes=len(refused))
        shard.lose(shard.loss)
        # Whose caller waited for this shard alone was refused, and counted, by that.
        self._fenced.inc(sum(job.error is None for job in refused))

    def _learn_foreign(self, row: CallbackRow, id_: int) -> None:
        if (held := self._held.get(row.shard)) is not None:
            held.arrivals.add([numbered(row, id_)])
        else:
            self._on_foreign(row.shard)

    def _refuse(self, jobs: WriteGroup, cause: Exception) -> None:
        """Fail jobs without any effect."""
        for job in jobs:
            job.error = BusUnavailableError(f"the store did not take it: {reason_of(cause)}")
            job.error.__cause__ = cause
        refused = sum(not job.is_probe for job in jobs)
        if refused:
            self.failures.refused(reason_of(cause), writes=refused)
        self._line.report(cause, what="store write failed")

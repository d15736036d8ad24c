"""The refetch queue: runs that must be read by their id, kept until that was done.

A row that cannot be decoded, and an end that only job records can date, enter it before the
watermark moves past them. So neither holds the watermark, and neither is lost in a restart.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import structlog

from monitor.model.bounded_memory import BoundedMemory
from monitor.model.due_queue import DueQueue
from monitor.model.errors import MonitorError, NoSuchObjectError, TryLaterError
from monitor.model.runs import RunKey, RunKind
from monitor.polling.poll_loop.context import PollContext
from monitor.polling.poll_loop.poll import Poll, when_due
from monitor.polling.poll_loop.reads import is_about_the_object
from monitor.workspace.payloads import BadRow
from monitor.workspace.priority import Priority

log = structlog.get_logger()

REFETCH_QUEUE = "refetch_queue"  # topic of its state entries

_BASE_WAIT_SECONDS = 5.0
_GIVEN_UP = 1_000
_AT_MOST = 5_000
_AT_ONCE = 100  # looked for in one step, where all of them may be due

# Reads and observes one run; the flag says that this is the last attempt. The observer's commit
# carries the state entry that removes the run from the queue.
ReadQueued = Callable[[RunKey, bool], Awaitable[None]]


class RefetchQueue:
    """Durable, bounded, and each run in it is read a bounded number of times."""

    def __init__(self, context: PollContext) -> None:
        self._context = context
        # With the attempts that count: what passes by itself does not.
        self._queue: DueQueue[RunKey, int] = DueQueue(
            context.clock,
            bound=_AT_MOST,
            base_seconds=_BASE_WAIT_SECONDS,
            cap_seconds=context.settings.reconcile_seconds,
        )
        self._given_up: BoundedMemory[RunKey, bool] = BoundedMemory(_GIVEN_UP)

    def __len__(self) -> int:
        return len(self._queue)

    def __contains__(self, key: RunKey) -> bool:
        return key in self._queue

    def declared(self, read: ReadQueued) -> tuple[Poll, ...]:
        return (
            Poll(
                name=REFETCH_QUEUE,
                priority=Priority.RECONCILIATION,
                timing=when_due(self._queue),
                run=lambda: self.poll(read),
            ),
        )

    async def load(self) -> None:
        """Read back what an earlier run of the monitor left in the queue."""
        for stored in await self._context.bus.state_entries(self._context.name, REFETCH_QUEUE):
            kind, _, run_id = stored.partition("/")
            if kind not in tuple(RunKind) or not run_id:
                log.warning(
                    "state entry left out", reason=f"{REFETCH_QUEUE} {stored!r} names no run"
                )
                continue
            self._queue.put(self._context.key(RunKind(kind), run_id), 0, is_durable=True)

    async def add_bad_rows(self, kind: RunKind, bad_rows: Sequence[BadRow]) -> None:
        """Queue the rows of one page that cannot be decoded. Durable on return."""
        nameless = [row for row in bad_rows if row.id is None]
        fresh: dict[RunKey, str] = {}
        for row in bad_rows:
            if row.id is not None:
                key = self._context.key(kind, row.id)
                if key not in self._queue and self._given_up.get(key) is None:
                    fresh[key] = row.reason
        # One line a page: each of its rows may be such a row.
        about = log.bind(workspace=self._context.name, kind=kind)
        if nameless:
            about.warning(
                "undecodable rows without an id dropped",
                rows=len(nameless),
                reason=nameless[0].reason,
            )
        if fresh:
            key, reason = next(iter(fresh.items()))
            about.warning("undecodable rows queued", rows=len(fresh), first=str(key), reason=reason)
        await self.add(list(fresh))

    async def add(self, keys: Sequence[RunKey]) -> None:
        """Queue runs. Durable on return; a cancelled call may have queued them or not.

        Raises:
            TryLaterError: the queue is full; what showed these runs must be read again.
        """
        fresh = [key for key in keys if key not in self._queue]
        if not fresh:
            return
        if not self._queue.has_room(len(fresh)):
            raise TryLaterError(
                f"{len(self._queue)} runs are queued to be read by their ids already"
            )
        state_entries = [
            self._context.state_entry(REFETCH_QUEUE, f"{key.kind}/{key.id}", b"1") for key in fresh
        ]
        await self._context.observer.observe((), state_entries=state_entries)
        for key in fresh:
            self._queue.put(key, 0, is_durable=True)

    def seconds_until_due(self) -> float | None:
        """Return when `poll` has something to do; None where the queue is empty."""
        return self._queue.seconds_until_due()

    async def poll(self, read: ReadQueued) -> None:
        """Read every run that is due.

        Raises:
            MonitorError: the last failure; every run has been tried.
        """
        failure: MonitorError | None = None
        while due := self._queue.due(_AT_ONCE):  # what was tried is due later, or gone
            for key in due:
                failure = await self._try(key, read) or failure
        if failure is not None:
            raise failure

    async def _try(self, key: RunKey, read: ReadQueued) -> MonitorError | None:
        attempts, most = self._queue.get(key) or 0, self._context.settings.attempts
        is_last = attempts + 1 >= most
        try:
            await read(key, is_last)
        except NoSuchObjectError:
            await self._remove(key)
        except MonitorError as error:
            attempts += self._counts(error)
            self._queue.put(key, attempts)
            self._queue.retry(key)
            if attempts < most:
                return error
            log.warning("run given up", run=str(key), reason=str(error))
            self._given_up.put(key, value=True)
            await self._remove(key)
        else:
            await self._remove(key)
        return None

    def _counts(self, error: MonitorError) -> bool:
        return is_about_the_object(error) and not self._context.is_unreachable()

    async def _remove(self, key: RunKey) -> None:
        state_entry = self._context.state_entry(REFETCH_QUEUE, f"{key.kind}/{key.id}", None)
        await self._context.observer.observe((), state_entries=(state_entry,))
        self._queue.remove(key)

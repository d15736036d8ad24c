"""The queue of ended job groups whose job records are to be read, and the tasks that read them.

Failures come first. Records that a caller waits for, and few, are read by their ids; many together,
see `JobRecords`. What no caller waits for any more is observed here.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain, count, islice

import msgspec
import structlog

from monitor.model.clock import Clock
from monitor.model.due_queue import NEVER, DueQueue
from monitor.model.errors import BusError, TryLaterError, UnauthorizedError, WorkspaceError
from monitor.model.observations import Observation
from monitor.model.runs import RunKey, Source
from monitor.model.slices import in_slices, pieces_of
from monitor.model.waits import happens_within
from monitor.polling.details.job_records import FEW, JobRecords
from monitor.polling.poll_loop.context import PollContext
from monitor.polling.run_observations import JobSummary, job_summary, with_jobs
from monitor.workspace.payloads import JobRow
from monitor.workspace.priority import Priority

log = structlog.get_logger()

_LONGEST_SLEEP_SECONDS = 3_600.0
_RETRY_BASE_SECONDS = 2.0
_RETRY_CAP_SECONDS = 300.0
OLDEST_SECONDS = 86_400.0  # after which records are given up
_READERS = 4
_PIECE = 20  # observations; callbacks wait for the commit of one piece
# For each one of those that were read together last, the next ones are gathered for so long.
_GATHER_SECONDS = 2.5
_LONGEST_GATHER_SECONDS = 10.0
_GATHERED_AT_MOST = 1_000
# Records that show an unfinished job after the group's end are read again, up to a limit.
_READS_OF_UNFINISHED = 3


@dataclass(slots=True, kw_only=True, eq=False)
class DetailRequest:
    """One job group's records, to be read.

    ``summary`` is set once they were read; ``is_impossible``: they never will be. A caller
    that no longer waits sets ``is_late``: then the reader observes what it reads. ``is_gathered``:
    no caller has waited, so it may be read together with others.
    """

    observation: Observation
    priority: Priority
    requested_at: float  # monotonic
    summary: JobSummary | None = None
    is_final: bool = False
    is_impossible: bool = False
    is_late: bool = False
    is_gathered: bool = False
    reads: int = 0  # that were answered
    is_done: bool = False
    # Made when a caller waits: thousands of requests are queued without one.
    _done: asyncio.Event | None = None

    async def wait(self) -> None:
        """Return when the request is answered."""
        if self.is_done:
            return
        if self._done is None:
            self._done = asyncio.Event()
        await self._done.wait()

    def finish(self) -> None:
        self.is_done = True
        if self._done is not None:
            self._done.set()


class DetailQueue:
    """Bounded; a request for a job group that waits already is the same request.

    `take` hands out the requests one by one, the most valuable first; `take_gathered` those for
    which no caller waits, all at once.
    """

    def __init__(self, clock: Clock, *, bound: int) -> None:
        self._clock = clock
        # Due once they are to be handed out again; until then each is ready, gathered or read.
        self._requests: DueQueue[RunKey, DetailRequest] = DueQueue(
            clock, bound=bound, base_seconds=_RETRY_BASE_SECONDS, cap_seconds=_RETRY_CAP_SECONDS
        )
        self._ready: list[tuple[int, int, DetailRequest]] = []
        self._ready_failures = 0
        # Those without a waiting caller; failures come first.
        self._gathered_failures: dict[RunKey, DetailRequest] = {}
        self._gathered_others: dict[RunKey, DetailRequest] = {}
        self._number = count()
        self._grown = asyncio.Event()
        self._has_gathered = asyncio.Event()
        self._has_failure = asyncio.Event()

    def __len__(self) -> int:
        return len(self._requests)

    @property
    def failures(self) -> int:
        """Return how many failures are ready to be read."""
        return self._ready_failures

    def get(self, key: RunKey) -> DetailRequest | None:
        """Return the request for this job group, None where it waits for none."""
        return self._requests.get(key)

    def request(
        self, observation: Observation, priority: Priority, *, is_awaited: bool
    ) -> DetailRequest | None:
        """Return the request for this job group, None where the queue is full."""
        request = self._requests.get(observation.key)
        if request is None:
            if not self._requests.has_room():
                return None
            request = DetailRequest(
                observation=observation,
                priority=priority,
                requested_at=self._clock.monotonic(),
                is_late=not is_awaited,
                is_gathered=not is_awaited,
            )
            self._requests.put(observation.key, request, after_seconds=NEVER)
            self._push(request)
            return request
        if observation.source is not Source.CALLBACK:
            request.observation = observation  # the workspace may have changed the end
        if is_awaited and self._gathered(request).pop(observation.key, None) is not None:
            self.read_alone(request)
        return request

    def read_alone(self, request: DetailRequest) -> None:
        """Hand this request out by itself, as soon as its turn comes."""
        request.is_gathered = False
        self._push(request)

    def put_back(self, request: DetailRequest) -> None:
        """Hand a request out again later, each time after a longer wait: its read has failed."""
        self._requests.retry(request.observation.key)
        self._grown.set()

    def read_again(self, request: DetailRequest) -> None:
        """Hand a request out again soon: its records are not over."""
        self._requests.schedule(request.observation.key, after_seconds=_RETRY_BASE_SECONDS)
        self._grown.set()

    def finish(self, request: DetailRequest) -> None:
        """The request is answered; a later one for the same job group is a new one."""
        self._requests.remove(request.observation.key)
        request.finish()

    async def take(self) -> DetailRequest:
        """Return the most valuable request, waiting for one as long as it takes.

        A cancelled call leaves every request in the queue.
        """
        while True:
            self._move_due()
            if self._ready:
                request = heapq.heappop(self._ready)[2]
                self._ready_failures -= request.priority is Priority.FAILED_DETAILS
                return request
            self._grown.clear()
            await happens_within(
                self._grown.wait(),
                clock=self._clock,
                seconds=self._seconds_until_due(),
                name="waiting for a job group to end",
            )

    async def take_gathered(self, limit: int) -> list[DetailRequest]:
        """Return those without a caller, failures first, waiting for at least one of them.

        A cancelled call leaves every request in the queue.
        """
        while not self._gathered_failures and not self._gathered_others:
            self._has_gathered.clear()
            await happens_within(
                self._has_gathered.wait(),
                clock=self._clock,
                seconds=_LONGEST_SLEEP_SECONDS,
                name="wait for ends without a caller",
            )
        self._has_failure.clear()
        in_order = chain(self._gathered_failures.values(), self._gathered_others.values())
        requests = list(islice(in_order, limit))
        for request in requests:
            del self._gathered(request)[request.observation.key]
        return requests

    async def gather(self, seconds: float) -> None:
        """Let requests without a caller add up for so long; a failure ends it."""
        await happens_within(
            self._has_failure.wait(), clock=self._clock, seconds=seconds, name="gathering ends"
        )

    def _gathered(self, request: DetailRequest) -> dict[RunKey, DetailRequest]:
        has_failed = request.priority is Priority.FAILED_DETAILS
        return self._gathered_failures if has_failed else self._gathered_others

    def _push(self, request: DetailRequest) -> None:
        if request.is_gathered:
            self._gathered(request)[request.observation.key] = request
            self._has_gathered.set()
            if request.priority is Priority.FAILED_DETAILS:
                self._has_failure.set()
            return
        heapq.heappush(self._ready, (int(request.priority), next(self._number), request))
        self._ready_failures += request.priority is Priority.FAILED_DETAILS
        self._grown.set()

    def _move_due(self) -> None:
        for key in self._requests.due():
            self._requests.schedule(key, after_seconds=NEVER)
            self._push(self._requests[key])

    def _seconds_until_due(self) -> float:
        wait = self._requests.seconds_until_due()
        return _LONGEST_SLEEP_SECONDS if wait is None else wait


class DetailReaders:
    """Empties the queue of job records."""

    def __init__(self, context: PollContext, queue: DetailQueue, records: JobRecords) -> None:
        self._context = context
        self._queue = queue
        self._records = records

    async def run(self) -> None:
        """Read what is requested, until cancelled."""
        name = f"{self._context.name}: details"
        async with asyncio.TaskGroup() as group:
            for number in range(_READERS):
                group.create_task(self._read_on(), name=f"{name} {number}")
            group.create_task(self._read_gathered_on(), name=f"{name} of many")

    async def _read_on(self) -> None:
        while True:
            request = await self._queue.take()
            await self._context.until_answering()
            try:
                await self._read(request)
            except (TryLaterError, UnauthorizedError, BusError) as error:
                self._put_back(request, str(error))

    def _put_back(self, request: DetailRequest, reason: str) -> None:
        waited = self._context.clock.monotonic() - request.requested_at
        if waited > OLDEST_SECONDS:
            # Or such requests would fill the queue in the end. A restart queues none so old.
            log.warning("job records given up", run=str(request.observation.key), reason=reason)
            self._queue.finish(request)
            return
        log.debug("job records put off", run=str(request.observation.key), reason=reason)
        self._queue.put_back(request)

    async def _read(self, request: DetailRequest) -> None:
        client, key = self._context.client, request.observation.key
        try:
            rows = await client.runs.jobs(key.id, priority=request.priority)
        except (TryLaterError, UnauthorizedError):
            raise
        except WorkspaceError as error:
            log.info("job records not readable", run=str(key), reason=str(error))
            request.is_impossible = True
        else:
            self._take(request, rows, client.workspace_now())
            if not request.is_final:
                self._queue.read_again(request)
                return
        if request.is_late:
            await self._observe((request,))
        self._queue.finish(request)

    def _take(
        self, request: DetailRequest, rows: Sequence[JobRow], read_at: datetime | None
    ) -> None:
        request.summary = job_summary(rows, read_at=read_at)
        request.reads += 1
        request.is_final = request.summary.are_over or request.reads >= _READS_OF_UNFINISHED

    async def _read_gathered_on(self) -> None:
        """Read together what no caller waits for; the more of it there is, the more is gathered."""
        while True:
            requests = await self._queue.take_gathered(_GATHERED_AT_MOST)
            await self._context.until_answering()
            try:
                await self._read_gathered(requests)
            except (TryLaterError, UnauthorizedError, BusError) as error:
                for request in requests:
                    self._put_back(request, str(error))
            seconds = min(_LONGEST_GATHER_SECONDS, _GATHER_SECONDS * len(requests))
            await self._queue.gather(seconds)

    async def _read_gathered(self, requests: Sequence[DetailRequest]) -> None:
        """Read by few requests what a list shows; the rest goes to the other readers."""
        if self._records.can_list(len(requests)):
            records = await self._records.read(
                [request.observation.key.id for request in requests],
                priority=min(request.priority for request in requests),
                most_requests=len(requests) // FEW,
            )
            shown = [
                (request, found)
                for request in requests
                if (found := records.get(request.observation.key.id)) is not None
            ]
            # A step ends with each piece, also where none of its runs is final.
            async for piece in in_slices(pieces_of(shown, size=_PIECE), size=1):
                for request, found in piece:
                    self._take(request, found.jobs, found.read_at)
                await self._observe([request for request, _ in piece if request.is_final])
        for request in requests:
            if request.is_final:
                self._queue.finish(request)
            else:
                self._queue.read_alone(request)

    async def _observe(self, requests: Sequence[DetailRequest]) -> None:
        now = self._context.clock.now()
        await self._context.observer.observe(
            [
                msgspec.structs.replace(
                    joined(end := request.observation, request),
                    source=Source.DETAIL,
                    # The end that a callback named is not confirmed by job records.
                    native_status=None if end.source is Source.CALLBACK else end.native_status,
                    observed_at=now,
                    inbox_id=None,
                )
                for request in requests
            ]
        )


def joined(observation: Observation, request: DetailRequest | None) -> Observation:
    """Return the observation with what was read for it, as far as that is all."""
    if request is None:
        return observation
    if request.is_impossible:
        return final(observation)
    if request.summary is None or not request.is_final:
        return observation
    return with_jobs(observation, request.summary, is_final=True)


def final(observation: Observation) -> Observation:
    """Return the observation as one to which no job record will ever add."""
    return msgspec.structs.replace(observation, is_detail_final=True)

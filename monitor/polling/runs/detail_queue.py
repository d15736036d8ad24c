"""The queue of ended job groups whose job records are to be read: failures first."""

from __future__ import annotations

import asyncio
import heapq
from dataclasses import dataclass
from itertools import chain, count, islice

from monitor.model.clock import Clock
from monitor.model.due_queue import NEVER, DueQueue
from monitor.model.observations import Observation
from monitor.model.runs import RunKey, Source
from monitor.model.waits import happens_within
from monitor.polling.runs.run_observations import JobSummary
from monitor.workspace.priority import Priority

_LONGEST_SLEEP_SECONDS = 3_600.0
_RETRY_BASE_SECONDS = 2.0
_RETRY_CAP_SECONDS = 300.0


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

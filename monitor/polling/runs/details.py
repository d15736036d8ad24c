"""The job records of job groups that have ended, read once each."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from datetime import timedelta

import msgspec
import structlog

from monitor.catalogue.capabilities import Capability
from monitor.model.errors import BusError, TryLaterError, UnauthorizedError, WorkspaceError
from monitor.model.observations import Observation
from monitor.model.runs import RunKey, RunKind, RunState, Source, Status, status_of
from monitor.model.waits import backoff_seconds, happens_within
from monitor.polling.context import PollContext
from monitor.polling.poll_loop.failures import is_about_the_object
from monitor.polling.poll_loop.poll import Poll, every
from monitor.polling.runs.detail_queue import DetailQueue, DetailRequest
from monitor.polling.runs.run_observations import has_ended, job_summary, with_jobs
from monitor.workspace.priority import Priority

log = structlog.get_logger()

_READERS = 4
_RETRY_BASE_SECONDS = 2.0
_RETRY_CAP_SECONDS = 300.0
# Records that show an unfinished job after the group's end are read again, but not for ever.
_READS_OF_UNFINISHED = 3
_PICKED_UP_RUNS = 5_000  # a burst of ends may be half read when the monitor stops
_PICKED_UP_SECONDS = 86_400.0


class Details:
    """Reads job records after an end: failures first, and within the budget.

    An end waits for its records at most ``detail_wait_seconds``. Records that come later are
    observed by themselves, with `Source.DETAIL`.
    """

    def __init__(self, context: PollContext) -> None:
        self._context = context
        self._queue = DetailQueue(context.clock, bound=context.settings.waiting_details)

    @property
    def waiting(self) -> int:
        """Return how many ended job groups wait for their job records."""
        return len(self._queue)

    def declared(self) -> tuple[Poll, ...]:
        seconds = self._context.settings.relist_seconds
        return (
            Poll(
                name="details_left",
                priority=Priority.DETAILS,
                timing=every(seconds, first_after_seconds=seconds),
                run=self.pick_up,
                needs=Capability.READ_JOBS,
            ),
        )

    async def run(self) -> None:
        """Read what is requested, until cancelled."""
        async with asyncio.TaskGroup() as group:
            for number in range(_READERS):
                group.create_task(self._read_on(), name=f"{self._context.name}: details {number}")

    async def complete(
        self,
        observations: Sequence[Observation],
        *,
        meanwhile: Callable[[], Awaitable[None]] | None = None,
    ) -> list[Observation]:
        """Return the observations, in their order, ends enriched by the records that came in time.

        Returns after at most ``detail_wait_seconds``. The others, and those of a cancelled call,
        are read later and observed by the readers. ``meanwhile`` is waited for within the same
        time, and then cancelled.
        """
        lacking = await self._lacking(observations)
        if self._context.is_unproven() or not (lacking or meanwhile):
            return list(observations)
        can_read = self._context.can(Capability.READ_JOBS)
        requests = self._request(lacking.values()) if can_read else {}
        await self._wait_for(list(requests.values()), meanwhile)
        if not can_read:
            return [
                _final(observation) if observation.key in lacking else observation
                for observation in observations
            ]
        return [_joined(observation, requests.get(observation.key)) for observation in observations]

    async def complete_now(self, observation: Observation, *, is_last: bool) -> Observation:
        """Return the observation of an end with its job records, however long reading them takes.

        ``is_last``: an end without records is better than another attempt.

        Raises:
            WorkspaceError: the records cannot be read now.
        """
        if not self._context.can(Capability.READ_JOBS):
            return _final(observation)
        client = self._context.client
        try:
            rows = await client.runs.jobs(observation.key.id, priority=Priority.DETAILS)
        except WorkspaceError as error:
            if not is_last or not is_about_the_object(error):
                raise
            return _final(observation)
        return with_jobs(
            observation, job_summary(rows, read_at=client.workspace_now()), is_final=True
        )

    def request(self, observations: Iterable[Observation]) -> None:
        """Queue ends whose records nobody waits for."""
        for request in self._request(observations).values():
            request.is_late = True

    async def pick_up(self) -> bool:
        """Queue again the newest ends whose records were never read, as after a restart.

        Always return False: the readers send the requests later.
        """
        if not self._context.can(Capability.READ_JOBS):
            return False
        runs = await self._context.bus.recent_runs(
            workspace=self._context.name, kind=RunKind.JOB_GROUP, limit=_PICKED_UP_RUNS
        )
        oldest = self._context.clock.now() - timedelta(seconds=_PICKED_UP_SECONDS)
        self.request(_again(run) for run in runs if _is_lacking(run) and run.confirmed_at >= oldest)
        return False

    async def _lacking(self, observations: Sequence[Observation]) -> dict[RunKey, Observation]:
        """Return the observed ends whose records are still to be read."""
        ends = {
            observation.key: observation
            for observation in observations
            if observation.key.kind is RunKind.JOB_GROUP
            and has_ended(observation.native_status)
            and not observation.is_detail_final
        }
        known = await self._context.observer.known(list(ends)) if ends else {}
        return {key: end for key, end in ends.items() if self._needs_records(end, known.get(key))}

    def _needs_records(self, observation: Observation, state: RunState | None) -> bool:
        is_claim = observation.source is Source.CALLBACK
        if state is not None:
            # Callbacks that repeat an end, which may be forged, cost no more reads.
            is_repeated = is_claim and state.unconfirmed_end is not None
            return not state.historical and not state.detailed and not is_repeated
        if is_claim:
            return False  # the workspace has not confirmed the run yet
        since, written_at = self._context.followed_since(), observation.updated_at
        return since is None or written_at is None or written_at >= since

    def _request(self, observations: Iterable[Observation]) -> dict[RunKey, DetailRequest]:
        requests = {}
        refused: list[RunKey] = []
        for observation in observations:
            has_failed = status_of(observation.native_status) is Status.FAILED
            priority = Priority.FAILED_DETAILS if has_failed else Priority.DETAILS
            request = self._queue.request(observation, priority)
            if request is None:
                refused.append(observation.key)
            else:
                requests[observation.key] = request
        if refused:
            log.warning(
                "job records put off: queue full",
                count=len(refused),
                first=str(refused[0]),
                waiting=len(self._queue),
            )
        return requests

    async def finish(self, keys: Collection[RunKey]) -> None:
        """Wait until the records of these job groups that are queued have been observed."""
        await _all_done([request for key in keys if (request := self._queue.get(key)) is not None])

    async def _wait_for(
        self, requests: Sequence[DetailRequest], meanwhile: Callable[[], Awaitable[None]] | None
    ) -> None:
        seconds = self._context.settings.detail_wait_seconds

        async def both() -> None:
            if meanwhile is not None:
                await meanwhile()
            await _all_done(requests)

        try:
            if seconds > 0 and (requests or meanwhile is not None):
                await happens_within(
                    both(),
                    clock=self._context.clock,
                    seconds=seconds,
                    name="waiting for job records",
                )
        finally:
            # Also when the caller is cancelled: then only the reader can observe what it reads.
            for request in requests:
                request.is_late = request.is_late or not request.done.is_set()

    async def _read_on(self) -> None:
        while True:
            request = await self._queue.take()
            try:
                await self._read(request)
            except (TryLaterError, UnauthorizedError, BusError) as error:
                self._put_back(request, str(error))

    def _put_back(self, request: DetailRequest, reason: str) -> None:
        waited = self._context.clock.monotonic() - request.requested_at
        if waited > _PICKED_UP_SECONDS:
            # Or such requests would fill the queue in the end. A restart queues none so old.
            log.warning("job records given up", run=str(request.observation.key), reason=reason)
            self._queue.finish(request)
            return
        request.attempts += 1
        wait = backoff_seconds(
            request.attempts, base_seconds=_RETRY_BASE_SECONDS, cap_seconds=_RETRY_CAP_SECONDS
        )
        log.debug("job records put off", run=str(request.observation.key), reason=reason, wait=wait)
        self._queue.delay(request, wait)

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
            request.summary = job_summary(rows, read_at=client.workspace_now())
            request.attempts += 1
            request.is_final = request.summary.are_over or request.attempts >= _READS_OF_UNFINISHED
            if not request.is_final:
                self._queue.delay(request, _RETRY_BASE_SECONDS)
                return
        if request.is_late:
            await self._observe(request)
        self._queue.finish(request)

    async def _observe(self, request: DetailRequest) -> None:
        end = request.observation
        late = msgspec.structs.replace(
            _joined(end, request),
            source=Source.DETAIL,
            # The end that a callback named is not confirmed by job records.
            native_status=None if end.source is Source.CALLBACK else end.native_status,
            observed_at=self._context.clock.now(),
            inbox_id=None,
        )
        await self._context.observer.observe((late,))


async def _all_done(requests: Sequence[DetailRequest]) -> None:
    for request in requests:
        await request.done.wait()


def _joined(observation: Observation, request: DetailRequest | None) -> Observation:
    if request is None:
        return observation
    if request.is_impossible:
        return _final(observation)
    if request.summary is None or not request.is_final:
        return observation
    return with_jobs(observation, request.summary, is_final=True)


def _final(observation: Observation) -> Observation:
    return msgspec.structs.replace(observation, is_detail_final=True)


def _is_lacking(run: RunState) -> bool:
    is_end = run.status.is_terminal and run.status is not Status.LOST
    return is_end and not run.detailed and not run.historical


def _again(run: RunState) -> Observation:
    return Observation(
        key=run.key,
        source=Source.DETAIL,
        observed_at=run.confirmed_at,
        native_status=run.native_status,
        updated_at=run.updated_at,
    )

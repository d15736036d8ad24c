"""The job records of job groups that have ended, read once each."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from datetime import timedelta

import structlog

from monitor.catalogue.capabilities import Capability
from monitor.model.errors import WorkspaceError
from monitor.model.observations import Observation
from monitor.model.runs import RunKey, RunKind, RunState, Source, Status, status_of
from monitor.model.waits import happens_within
from monitor.polling.details.detail_queue import (
    OLDEST_SECONDS,
    DetailQueue,
    DetailReaders,
    DetailRequest,
    final,
    joined,
)
from monitor.polling.details.job_records import JobRecords
from monitor.polling.poll_loop.context import PollContext
from monitor.polling.poll_loop.poll import Poll, every
from monitor.polling.poll_loop.reads import is_about_the_object
from monitor.polling.run_observations import (
    has_ended,
    is_news_of_a_failure,
    job_summary,
    known_end,
    with_jobs,
)
from monitor.tracking.status_decision import changes_end
from monitor.workspace.priority import Priority

log = structlog.get_logger()

_PICKED_UP_RUNS = 5_000  # a burst of ends may be half read when the monitor stops


class Details:
    """Reads job records after an end: failures first, and within the budget.

    A failure waits for its records at most ``detail_wait_seconds``, and only where the budget lets
    them be read by then; no other end waits. Records that come later are observed by themselves,
    with `Source.DETAIL`.
    """

    def __init__(self, context: PollContext, records: JobRecords) -> None:
        self._context = context
        self.records = records
        self._queue = DetailQueue(context.clock, bound=context.settings.waiting_details)
        self._readers = DetailReaders(context, self._queue, records)

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
        await self._readers.run()

    async def complete(
        self,
        observations: Sequence[Observation],
        *,
        meanwhile: Callable[[], Awaitable[None]] | None = None,
    ) -> list[Observation]:
        """Return the observations, in their order, failures enriched by what came in time.

        Returns after at most ``detail_wait_seconds``. The others, and those of a cancelled call,
        are read later and observed by the readers. ``meanwhile`` is waited for within the same
        time, and then cancelled.
        """
        lacking, known = await self._lacking(observations)
        if self._context.is_unproven() or not (lacking or meanwhile):
            return list(observations)
        can_read = self._context.can(Capability.READ_JOBS)
        in_time: list[RunKey] = []
        for key, end in lacking.items():
            if self.must_wait(end, known.get(key), ahead=len(in_time)):
                in_time.append(key)
        requests = self._request(lacking.values(), awaited=frozenset(in_time)) if can_read else {}
        awaited = [requests[key] for key in in_time if key in requests]
        await self._wait_for(awaited, meanwhile)
        if not can_read:
            return [
                final(observation) if observation.key in lacking else observation
                for observation in observations
            ]
        return [joined(observation, requests.get(observation.key)) for observation in observations]

    def without_waiting(
        self, observations: Sequence[Observation], known: Mapping[RunKey, RunState]
    ) -> list[Observation]:
        """Return the observations, in their order, ends final where no record is ever served."""
        if self._context.is_unproven() or self._context.can(Capability.READ_JOBS):
            return list(observations)
        return [
            final(run) if self._is_lacking(run, known.get(run.key)) else run for run in observations
        ]

    def must_wait(self, end: Observation, known: RunState | None, *, ahead: int = 0) -> bool:
        """True where the records of this failure can come in time for its event.

        ``ahead``: so many other failures are to be read before it and are not queued yet.
        """
        if not is_news_of_a_failure(end, known) or not self._is_lacking(end, known):
            return False
        can_read = self._context.can(Capability.READ_JOBS) and not self._context.is_unproven()
        return can_read and self._context.can_read_in_time(
            Priority.FAILED_DETAILS, ahead=ahead + self._queue.failures
        )

    async def complete_now(self, observation: Observation, *, is_last: bool) -> Observation:
        """Return the observation of an end with its job records, however long reading them takes.

        ``is_last``: an end without records is better than another attempt.

        Raises:
            WorkspaceError: the records cannot be read now.
        """
        if not self._context.can(Capability.READ_JOBS):
            return final(observation)
        client = self._context.client
        try:
            rows = await client.runs.jobs(observation.key.id, priority=Priority.DETAILS)
        except WorkspaceError as error:
            if not is_last or not is_about_the_object(error):
                raise
            return final(observation)
        return with_jobs(
            observation, job_summary(rows, read_at=client.workspace_now()), is_final=True
        )

    def complete_later(self, observations: Iterable[Observation]) -> None:
        """Queue the ends whose records no caller waits for, as far as memory knows them.

        Hand in those whose observation has changed something: others cost a read again.
        """
        if self._context.is_unproven() or not self._context.can(Capability.READ_JOBS):
            return
        active = self._context.live_state.active
        self._request(
            observation
            for observation in observations
            if _is_open_end(observation)
            and observation.key in active
            and not active[observation.key].run.detailed
        )

    def request(
        self, observations: Iterable[Observation], known: Mapping[RunKey, RunState]
    ) -> None:
        """Queue the ends among these whose records no caller waits for.

        ``known`` is what was known of the ended runs before these were observed.
        """
        if not self._context.is_unproven() and self._context.can(Capability.READ_JOBS):
            self._request(
                observation
                for observation in observations
                if self._is_lacking(observation, known.get(observation.key))
            )

    async def pick_up(self) -> bool:
        """Queue again the newest ends whose records were never read, as after a restart.

        Always return False: the readers send the requests later.
        """
        if not self._context.can(Capability.READ_JOBS):
            return False
        runs = await self._context.bus.recent_runs(
            workspaces=[self._context.name], kind=RunKind.JOB_GROUP, limit=_PICKED_UP_RUNS
        )
        oldest = self._context.clock.now() - timedelta(seconds=OLDEST_SECONDS)
        self._request(
            known_end(run) for run in runs if _is_lacking(run) and run.confirmed_at >= oldest
        )
        return False

    async def _lacking(
        self, observations: Sequence[Observation]
    ) -> tuple[dict[RunKey, Observation], dict[RunKey, RunState]]:
        """Return the observed ends whose records are still to be read, and what is known."""
        ends = {
            observation.key: observation
            for observation in observations
            if _is_open_end(observation)
        }
        known = await self._context.observer.known(list(ends)) if ends else {}
        lacking = {key: end for key, end in ends.items() if self._is_lacking(end, known.get(key))}
        return lacking, known

    def _is_lacking(self, observation: Observation, state: RunState | None) -> bool:
        """True for an end whose job records are still to be read."""
        if not _is_open_end(observation):
            return False
        is_claim = observation.source is Source.CALLBACK
        if state is not None:
            # Callbacks that repeat an end, which may be forged, cost no more reads.
            is_repeated = is_claim and state.unconfirmed_end is not None
            is_unread = not state.detailed or changes_end(state, observation)
            return not state.historical and is_unread and not is_repeated
        if is_claim:
            return False  # the workspace has not confirmed the run yet
        since, written_at = self._context.followed_since(), observation.updated_at
        return since is None or written_at is None or written_at >= since

    def _request(
        self, observations: Iterable[Observation], *, awaited: Collection[RunKey] = ()
    ) -> dict[RunKey, DetailRequest]:
        requests = {}
        refused: list[RunKey] = []
        for observation in observations:
            has_failed = status_of(observation.native_status) is Status.FAILED
            priority = Priority.FAILED_DETAILS if has_failed else Priority.DETAILS
            is_awaited = observation.key in awaited
            request = self._queue.request(observation, priority, is_awaited=is_awaited)
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

        for request in requests:
            request.is_late = False
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
                request.is_late = not request.is_done


async def _all_done(requests: Sequence[DetailRequest]) -> None:
    for request in requests:
        await request.wait()


def _is_open_end(observation: Observation) -> bool:
    return (
        observation.key.kind is RunKind.JOB_GROUP
        and has_ended(observation.native_status)
        and not observation.is_detail_final
    )


def _is_lacking(run: RunState) -> bool:
    is_end = run.status.is_terminal and run.status is not Status.LOST
    return is_end and not run.detailed and not run.historical

"""Why runs failed that had ended before we followed: read last, the newest failures first."""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from monitor.catalogue.capabilities import Capability
from monitor.model.errors import MonitorError
from monitor.model.observations import Observation
from monitor.model.runs import RunKey, RunKind, RunState, Status
from monitor.polling.context import PollContext
from monitor.polling.poll_loop.bounded_memory import BoundedMemory
from monitor.polling.poll_loop.failures import is_about_the_object
from monitor.polling.poll_loop.poll import Interval, Poll
from monitor.polling.runs.detail_readers import final
from monitor.polling.runs.job_records import JobRecords, ReadRecords
from monitor.polling.runs.reasons import Reasons
from monitor.polling.runs.run_observations import job_summary, known_end, with_jobs
from monitor.workspace.priority import Priority

log = structlog.get_logger()

_CONSIDERED = 500  # the newest failures; older ones are not explained
_AT_ONCE = 20
_BUSY_SECONDS = 10.0  # between two polls while some are unread


class OldFailures:
    """Reads the job records of old failures, which the store knows and nothing else waits for."""

    def __init__(self, context: PollContext, *, records: JobRecords, reasons: Reasons) -> None:
        self._context = context
        self._records = records
        self._reasons = reasons
        self._are_left = True
        self._tries: BoundedMemory[RunKey, int] = BoundedMemory(_CONSIDERED)

    def declared(self) -> tuple[Poll, ...]:
        timing = Interval(
            seconds=self._seconds, first_after_seconds=_BUSY_SECONDS, is_expected=False
        )
        return (
            Poll(
                name="old_failures",
                priority=Priority.INVENTORY,
                timing=timing,
                run=self.poll,
            ),
        )

    def _seconds(self) -> float:
        return _BUSY_SECONDS if self._are_left else self._context.settings.reconcile_seconds

    async def poll(self) -> bool:
        """Read the newest ones of which the reason is not known; False where there are none.

        Raises:
            MonitorError: one cannot be read now; those before it are.
        """
        failed = await self._context.bus.recent_runs(
            workspace=self._context.name,
            kind=RunKind.JOB_GROUP,
            statuses=(Status.FAILED,),
            limit=_CONSIDERED,
        )
        unread = [run for run in failed if run.historical and not run.detailed][:_AT_ONCE]
        self._are_left = bool(unread) or self._is_history_unread()
        if not self._context.can(Capability.READ_JOBS):
            if not self._context.is_unproven():
                await self._observe([final(known_end(run)) for run in unread])
            return False
        listed = await self._listed(unread)
        await self._observe(
            [_explained(run, listed[run.key.id]) for run in unread if run.key.id in listed]
        )
        for run in unread:
            if run.key.id not in listed:
                await self._observe([await self._read(run)])
        return bool(unread)

    def _is_history_unread(self) -> bool:
        history = self._context.live_state.workspaces[self._context.name].history
        return history is not None and not history.is_over

    async def _listed(self, runs: Sequence[RunState]) -> dict[str, ReadRecords]:
        """Return what few requests show of many."""
        if not self._records.can_list(len(runs)):
            return {}
        return await self._records.read(
            [run.key.id for run in runs],
            priority=Priority.INVENTORY,
            most_requests=max(1, len(runs) // 2),
        )

    async def _read(self, run: RunState) -> Observation:
        client = self._context.client
        try:
            rows = await client.runs.jobs(run.key.id, priority=Priority.INVENTORY)
        except MonitorError as error:
            tries = (self._tries.get(run.key) or 0) + is_about_the_object(error)
            self._tries.put(run.key, tries)
            if tries < self._context.settings.attempts:
                raise
            log.info("job records of an old failure given up", run=str(run.key), reason=str(error))
            return final(known_end(run))
        return _explained(run, ReadRecords(jobs=rows, read_at=client.workspace_now()))

    async def _observe(self, observations: Sequence[Observation]) -> None:
        if not observations:
            return
        await self._context.observer.observe(observations)
        known = await self._context.observer.known([run.key for run in observations])
        self._reasons.retry_ends_of(known.values())


def _explained(run: RunState, records: ReadRecords) -> Observation:
    summary = job_summary(records.jobs, read_at=records.read_at)
    return with_jobs(known_end(run), summary, is_final=True)

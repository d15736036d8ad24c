"""Progress of active job groups: read from what the budget leaves, the oldest reading first.

Records that are over show an end that lists may hide.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice
from operator import itemgetter

import structlog

from monitor.catalogue.capabilities import Capability
from monitor.model.bounded_memory import BoundedMemory
from monitor.model.due_queue import DueQueue
from monitor.model.errors import (
    BudgetExhaustedError,
    MonitorError,
    NoSuchObjectError,
    NotAvailableError,
)
from monitor.model.observations import Observation
from monitor.model.runs import RunKey, RunKind, Source, Status, status_of
from monitor.model.slices import in_slices, sorted_in_slices
from monitor.polling.details.job_records import JobRecords, ReadRecords
from monitor.polling.job_groups.job_groups import JobGroups
from monitor.polling.poll_loop.context import PollContext
from monitor.polling.poll_loop.poll import ChangeInterval, Interval, Poll
from monitor.polling.poll_loop.reads import is_about_the_object
from monitor.polling.run_observations import JobSummary, job_summary, with_jobs
from monitor.workspace.payloads import JobRow
from monitor.workspace.priority import Priority

log = structlog.get_logger()

_REMEMBERED_DENIALS = 1_000
_READS_PER_CYCLE = 10
_PIECE = 20  # observations; callbacks wait for one piece
_NEVER = datetime.min.replace(tzinfo=UTC)


class RecordedEnds:
    """Ends active job groups whose records are over, by their id or else by these records."""

    def __init__(self, context: PollContext, job_groups: JobGroups) -> None:
        self._context = context
        self._job_groups = job_groups
        self._denied: BoundedMemory[RunKey, bool] = BoundedMemory(_REMEMBERED_DENIALS)

    async def end(self, key: RunKey, rows: Sequence[JobRow], *, read_at: datetime | None) -> None:
        """Read a job group by its id; where it is refused, or denied twice, its records count.

        Such an end is derived: what the workspace itself reports later confirms or corrects it.
        """
        requested_at = self._context.workspace_now()
        try:
            row = await self._context.client.runs.job_group(
                key.id, with_flow=True, priority=Priority.ENDS
            )
            self._denied.forget(key)
            await self._job_groups.handle_read(row, Source.POLL, requested_at)
        except (NoSuchObjectError, NotAvailableError) as error:
            is_denied = isinstance(error, NoSuchObjectError)
            if is_denied and self._denied.get(key) is None:
                self._denied.put(key, value=True)
                return
            log.info("end taken from job records", run=str(key), reason=str(error))
            await self._job_groups.observe_end(self._derived(key, rows, read_at))
        except MonitorError as error:
            log.info("job group not readable", run=str(key), reason=str(error))

    def _derived(
        self, key: RunKey, rows: Sequence[JobRow], read_at: datetime | None
    ) -> Observation:
        end = Observation(
            key=key,
            source=Source.PARTS,
            observed_at=self._context.clock.now(),
            native_status=_word(rows),
        )
        return with_jobs(end, job_summary(rows, read_at=read_at), is_final=True)


def _word(rows: Sequence[JobRow]) -> str | None:
    """Return the workspace's word of a job that decides how the group ended."""
    ends = {status_of(row.native_status): row.native_status for row in rows}
    return ends.get(Status.FAILED) or ends.get(Status.CANCELED) or rows[0].native_status


class Progress:
    """Reads heartbeat and percentage of active job groups, many of them by few requests."""

    def __init__(
        self, context: PollContext, records: JobRecords, *, recorded_ends: RecordedEnds
    ) -> None:
        self._context = context
        self._records = records
        self._recorded_ends = recorded_ends
        self._list_again_at = 0.0  # monotonic
        # Workspace time of the last attempt, whatever came of it: a failure is no second turn.
        self._tried_at: dict[RunKey, datetime] = {}
        # To be read by their ids: their records are over.
        self._goes_on: DueQueue[RunKey, None] = DueQueue(
            context.clock,
            bound=None,  # active runs
            base_seconds=context.settings.progress_seconds,
            cap_seconds=context.settings.reconcile_seconds,
        )

    def declared(self, change_interval: ChangeInterval) -> tuple[Poll, ...]:
        return (
            Poll(
                name="progress",
                priority=Priority.INVENTORY,
                # Each of its reads waits for a turn, so in a busy workspace a round takes long.
                timing=Interval(seconds=change_interval.seconds, is_expected=False),
                run=self.poll,
                needs=Capability.READ_JOBS,
            ),
        )

    async def poll(self) -> bool:
        """Read as many as the budget leaves, those first whose records were read longest ago.

        Return False where there was nothing to read.

        Raises:
            MonitorError: the first failure; the records of other job groups have been read.
        """
        (due, others), has_listed = await self._due(), False
        if due and self._records.can_list(len(due) + len(others)):
            now = self._context.clock.monotonic()
            if now >= self._list_again_at:
                # A page shows more than what is due, so others are read too, and what begins
                # waits for the next list.
                seconds = self._context.settings.progress_seconds
                self._list_again_at = now + seconds / 2
                most = _READS_PER_CYCLE * self._context.client.settings.page_size
                await self._read_many([*due, *others][:most])
                oldest, has_listed = self._oldest(), True
                # Ten pages.
                due = [key async for key in in_slices(due[:most]) if self._read_at(key) <= oldest]
                if len(due) <= _READS_PER_CYCLE:
                    self._list_again_at = now + seconds  # pages showed nearly all of it
            elif self._records.is_proven:
                return False
        chosen = due[:_READS_PER_CYCLE]
        failure: MonitorError | None = None
        for number, key in enumerate(chosen):
            try:
                await self._read(key)
            except BudgetExhaustedError:
                # No failure: the budget had nothing left for this.
                return has_listed or number > 0
            except MonitorError as error:
                if not is_about_the_object(error):
                    raise
                failure = failure or error
            self._tried_at[key] = self._context.workspace_now()
        if failure is not None:
            raise failure
        return has_listed or bool(chosen)

    async def _due(self) -> tuple[list[RunKey], list[RunKey]]:
        """Return those whose records were not read for long enough, and all others.

        Those that are due stand in the order in which they are to be read.
        """
        oldest = self._oldest()
        tried_at: dict[RunKey, datetime] = {}
        due: list[tuple[datetime, RunKey]] = []
        others: list[RunKey] = []
        async for key in in_slices(list(self._context.live_state.active)):  # 2,000 run at once
            if key.workspace != self._context.name or key.kind is not RunKind.JOB_GROUP:
                continue
            if key in self._tried_at:
                tried_at[key] = self._tried_at[key]
            at = self._read_at(key)
            if at <= oldest:
                due.append((at, key))
            else:
                others.append(key)
        self._tried_at = tried_at
        in_order = await sorted_in_slices(due, key=itemgetter(0))
        return [key async for _, key in in_slices(in_order)], others

    def _oldest(self) -> datetime:
        """Return the workspace time before which a reading is too old."""
        age = timedelta(seconds=self._context.settings.progress_seconds)
        return self._context.workspace_now() - age

    def _read_at(self, key: RunKey) -> datetime:
        """Return when it was last read or tried; what never was comes before all others."""
        active = self._context.live_state.active.get(key)
        jobs = active.run.jobs if active is not None else None
        reads = (self._tried_at.get(key), jobs.read_at if jobs is not None else None)
        return max((at for at in reads if at is not None), default=_NEVER)

    async def _read(self, key: RunKey) -> None:
        client = self._context.client
        try:
            # Waits for its turn: who never waits in a busy workspace never has the turn of its
            # class, and whether these runs still do anything would stay unknown.
            rows = await client.runs.jobs(key.id, priority=Priority.INVENTORY)
        except (NoSuchObjectError, NotAvailableError) as error:
            # Whether the run itself is gone is for the reconciliation to find out.
            log.debug("progress not readable", run=str(key), reason=str(error))
            return
        read = ReadRecords(jobs=rows, read_at=client.workspace_now())
        await self._observe([(key, read)])

    async def _read_many(self, keys: Sequence[RunKey]) -> None:
        try:
            records = await self._records.read(
                [key.id for key in keys],
                priority=Priority.INVENTORY,
                most_requests=_READS_PER_CYCLE,
            )
        except BudgetExhaustedError:
            return  # no failure: as for reads by id
        read = [(key, records[key.id]) for key in keys if key.id in records]
        await self._observe(read)

    async def _observe(self, read: Sequence[tuple[RunKey, ReadRecords]]) -> None:
        """Observe records; those that are over end their runs, in a bounded number a round."""
        over: list[tuple[RunKey, ReadRecords]] = []
        for start in range(0, len(read), _PIECE):
            observations = []
            for key, found in read[start : start + _PIECE]:
                summary = job_summary(found.jobs, read_at=found.read_at)
                observations.append(self._observation(key, summary))
                if found.jobs and summary.are_over:
                    over.append((key, found))
                else:
                    self._goes_on.remove(key)
            await self._context.observer.observe(observations)
        await self._end_in_turns(over)

    async def _end_in_turns(self, over: Sequence[tuple[RunKey, ReadRecords]]) -> None:
        """End some by their ids, those that are due longest first; what goes on waits longer."""
        records, active = dict(over), self._context.live_state.active
        for key in [key for key in self._goes_on if key not in active]:
            self._goes_on.remove(key)
        for key in records:
            if key in active:
                self._goes_on.put(key, None)
        due = (key for key in self._goes_on.due() if key in records)
        for key in islice(due, _READS_PER_CYCLE):
            if key in active:  # still
                self._goes_on.retry(key)
                await self._recorded_ends.end(key, records[key].jobs, read_at=records[key].read_at)

    def _observation(self, key: RunKey, summary: JobSummary) -> Observation:
        has_started = "started_at" not in summary.approximate
        return Observation(
            key=key,
            source=Source.DETAIL,
            observed_at=self._context.clock.now(),
            # The jobs' creation shows nothing of the start of a group that may still wait.
            started_at=summary.started_at if has_started else None,
            jobs=summary.jobs,
        )

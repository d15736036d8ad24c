"""Ends that only job records show, because their job groups are neither listed nor read."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import structlog

from monitor.model.errors import MonitorError, NoSuchObjectError, NotAvailableError
from monitor.model.observations import Observation
from monitor.model.runs import RunKey, Source, Status, status_of
from monitor.polling.context import PollContext
from monitor.polling.poll_loop.bounded_memory import BoundedMemory
from monitor.polling.runs.job_groups import JobGroups
from monitor.polling.runs.run_observations import job_summary, with_jobs
from monitor.workspace.payloads import JobRow
from monitor.workspace.priority import Priority

log = structlog.get_logger()

_REMEMBERED_DENIALS = 1_000


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

"""How far active job groups are: read only from what the budget leaves, oldest first."""

from __future__ import annotations

from datetime import datetime, timedelta

import structlog

from monitor.model.errors import BudgetExhaustedError, NoSuchObjectError, NotAvailableError
from monitor.model.runs import RunKey, RunKind, Source
from monitor.model.sightings import Sighting
from monitor.polling.following import Following
from monitor.polling.reading import jobs_told
from monitor.tracking.knowledge import Knowledge
from monitor.workspace.priority import Priority

log = structlog.get_logger()

_READS_PER_ROUND = 10


class Progress:
    """Reads heartbeat and percentage of active job groups."""

    def __init__(self, following: Following) -> None:
        self._following = following

    async def poll(self) -> bool:
        """Read as many as the budget leaves, those first whose records were read longest ago.

        Return False where there was nothing to read.
        """
        chosen = self._due()[:_READS_PER_ROUND]
        for number, key in enumerate(chosen):
            try:
                await self._read(key)
            except BudgetExhaustedError:
                # No failure: the budget had nothing left for this.
                return number > 0
        return bool(chosen)

    def _due(self) -> list[RunKey]:
        oldest = self._following.workspace_now() - timedelta(
            seconds=self._following.settings.progress_seconds
        )
        read_at = {
            key: at
            for key in self._following.active_keys(RunKind.JOB_GROUP)
            if (at := _read_at(self._following.knowledge, key)) is None or at <= oldest
        }
        # Never read comes before read long ago.
        return sorted(read_at, key=lambda key: (read_at[key] is not None, read_at[key]))

    async def _read(self, key: RunKey) -> None:
        client = self._following.client
        try:
            # The last in the order of spending, and without waiting for a turn.
            rows = await client.jobs(key.id, priority=Priority.INVENTORY, wait_seconds=0.0)
        except (NoSuchObjectError, NotAvailableError) as error:
            # Whether the run itself is gone is for the audit to find out.
            log.debug("no progress to be read", run=str(key), reason=str(error))
            return
        told = jobs_told(rows, read_at=client.workspace_now())
        has_started = "started_at" not in told.approximate
        sighting = Sighting(
            key=key,
            source=Source.DETAIL,
            seen_at=self._following.clock.now(),
            # The jobs' creation says nothing about the start of a group that may still wait.
            started_at=told.started_at if has_started else None,
            jobs=told.jobs,
        )
        await self._following.observer.observe((sighting,))


def _read_at(knowledge: Knowledge, key: RunKey) -> datetime | None:
    active = knowledge.active.get(key)
    return active.run.jobs.read_at if active is not None and active.run.jobs is not None else None

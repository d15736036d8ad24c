"""The way of every job-group row: filtered, filled up, observed, and what follows from it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from monitor.model.runs import Source
from monitor.model.sightings import Outcome, Sighting
from monitor.polling.bare_rows import BareRows
from monitor.polling.details import Details
from monitor.polling.flow_runs import FlowRuns, Seen
from monitor.polling.following import Following
from monitor.polling.memory import BoundedMemory
from monitor.polling.names import Recipes
from monitor.polling.reading import has_ended, job_group_sighting
from monitor.polling.wanted import Wanted
from monitor.workspace.payloads import JobGroupRow

_REMEMBERED_ROWS = 8_192
Written = tuple[str | None, datetime | None]  # status and last write of a row


class Intake:
    """Takes rows of job groups, from whatever list or read they come."""

    def __init__(
        self,
        following: Following,
        *,
        recipes: Recipes,
        bare_rows: BareRows,
        details: Details,
        flow_runs: FlowRuns,
        wanted: Wanted,
    ) -> None:
        self._following = following
        self._recipes = recipes
        self._bare_rows = bare_rows
        self._details = details
        self._flow_runs = flow_runs
        self._wanted = wanted
        # Rows that were taken and have nothing more to tell; the overlap shows them again.
        self._settled: BoundedMemory[str, Written] = BoundedMemory(_REMEMBERED_ROWS)

    def is_followed(self, row: JobGroupRow) -> bool:
        """False for what is no pipeline's run, such as a sample; None counts as a recipe's run."""
        return row.ran_for is None or row.ran_for in self._following.settings.ranfor

    async def take(self, rows: Sequence[JobGroupRow], source: Source) -> bool:
        """Observe the rows and what they show of flow runs. Durable on return.

        Return False where some rows tell too little and could not be read by id now: they must be
        taken again.
        """
        fresh = [row for row in rows if self._settled.get(row.id) != _written(row)]
        completed = await self._bare_rows.complete(self._followed(fresh, source))
        followed = self._followed(completed.rows, source)
        sightings = [self._sighting(row, source) for row in followed]
        await self._observe(await self._details.complete(sightings))
        for row in followed:
            if has_ended(row.native_status):
                self._settled.put(row.id, _written(row))
        return not completed.unread

    async def take_read(self, row: JobGroupRow, source: Source) -> bool:
        """Observe a row that was read by its id; False where its kind of run is not followed."""
        self._bare_rows.remember(row)
        await self.take((row,), source)
        return self.is_followed(row)

    async def take_wanted(self, row: JobGroupRow, *, is_last: bool) -> None:
        """Observe a row from the audit list, with its job records, however long they take.

        ``is_last`` says that the workspace will not be asked for the job records again.

        Raises:
            WorkspaceError: the job records cannot be read; they may be later.
        """
        self._bare_rows.remember(row)
        if not self.is_followed(row):
            self._following.observer.ignore(Source.AUDIT)
            return
        sighting = self._sighting(row, Source.AUDIT)
        if has_ended(row.native_status):
            sighting = await self._details.complete_now(sighting, is_last=is_last)
        await self._observe((sighting,))

    async def _observe(self, sightings: Sequence[Sighting]) -> None:
        notes = self._recipes.unwritten()
        if not sightings and not notes:
            return
        outcomes = await self._following.observer.observe(sightings, notes=notes)
        self._recipes.written(notes)
        seen: list[Seen] = list(zip(sightings, outcomes, strict=True))
        await self._wanted.add([one.key for one, what in seen if what is Outcome.NEEDS_DETAIL])
        await self._flow_runs.notice(seen)

    def _followed(self, rows: Sequence[JobGroupRow], source: Source) -> list[JobGroupRow]:
        followed = [row for row in rows if self.is_followed(row)]
        for row in rows:
            if not self.is_followed(row):
                self._following.observer.ignore(source)
                self._settled.put(row.id, _written(row))
        return followed

    def _sighting(self, row: JobGroupRow, source: Source) -> Sighting:
        following = self._following
        return job_group_sighting(
            row,
            workspace=following.name,
            source=source,
            seen_at=following.clock.now(),
            page_url=following.page_url,
            flow=self._recipes.flow_of(row),
        )


def _written(row: JobGroupRow) -> Written:
    return row.native_status, row.updated_at

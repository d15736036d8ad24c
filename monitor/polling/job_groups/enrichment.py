"""Enrichment of incomplete rows: each job group is read once by its id, and the answer kept."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec
import structlog
from msgspec import Struct

from monitor.catalogue.capabilities import Capability
from monitor.model.errors import TryLaterError, UnauthorizedError, WorkspaceError
from monitor.model.runs import RunKey, RunKind, RunState
from monitor.polling.job_groups.recipes import RecipeNames
from monitor.polling.poll_loop.bounded_memory import BoundedMemory
from monitor.polling.poll_loop.context import PollContext
from monitor.polling.poll_loop.reads import for_each, is_about_the_object
from monitor.polling.run_observations import has_ended
from monitor.workspace.payloads import JobGroupRow
from monitor.workspace.priority import Priority

log = structlog.get_logger()

_REMEMBERED_ROWS = 4_096
_READS_AT_ONCE = 4
# What a read by id adds to a row of a list. The status is the row's own: it is one observation.
_ADDED = (
    "ran_from",
    "ran_for",
    "flow_run_id",
    "recipe_id",
    "recipe_name",
    "flow_id",
    "flow_name",
    "owner",
)


class EnrichedRows(Struct, frozen=True, kw_only=True):
    """Rows with what reads by id added. ``unread`` must be handled again: incomplete."""

    rows: tuple[JobGroupRow, ...]
    unread: tuple[JobGroupRow, ...] = ()


class Enrichment:
    """Fills up rows that lack their flow, flow run or reason for running."""

    def __init__(self, context: PollContext, recipes: RecipeNames) -> None:
        self._context = context
        self._recipes = recipes
        self._read_rows: BoundedMemory[str, JobGroupRow] = BoundedMemory(_REMEMBERED_ROWS)
        self._tries: BoundedMemory[str, int] = BoundedMemory(_REMEMBERED_ROWS)
        # Changes and reconciliation may show the same incomplete row at once; one of them reads it.
        self._being_read: dict[str, asyncio.Event] = {}

    def remember(self, row: JobGroupRow) -> None:
        """Keep a row that was read by its id; the job group need not be read again."""
        self._read_rows.put(row.id, row)
        self._recipes.learn(row)

    async def complete(self, rows: Sequence[JobGroupRow]) -> EnrichedRows:
        """Return the rows with all that can be learned of them now.

        A row whose read fails for the time being is returned apart, until it has failed so often
        that it is used as it is.
        """
        for row in rows:
            self._recipes.learn(row)
        filled = [self._filled(row) for row in rows]
        incomplete = await self._incomplete(filled)
        results = await for_each(
            incomplete,
            self._read_once,
            at_once=_READS_AT_ONCE,
            name="reading a job group by its id",
        )
        unread = {row.id for row, is_done in zip(incomplete, results, strict=True) if not is_done}
        return EnrichedRows(
            rows=tuple(self._filled(row) for row in filled if row.id not in unread),
            unread=tuple(row for row in filled if row.id in unread),
        )

    async def _incomplete(self, rows: Sequence[JobGroupRow]) -> list[JobGroupRow]:
        if not self._context.can(Capability.FOLLOW_BY_ID):
            return []
        lacking = [
            row for row in rows if self._read_rows.get(row.id) is None and self.is_lacking(row)
        ]
        keys = [self._context.key(RunKind.JOB_GROUP, row.id) for row in lacking]
        known = await self._context.observer.known(keys) if keys else {}
        return self._worth_reading(lacking, known)

    def _worth_reading(
        self, rows: Sequence[JobGroupRow], known: dict[RunKey, RunState]
    ) -> list[JobGroupRow]:
        chosen: list[JobGroupRow] = []
        recipes_of_old: set[str] = set()
        for row in rows:
            state = known.get(self._context.key(RunKind.JOB_GROUP, row.id))
            if state is not None and state.pipeline is not None:
                continue
            if self.is_old(row):
                # One read shows the flow of all old job groups of a recipe; more is not needed.
                if row.recipe_id is None or row.recipe_id in recipes_of_old:
                    continue
                if self._recipes.flow_of(row) is not None:
                    continue
                recipes_of_old.add(row.recipe_id)
            chosen.append(row)
        return chosen

    def is_old(self, row: JobGroupRow) -> bool:
        """True where the row's run ended before the workspace was followed."""
        since = self._context.followed_since()
        written_at = row.updated_at
        return (
            has_ended(row.native_status)
            and since is not None
            and written_at is not None
            and written_at < since
        )

    def is_lacking(self, row: JobGroupRow) -> bool:
        """True where a read by its id may show more of the row."""
        lacks_flow_run = row.flow_run_id is None and not row.shows_flow_run
        return (
            self._recipes.flow_of(row) is None
            or row.ran_for is None
            or (lacks_flow_run and self._context.can(Capability.FOLLOW_FLOW_RUNS))
        )

    async def _read_once(self, row: JobGroupRow) -> bool:
        """Read one job group, or wait for the task that reads it; False: to be tried again.

        A cancelled read lets the waiting tasks go on; they return False.
        """
        if (being_read := self._being_read.get(row.id)) is not None:
            await being_read.wait()
            return self._read_rows.get(row.id) is not None
        if self._read_rows.get(row.id) is not None:
            # Another list's poll has read it while the store was read for this one.
            return True
        self._being_read[row.id] = asyncio.Event()
        try:
            return await self._read(row)
        finally:
            self._being_read.pop(row.id).set()

    async def _read(self, row: JobGroupRow) -> bool:
        client = self._context.client
        priority = Priority.DETAILS if self.is_old(row) else Priority.CHANGES
        try:
            self.remember(await client.runs.job_group(row.id, with_flow=True, priority=priority))
        except (TryLaterError, UnauthorizedError) as error:
            # Our own budget, a token to be renewed or an outage show nothing about this row.
            tries = (self._tries.get(row.id) or 0) + is_about_the_object(error)
            self._tries.put(row.id, tries)
            if not self.is_old(row) and tries < self._context.settings.attempts:
                return False
        except WorkspaceError as error:
            log.info("job group not readable", job_group=row.id, reason=str(error))
            self._read_rows.put(row.id, row)
        return True

    def _filled(self, row: JobGroupRow) -> JobGroupRow:
        read = self._read_rows.get(row.id)
        added: dict[str, object] = {}
        if read is not None and read is not row:
            added = {
                name: getattr(read, name)
                for name in _ADDED
                if getattr(row, name) is None and getattr(read, name) is not None
            }
            added["shows_flow_run"] = row.shows_flow_run or read.shows_flow_run
        if row.recipe_name is None and "recipe_name" not in added:
            added["recipe_name"] = self._recipes.recipe_name_of(row.recipe_id)
        return msgspec.structs.replace(row, **added)

"""Enrichment of incomplete rows: each job group is read once by its id, and the answer kept.

Lists of job groups often show the id of a recipe alone: its flow and name are remembered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec
import structlog
from msgspec import Struct

from monitor.bus.contract import StateEntry, decode_entries
from monitor.catalogue.capabilities import Capability
from monitor.model.bounded_memory import BoundedMemory
from monitor.model.errors import TryLaterError, UnauthorizedError, WorkspaceError
from monitor.model.runs import Pipeline, PipelineKind, RunKey, RunKind, RunState
from monitor.model.slices import for_each
from monitor.polling.poll_loop.context import PollContext
from monitor.polling.poll_loop.reads import is_about_the_object
from monitor.polling.run_observations import has_ended
from monitor.workspace.payloads import JobGroupRow
from monitor.workspace.priority import Priority

log = structlog.get_logger()

RECIPE = "recipe"  # topic of their state entries
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


class _Known(Struct, frozen=True, gc=False, omit_defaults=True):
    flow_id: str
    flow_name: str | None = None
    recipe_name: str | None = None


_DECODER = msgspec.json.Decoder(_Known)


class RecipeNames:
    """Remembers flow and name of each recipe that a row or a read has shown, up to a bound."""

    def __init__(self, context: PollContext) -> None:
        self._context = context
        self._known: BoundedMemory[str, _Known] = BoundedMemory(context.settings.remembered_recipes)
        self._unwritten: dict[str, _Known | None] = {}

    async def load(self) -> None:
        """Read back what was learned before."""
        stored = await self._context.bus.state_entries(self._context.name, RECIPE)
        for recipe_id, known in decode_entries(stored, _DECODER, topic=RECIPE).items():
            self._put(recipe_id, known)

    def learn(self, row: JobGroupRow) -> None:
        """Remember what the row shows of its recipe; an absent field forgets nothing."""
        if row.recipe_id is None or row.flow_id is None:
            return
        known_recipe = self._known.get(row.recipe_id)
        is_same_flow = known_recipe is not None and known_recipe.flow_id == row.flow_id
        known = _Known(
            flow_id=row.flow_id,
            flow_name=row.flow_name
            or (known_recipe.flow_name if known_recipe and is_same_flow else None),
            recipe_name=row.recipe_name or (known_recipe.recipe_name if known_recipe else None),
        )
        if known != known_recipe:
            self._unwritten[row.recipe_id] = known
            self._put(row.recipe_id, known)

    def flow_of(self, row: JobGroupRow) -> Pipeline | None:
        """Return the flow that the row names, else the one that its recipe is known to be in."""
        if row.flow_id is not None:
            return self._flow(row.flow_id, row.flow_name)
        known_recipe = self._known.get(row.recipe_id) if row.recipe_id is not None else None
        return (
            self._flow(known_recipe.flow_id, known_recipe.flow_name)
            if known_recipe is not None
            else None
        )

    def recipe_name_of(self, recipe_id: str | None) -> str | None:
        known_recipe = self._known.get(recipe_id) if recipe_id is not None else None
        return known_recipe.recipe_name if known_recipe is not None else None

    def name(self, recipe_id: str, name: str) -> None:
        """Set the name of a recipe, where that is remembered at all."""
        known = self._known.get(recipe_id)
        if known is not None and known.recipe_name != name:
            known = msgspec.structs.replace(known, recipe_name=name)
            self._unwritten[recipe_id] = known
            self._put(recipe_id, known)

    def unwritten(self) -> tuple[StateEntry, ...]:
        """Return what was learned since `written`, for the next commit."""
        return tuple(
            self._context.state_entry(
                RECIPE, recipe_id, None if known is None else msgspec.json.encode(known)
            )
            for recipe_id, known in self._unwritten.items()
        )

    def written(self, state_entries: tuple[StateEntry, ...]) -> None:
        """Those state entries are durable now."""
        for state_entry in state_entries:
            known = self._unwritten.get(state_entry.key)
            value = None if known is None else msgspec.json.encode(known)
            if state_entry.key in self._unwritten and value == state_entry.value:
                del self._unwritten[state_entry.key]

    def _put(self, recipe_id: str, known: _Known) -> None:
        forgotten = self._known.put(recipe_id, known)
        names, workspace = self._context.live_state.recipe_names, self._context.name
        if known.recipe_name is not None:
            names[workspace, recipe_id] = known.recipe_name
        if forgotten is not None:
            self._unwritten[forgotten] = None
            names.pop((workspace, forgotten), None)

    def _flow(self, flow_id: str, shown_name: str | None) -> Pipeline:
        context = self._context
        # The inventory knows a flow's present name; a remembered one may be out of date.
        listed = context.live_state.names.name_of((context.name, PipelineKind.FLOW, flow_id))
        return Pipeline(kind=PipelineKind.FLOW, id=flow_id, name=listed or shown_name)


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

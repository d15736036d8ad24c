"""Finds flow and name of a recipe. Lists of job groups often show its id alone."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from monitor.bus.contract import StateEntry, decode_entries
from monitor.model.runs import Pipeline, PipelineKind
from monitor.polling.poll_loop.bounded_memory import BoundedMemory
from monitor.polling.poll_loop.context import PollContext
from monitor.workspace.payloads import JobGroupRow

RECIPE = "recipe"  # topic of their state entries


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

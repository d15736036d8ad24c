"""Which flow a recipe belongs to. Lists of job groups often name the recipe alone."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from monitor.bus.contract import StateEntry, legible
from monitor.model.runs import Pipeline, PipelineKind
from monitor.polling.context import PollContext
from monitor.polling.running.bounded_memory import BoundedMemory
from monitor.workspace.payloads import JobGroupRow

RECIPE = "recipe"  # topic of the notes that keep it over a restart


class _Known(Struct, frozen=True, gc=False, omit_defaults=True):
    flow_id: str
    flow_name: str | None = None
    recipe_name: str | None = None


_DECODER = msgspec.json.Decoder(_Known)


class RecipeNames:
    """Remembers the flow of each recipe that a row or a read has told, up to a bound."""

    def __init__(self, context: PollContext) -> None:
        self._context = context
        self._known: BoundedMemory[str, _Known] = BoundedMemory(context.settings.remembered_recipes)
        self._unwritten: dict[str, _Known | None] = {}

    async def load(self) -> None:
        """Read back what was learned before."""
        noted = await self._context.bus.state_entries(self._context.name, RECIPE)
        for recipe_id, known in legible(noted, _DECODER, topic=RECIPE).items():
            self._put(recipe_id, known)

    def learn(self, row: JobGroupRow) -> None:
        """Remember what the row tells of its recipe; silence forgets nothing."""
        if row.recipe_id is None or row.flow_id is None:
            return
        held = self._known.get(row.recipe_id)
        is_same_flow = held is not None and held.flow_id == row.flow_id
        known = _Known(
            flow_id=row.flow_id,
            flow_name=row.flow_name or (held.flow_name if held and is_same_flow else None),
            recipe_name=row.recipe_name or (held.recipe_name if held else None),
        )
        if known != held:
            self._unwritten[row.recipe_id] = known
            self._put(row.recipe_id, known)

    def flow_of(self, row: JobGroupRow) -> Pipeline | None:
        """Return the flow that the row names, else the one that its recipe is known to be in."""
        if row.flow_id is not None:
            return self._flow(row.flow_id, row.flow_name)
        held = self._known.get(row.recipe_id) if row.recipe_id is not None else None
        return self._flow(held.flow_id, held.flow_name) if held is not None else None

    def recipe_name_of(self, recipe_id: str | None) -> str | None:
        held = self._known.get(recipe_id) if recipe_id is not None else None
        return held.recipe_name if held is not None else None

    def unwritten(self) -> tuple[StateEntry, ...]:
        """Return what was learned since `written`, for the next commit."""
        return tuple(
            self._context.note(
                RECIPE, recipe_id, None if known is None else msgspec.json.encode(known)
            )
            for recipe_id, known in self._unwritten.items()
        )

    def written(self, state_entries: tuple[StateEntry, ...]) -> None:
        """Those notes are durable now."""
        for note in state_entries:
            known = self._unwritten.get(note.key)
            value = None if known is None else msgspec.json.encode(known)
            if note.key in self._unwritten and value == note.value:
                del self._unwritten[note.key]

    def _put(self, recipe_id: str, known: _Known) -> None:
        forgotten = self._known.put(recipe_id, known)
        if forgotten is not None:
            self._unwritten[forgotten] = None

    def _flow(self, flow_id: str, told_name: str | None) -> Pipeline:
        context = self._context
        # The inventory knows a flow's present name; a remembered one may be out of date.
        listed = context.live_state.name_of(context.name, PipelineKind.FLOW, flow_id)
        return Pipeline(kind=PipelineKind.FLOW, id=flow_id, name=listed or told_name)

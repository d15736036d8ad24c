"""Output objects: what a recipe produces when it runs."""

from __future__ import annotations

from typing import Any

from monitor.sandbox.api.calls import Call, Handlers, Reply
from monitor.sandbox.api.crud.deletion import delete
from monitor.sandbox.api.crud.handlers import Hooks, create_record, crud, found
from monitor.sandbox.api.errors import bad_field
from monitor.sandbox.api.outputs.destinations import NESTED, nested_values
from monitor.sandbox.api.outputs.output_kinds import OUTPUT_OBJECT
from monitor.sandbox.api.request.bodies import Body
from monitor.sandbox.world.lineage import datasets_of
from monitor.sandbox.world.records.objects import OutputObject


def _nested(call: Call) -> dict[str, list[dict[str, Any]]]:
    """Return the values of all destinations that the body brings along, by their field.

    Raises:
        ApiError: 400, naming the field that cannot be.
    """
    body = Body(call.body)
    return {
        name: [
            nested_values(call, kind, item, path=f"{name}[{place}]")
            for place, item in enumerate(body.array(name))
        ]
        for name, kind in NESTED.items()
        if body.has(name)
    }


def _prepare(call: Call, record: OutputObject | None, values: dict[str, Any]) -> dict[str, Any]:
    """Validate everything before anything is made."""
    if record is not None:
        values.pop("recipe_id", None)  # an output stays with its recipe
    elif "recipe_id" not in values:
        raise bad_field("flowNodeId", "is required")
    _nested(call)
    return values


def _replace_destinations(call: Call, output: OutputObject) -> None:
    """Let an output make what the body lists, in place of what it made of that kind."""
    for name, rows in _nested(call).items():
        kind = NESTED[name]
        for before in list(call.world.shelf(kind.record).live()):
            if before.output_object_id == output.id:
                delete(call, before)
        for values in rows:
            create_record(call, kind, {**values, "output_object_id": output.id})


def get_inputs(call: Call) -> Reply:
    """Return the datasets that an output is made of, through all recipes on the way."""
    output = found(call, OUTPUT_OBJECT)
    recipe = call.world.recipes.get(output.recipe_id)
    rows = [] if recipe is None else datasets_of(call.world, recipe)
    return call.list("importeddatasets", rows)


HOOKS: Hooks[OutputObject] = Hooks(prepare=_prepare, after=_replace_destinations)

HANDLERS: Handlers = {
    "getInputsForOutputObject": get_inputs,
    **crud(
        OUTPUT_OBJECT,
        create="createOutputObject",
        listed="listOutputObjects",
        counted="countOutputObjects",
        read="getOutputObject",
        changed=("patchOutputObject",),
        deleted="deleteOutputObject",
        hooks=HOOKS,
    ),
}

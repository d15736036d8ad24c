"""Recipes, which the API calls wrangled datasets, their places in other flows, and functions."""

from __future__ import annotations

from typing import Any

from monitor.sandbox.api.calls import Call, Handlers, Reply
from monitor.sandbox.api.crud.handlers import Hooks, answer, create_record, crud, found
from monitor.sandbox.api.crud.rights import require_right
from monitor.sandbox.api.crud.values import linked
from monitor.sandbox.api.data.dataset_kinds import IMPORTED_DATASET
from monitor.sandbox.api.errors import Json, bad_field, not_found
from monitor.sandbox.api.request.bodies import Body
from monitor.sandbox.api.response.kinds import (
    Association,
    Kind,
    OnDelete,
    Reference,
    Resource,
    View,
    Visibility,
    named,
)
from monitor.sandbox.api.response.rendering import NAMED, OWN, kept, reference, show, stamps
from monitor.sandbox.world.lineage import builds_upon, cut_edges
from monitor.sandbox.world.records.objects import Flow, ImportedDataset, Recipe
from monitor.sandbox.world.records.parts import ReferenceNode, UserDefinedFunction
from monitor.sandbox.world.shelves import World

INPUTS = {"importedDataset": "dataset_ids", "wrangledDataset": "upstream_ids"}
_PROBLEMS = {
    False: "or wrangledDataset is required",
    True: "cannot stand beside importedDataset",
}


def is_referenced(world: World, recipe: Recipe) -> bool:
    """True where another flow refers to a recipe."""
    return any(node.recipe_id == recipe.id for node in world.shelf(ReferenceNode).live())


def _reference_info(view: View, recipe: Recipe) -> Json:
    return {"id": recipe.id, "name": recipe.name} if is_referenced(view.world, recipe) else None


RECIPE: Kind[Recipe] = Kind(
    record=Recipe,
    model="WrangledDataset",
    references=(
        Reference("flow_id", Flow, shown="flow", sent="flow"),
        Reference(
            "dataset_ids",
            ImportedDataset,
            on_delete=OnDelete.REFUSE,
            many=True,
            embeds_as="importedDatasets",
        ),
        Reference("upstream_ids", Recipe, on_delete=OnDelete.CLEAR, many=True),
        Reference("function_ids", UserDefinedFunction, on_delete=OnDelete.CLEAR, many=True),
    ),
    home="flow_id",
    constants={"wrangled": True, "activeSample": None, "associatedPeople": None},
    computed={
        "recipe": lambda _, record: reference(record.id),
        "referenceinfo": _reference_info,
    },
    # Which of the two is the input is decided by the handler.
    unkept=frozenset({"importedDataset", "wrangledDataset"}),
    associations=named(
        Association("recipe", lambda _, record: record, target="recipes"),
        Association(
            "outputObjects", lambda view, record: view.world.outputs_of(record.id), many=True
        ),
    ),
)


REFERENCE_NODE: Kind[ReferenceNode] = Kind(
    record=ReferenceNode,
    name="flowNode",
    plural="referencenodes",
    references=(
        Reference("flow_id", Flow, shown="flow"),
        Reference("recipe_id", Recipe, shown="referencedFlowNode"),
    ),
    home="flow_id",
    constants={"activeSample": None, "wrangled": False},
    also_shown=("createdAt", "updatedAt", "creator", "updater"),
)


def recipe(view: View, recipe: Recipe | ImportedDataset) -> dict[str, Json]:
    """Return a wrangled dataset's script, or that which parses an imported one."""
    del view
    return {
        **stamps(recipe),
        **kept(recipe, "name", "description"),
        "active": True,
    }


RECIPES = Resource(plural="recipes", render=recipe, columns=NAMED, associations=named(*OWN))


def _link(kind: Kind[Any], attribute: str) -> Reference:
    return next(reference for reference in kind.references if reference.attribute == attribute)


def _input(call: Call, body: Body) -> ImportedDataset | Recipe:
    """Return the dataset or recipe that a body names; a reference counts as what it refers to.

    Raises:
        ApiError: 400, when it names none, both, or one that is not there.
    """
    sent = [name for name in INPUTS if body.has(name)]
    if len(sent) != 1:
        raise bad_field("importedDataset" if not sent else sent[1], _PROBLEMS[bool(sent)])
    name = sent[0]
    value = body.raw(name)
    if name == "importedDataset":
        link = _link(RECIPE, "dataset_ids")
        record: ImportedDataset | Recipe | None = call.world.imported_datasets.get(
            linked(call, link, value, f"{name}.id")
        )
    else:
        node = call.world.shelf(ReferenceNode).get(body.object(name).integer("id"))
        recipe_id = {"id": node.recipe_id} if node is not None else value
        link = _link(RECIPE, "upstream_ids")
        record = call.world.recipes.get(linked(call, link, recipe_id, f"{name}.id"))
    if record is None:
        raise LookupError("a link was validated and leads nowhere")
    return record


def _prepare(call: Call, record: Recipe | None, values: dict[str, Any]) -> dict[str, Any]:
    if record is not None:
        return values
    source = _input(call, Body(call.body))
    attribute = "dataset_ids" if isinstance(source, ImportedDataset) else "upstream_ids"
    return {"name": source.name, **values, attribute: (source.id,)}


def _refer_to_others(call: Call, recipe: Recipe) -> None:
    """Give recipes of other flows that this one builds upon a place in its flow."""
    for upstream_id in recipe.upstream_ids:
        upstream = call.world.recipes.get(upstream_id)
        if upstream is not None and upstream.flow_id != recipe.flow_id:
            _node_of(call, flow_id=recipe.flow_id, recipe_id=upstream_id)


def _node_of(call: Call, *, flow_id: int, recipe_id: int) -> ReferenceNode:
    """Return a recipe's place in another flow; made where it has none."""
    nodes = call.world.shelf(ReferenceNode).live()
    there = (node for node in nodes if (node.flow_id, node.recipe_id) == (flow_id, recipe_id))
    return next(there, None) or create_record(
        call, REFERENCE_NODE, {"flow_id": flow_id, "recipe_id": recipe_id}
    )


def add_to_flow(call: Call) -> Reply:
    """Put a reference to a recipe into another flow; one that is there already stays."""
    recipe = found(call, RECIPE)
    link = _link(REFERENCE_NODE, "flow_id")
    flow_id = linked(call, link, Body(call.body).raw("flow"), "flow.id")
    flow = call.world.flows.get(flow_id)
    if flow is not None:
        require_right(call, flow)
    if flow_id == recipe.flow_id:
        raise bad_field("flow.id", f"is the flow of wrangledDataset {recipe.id} itself")
    return answer(call, REFERENCE_NODE, _node_of(call, flow_id=flow_id, recipe_id=recipe.id))


def primary_of(recipe: Recipe) -> tuple[str, int] | None:
    """Return which field of a recipe holds its primary input, and its id; None without any."""
    if recipe.upstream_ids and (recipe.primary_is_upstream or not recipe.dataset_ids):
        return "upstream_ids", recipe.upstream_ids[0]
    return ("dataset_ids", recipe.dataset_ids[0]) if recipe.dataset_ids else None


def get_input(call: Call) -> Reply:
    """Read what a recipe works on first: an imported dataset or another recipe."""
    recipe = found(call, RECIPE)
    primary = primary_of(recipe)
    if primary is None:
        raise not_found("primaryInputDataset of wrangledDataset", recipe.id)
    attribute, record_id = primary
    name = next(name for name, input_ in INPUTS.items() if input_ == attribute)
    kind: Kind[Any] = IMPORTED_DATASET if name == "importedDataset" else RECIPE
    record = call.world.shelf(kind.record).get(record_id, with_deleted=True)
    return Reply(body={name: show(call.view, kind.plural, record)})


def swap_input(call: Call) -> Reply:
    """Let a recipe read other data from its next run on."""
    recipe = found(call, RECIPE)
    require_right(call, recipe)
    source = _input(call, Body(call.body))
    if isinstance(source, Recipe) and builds_upon(call.world, source, recipe.id):
        raise bad_field("wrangledDataset.id", f"builds upon wrangledDataset {recipe.id}: a circle")
    inputs = {"dataset_ids": recipe.dataset_ids, "upstream_ids": recipe.upstream_ids}
    primary = primary_of(recipe)
    if primary is not None:
        attribute, record_id = primary
        inputs[attribute] = tuple(input_ for input_ in inputs[attribute] if input_ != record_id)
    attribute = "dataset_ids" if isinstance(source, ImportedDataset) else "upstream_ids"
    inputs[attribute] = tuple(dict.fromkeys((source.id, *inputs[attribute])))
    call.world.update(
        recipe,
        by=call.person.id,
        primary_is_upstream=attribute == "upstream_ids",
        dataset_ids=inputs["dataset_ids"],
        upstream_ids=inputs["upstream_ids"],
    )
    _refer_to_others(call, recipe)
    cut_edges(call.world, recipe)
    return answer(call, RECIPE, recipe)


FUNCTION = Kind(
    record=UserDefinedFunction,
    visibility=Visibility.EVERYBODY,
)


def list_recipes(call: Call) -> Reply:
    """List the recipes that use a function, whosever they are."""
    return call.list("wrangleddatasets", _users(call)[::-1])


def count_usage(call: Call) -> Reply:
    """Count the recipes that use a function, and the flows that these belong to."""
    recipes = _users(call)
    return Reply(
        body={"flows": len({recipe.flow_id for recipe in recipes}), "recipes": len(recipes)}
    )


def _users(call: Call) -> list[Recipe]:
    function = found(call, FUNCTION)
    return [recipe for recipe in call.world.recipes.live() if function.id in recipe.function_ids]


HANDLERS: Handlers = {
    **crud(RECIPE, Hooks(prepare=_prepare, after=_refer_to_others)),
    "addWrangledDatasetToFlow": add_to_flow,
    "getInputDataset": get_input,
    "updateInputDataset": swap_input,
    **crud(FUNCTION),
    "getListOfRecipesUsingThisFunction": list_recipes,
    "getCountOfAllFlowsAndRecipesUsingThisFunction": count_usage,
}

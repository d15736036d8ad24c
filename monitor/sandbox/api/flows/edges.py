"""The nodes of flows and the links between them: what recipes read."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from monitor.sandbox.api.calls import Call, Handlers, Reply
from monitor.sandbox.api.crud.handlers import create_record, found
from monitor.sandbox.api.crud.rights import require_right
from monitor.sandbox.api.crud.values import linked
from monitor.sandbox.api.data.dataset_kinds import DATASET_NODE
from monitor.sandbox.api.errors import Json, bad_field, not_found
from monitor.sandbox.api.flows.flows import FLOW
from monitor.sandbox.api.models.models import status_of
from monitor.sandbox.api.request.bodies import Body
from monitor.sandbox.api.response.kinds import Association, Kind, Reference, Resource, View, named
from monitor.sandbox.api.response.rendering import OWN, STAMPS, reference, show, stamps
from monitor.sandbox.world.lineage import FlowNode, node_of, recipe_of_output
from monitor.sandbox.world.records.objects import Flow, ImportedDataset, Recipe, Record
from monitor.sandbox.world.records.parts import DatasetNode, FlowEdge, ReferenceNode
from monitor.sandbox.world.shelves import World

MOST_EDGES = 1_000
_NODES: tuple[type[Record], ...] = (Recipe, DatasetNode, ReferenceNode)

EDGE: Kind[FlowEdge] = Kind(
    record=FlowEdge,
    references=(
        Reference("flow_id", Flow, shown="flow"),
        *(Reference("input_node_id", node) for node in _NODES),
        *(Reference("output_node_id", node) for node in _NODES),
    ),
    home="flow_id",
    computed={
        "inputFlowNode": lambda _, record: {"id": record.input_node_id},
        "outputFlowNode": lambda _, record: {"id": record.output_node_id},
    },
    associations=named(
        Association(
            "inputFlowNode",
            lambda view, record: node_of(view.world, record.input_node_id),
            target="flownodes",
        ),
        Association(
            "outputFlowNode",
            lambda view, record: node_of(view.world, record.output_node_id),
            target="flownodes",
        ),
    ),
    filter_fields=("id",),
)


class _RequestedEdge(Struct, frozen=True, kw_only=True):
    """An edge that a request creates."""

    input_node: FlowNode
    output_node: Recipe
    in_port_id: int
    out_port_id: int


def flow_node(view: View, flow_node: FlowNode) -> dict[str, Json]:
    """Return a node; that of a recipe has the recipe's id, a dataset's that of its parsing."""
    del view
    recipe_id = flow_node.id if isinstance(flow_node, Recipe) else None
    shown: dict[str, Json] = {
        **stamps(flow_node),
        "flow": reference(flow_node.flow_id),
        "recipe": reference(recipe_id),
        "wrangled": recipe_id is not None,
        "wrangledDataset": reference(recipe_id),
    }
    if isinstance(flow_node, DatasetNode):
        shown["recipe"] = shown["importedDataset"] = reference(flow_node.dataset_id)
    if isinstance(flow_node, ReferenceNode):
        shown["referencedFlowNode"] = reference(flow_node.recipe_id)
    return shown


def _dataset_of(view: View, flow_node: FlowNode) -> ImportedDataset | None:
    if not isinstance(flow_node, DatasetNode):
        return None
    return view.world.imported_datasets.get(flow_node.dataset_id)


def flow_of(view: View, flow_node: FlowNode) -> Flow | None:
    return view.world.flows.get(flow_node.flow_id, with_deleted=True)


FLOW_NODES = Resource(
    plural="flownodes",
    render=flow_node,
    columns=STAMPS,
    associations=named(
        *OWN,
        Association("flow", flow_of, target="flows"),
        Association(
            "recipe",
            lambda view, record: (
                record if isinstance(record, Recipe) else _dataset_of(view, record)
            ),
            target="recipes",
        ),
        Association("importedDataset", _dataset_of, target="importeddatasets"),
    ),
)


def commit_edges(call: Call) -> Reply:
    """Let recipes of a flow read what other nodes give; all edges are made, or none."""
    node = node_of(call.world, call.path_id())
    if node is None:
        raise not_found("flowNode", call.path_values[0])
    flow = call.world.flows.get(node.flow_id)
    if flow is None:
        raise not_found("flow", node.flow_id)
    require_right(call, flow)
    requested = [_requested_edge(call, node, body) for body in _bodies(Body(call.body))]
    _refuse_circles(call.world, requested)
    edges = [_commit(call, flow, body) for body in requested]
    data = [show(call.view, EDGE.plural, edge) for edge in edges]
    return Reply(status=status_of(call.operation), body={"data": data})


def _bodies(body: Body) -> list[Body]:
    """Return the edges in ``updateInfo``: a list of them, or the one that it is itself."""
    info = body.object("updateInfo")
    if not info.has("edges"):
        return [info]
    found_edges = info.objects("edges")
    if len(found_edges) > MOST_EDGES:
        raise bad_field(info.name_of("edges"), f"must contain at most {MOST_EDGES} items")
    return found_edges


def _requested_edge(call: Call, node: FlowNode, body: Body) -> _RequestedEdge:
    """Return an edge; an end that is not named is the node of the path."""
    names = ("inputFlowNodeId", "outputFlowNodeId")
    if not any(body.has(name) for name in names):
        raise bad_field(body.name_of(names[0]), "is required")
    begin, end = (_end(call, node, body, name) for name in names)
    if not isinstance(end, Recipe):
        raise bad_field(body.name_of(names[1]), "names a node that takes no input")
    return _RequestedEdge(
        input_node=begin,
        output_node=end,
        in_port_id=body.integer("inPortId") if body.has("inPortId") else 0,
        out_port_id=body.integer("outPortId") if body.has("outPortId") else 0,
    )


def _end(call: Call, node: FlowNode, body: Body, name: str) -> FlowNode:
    if not body.has(name):
        return node
    named = node_of(call.world, body.integer(name))
    if named is None or named.flow_id != node.flow_id:
        raise bad_field(body.name_of(name), f"names no node of flow {node.flow_id}")
    return named


def _refuse_circles(world: World, requested: list[_RequestedEdge]) -> None:
    """Refuse what would let a recipe wait for itself.

    Raises:
        ApiError: 400.
    """
    upstream = {recipe.id: set(recipe.upstream_ids) for recipe in world.recipes.live()}
    for edge in requested:
        source_id = recipe_of_output(edge.input_node)
        if source_id is None:
            continue
        if edge.output_node.id in _reached(upstream, source_id):
            raise bad_field(
                "updateInfo",
                f"would let node {edge.output_node.id} read its own result",
            )
        upstream[edge.output_node.id].add(source_id)


def _reached(upstream: Mapping[int, set[int]], recipe_id: int) -> set[int]:
    reached: set[int] = set()
    waiting = [recipe_id]
    while waiting:
        one = waiting.pop()
        if one not in reached:
            reached.add(one)
            waiting.extend(upstream.get(one, ()))
    return reached


def _commit(call: Call, flow: Flow, requested: _RequestedEdge) -> FlowEdge:
    recipe, source = requested.output_node, requested.input_node
    source_id = recipe_of_output(source)
    if source_id is not None:
        ids = dict.fromkeys((*recipe.upstream_ids, source_id))
        call.world.update(recipe, by=call.person.id, upstream_ids=tuple(ids))
    elif isinstance(source, DatasetNode):
        ids = dict.fromkeys((*recipe.dataset_ids, source.dataset_id))
        call.world.update(recipe, by=call.person.id, dataset_ids=tuple(ids))
    edge = _edge(call, flow, input_id=source.id, output_id=recipe.id)
    call.world.update(edge, in_port_id=requested.in_port_id, out_port_id=requested.out_port_id)
    return edge


def _edge(call: Call, flow: Flow, *, input_id: int, output_id: int) -> FlowEdge:
    """Return the edge between two nodes; made where there is none."""
    ends = (input_id, output_id)
    for flow_edge in call.world.shelf(FlowEdge).live():
        if (flow_edge.input_node_id, flow_edge.output_node_id) == ends:
            return flow_edge
    values = {"flow_id": flow.id, "input_node_id": input_id, "output_node_id": output_id}
    return create_record(call, EDGE, values)


_NEW_DATASET = Reference("dataset_id", ImportedDataset)


def replace_dataset(call: Call) -> Reply:
    """Let all recipes of a flow that read one imported dataset read another instead."""
    flow = found(call, FLOW)
    require_right(call, flow)
    body = Body(call.body)
    old_id = _old_dataset(call, flow, body)
    name = "newImportedDatasetId"
    new_id = linked(call, _NEW_DATASET, body.raw(name), name)
    readers = [
        other_recipe
        for other_recipe in call.world.recipes_of(flow.id)
        if old_id in other_recipe.dataset_ids
    ]
    node = _node_for(call, flow, old_id, new_id)
    for recipe in readers:
        ids = dict.fromkeys(
            new_id if dataset_id_ == old_id else dataset_id_ for dataset_id_ in recipe.dataset_ids
        )
        call.world.update(recipe, by=call.person.id, dataset_ids=tuple(ids))
    edges = [_edge(call, flow, input_id=node.id, output_id=reader.id) for reader in readers]
    answer: dict[str, Json] = {
        "newInputNode": show(call.view, "flownodes", node),
        "outputNodeEdges": [
            {
                "id": edge.id,
                "flowId": edge.flow_id,
                "inFlowNodeId": edge.input_node_id,
                "outFlowNodeId": edge.output_node_id,
            }
            for edge in edges
        ],
    }
    return Reply(status=status_of(call.operation), body=answer)


def _old_dataset(call: Call, flow: Flow, body: Body) -> int:
    """Return the dataset that is to be replaced, named by itself or by its node in the flow.

    Raises:
        ApiError: 400, when the flow has no such dataset.
    """
    if body.has("flowNodeId"):
        node = call.world.shelf(DatasetNode).get(body.integer("flowNodeId"))
        if node is None or node.flow_id != flow.id:
            raise bad_field("flowNodeId", f"names no imported dataset in flow {flow.id}")
        return node.dataset_id
    dataset_id = body.integer("oldImportedDatasetId")
    is_read = any(dataset_id in recipe.dataset_ids for recipe in call.world.recipes_of(flow.id))
    if not is_read and not _dataset_nodes(call, flow, dataset_id):
        raise bad_field("oldImportedDatasetId", f"names no imported dataset in flow {flow.id}")
    return dataset_id


def _dataset_nodes(call: Call, flow: Flow, dataset_id: int) -> list[DatasetNode]:
    nodes = call.world.shelf(DatasetNode).live()
    return [node for node in nodes if (node.flow_id, node.dataset_id) == (flow.id, dataset_id)]


def _node_for(call: Call, flow: Flow, old_id: int, new_id: int) -> DatasetNode:
    """Return the new dataset's node: the one that it has, the old dataset's, or a new one.

    Where both have one, the old dataset's goes, and its edges begin at the other.
    """
    old, new = _dataset_nodes(call, flow, old_id), _dataset_nodes(call, flow, new_id)
    if old_id == new_id or not new:
        if not old:
            return create_record(call, DATASET_NODE, {"flow_id": flow.id, "dataset_id": new_id})
        call.world.update(old[0], by=call.person.id, dataset_id=new_id)
        return old[0]
    for node in old:
        for edge in call.world.shelf(FlowEdge).having("input_node_id", node.id):
            call.world.delete(edge)
        call.world.delete(node)
    return new[0]


HANDLERS: Handlers = {"commitEdges": commit_edges, "replaceDatasetInFlow": replace_dataset}

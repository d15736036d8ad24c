"""Whatever hangs on a flow, and however flows hang together: a package has all of it."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from monitor.sandbox.api.packages.archive import PackageKind, pack
from monitor.sandbox.api.packages.arrivals import arrivals_of
from monitor.sandbox.api.packages.exporting import export
from monitor.sandbox.api.packages.flow_reading import read_package
from monitor.sandbox.api.packages.flow_writing import packed
from monitor.sandbox.api.packages.graph import graph_of, plant
from monitor.sandbox.api.packages.importing import answer_of, bring_in, refuse_invalid
from monitor.sandbox.api.resources import RESOURCES
from monitor.sandbox.api.response.kinds import View
from monitor.sandbox.world.records.objects import (
    Connection,
    Flow,
    ImportedDataset,
    OutputObject,
    Person,
    Plan,
    PlanEdge,
    PlanNode,
    Publication,
    Recipe,
    WebhookFlowTask,
    WriteSetting,
)
from monitor.sandbox.world.records.parts import (
    DatasetNode,
    FlowEdge,
    FlowRunParameterOverride,
    ReferenceNode,
    SqlScript,
)
from monitor.sandbox.world.shelves import World
from tests.clocks import ManualClock
from tests.sandbox.packages import fingerprint, meaning

Draw = st.DataObject


def grown(data: Draw) -> tuple[World, Person, Plan]:
    """Make a world at random, in which a plan runs all of up to four flows."""
    world = World(clock=ManualClock(), seed=3)
    me = world.create(Person, by=0, email="me@example.com", name="Me")
    flows = [grow_flow(data, world, me.id, place) for place in range(data.draw(st.integers(1, 4)))]
    for flow in flows:
        for recipe in data.draw(some(list(world.recipes.live()))):
            if recipe.flow_id != flow.id:
                world.create(ReferenceNode, by=me.id, flow_id=flow.id, recipe_id=recipe.id)
    return world, me, grow_plan(data, world, me.id, flows)


def some(things: list[Recipe]) -> st.SearchStrategy[list[Recipe]]:
    return st.lists(st.sampled_from(things), max_size=3, unique_by=id) if things else st.just([])


def grow_flow(data: Draw, world: World, me: int, place: int) -> Flow:
    """Make a flow whose recipes build upon each other, and upon datasets behind connections."""
    flow = world.create(Flow, by=me, name=f"flow {place % 2}")
    datasets = [grow_dataset(data, world, me) for _ in range(data.draw(st.integers(0, 2)))]
    recipes: list[Recipe] = []
    for _ in range(data.draw(st.integers(0, 4))):
        upstream = data.draw(some(recipes))
        recipe = world.create(
            Recipe,
            by=me,
            flow_id=flow.id,
            name=data.draw(st.text(max_size=5)),
            dataset_ids=tuple(dataset.id for dataset in datasets if data.draw(st.booleans())),
            upstream_ids=tuple(item.id for item in upstream),
            primary_is_upstream=data.draw(st.booleans()),
        )
        grow_output(data, world, me, recipe)
        recipes.append(recipe)
    nodes = [world.create(DatasetNode, by=me, flow_id=flow.id, dataset_id=x.id) for x in datasets]
    for node in nodes:
        for recipe in data.draw(some(recipes)):
            link = {"input_node_id": node.id, "output_node_id": recipe.id}
            link["out_port_id"] = data.draw(st.integers(0, 2))
            world.create(FlowEdge, by=me, flow_id=flow.id, **link)
    world.create(
        WebhookFlowTask,
        by=me,
        flow_id=flow.id,
        name="tell",
        url="http://127.0.0.1:1",
        flow_node_ids=tuple(item.id for item in data.draw(some(recipes))),
        headers=data.draw(st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=2)),
    )
    value = data.draw(st.none() | st.text(max_size=3) | st.lists(st.integers(-5, 5), max_size=2))
    world.create(
        FlowRunParameterOverride, by=me, flow_id=flow.id, override_key="key", value={"v": value}
    )
    return flow


def grow_dataset(data: Draw, world: World, me: int) -> ImportedDataset:
    """Make a dataset; some resemble others, and some are behind a connection."""
    connection = grow_connection(world, me) if data.draw(st.booleans()) else None
    return world.create(
        ImportedDataset,
        by=me,
        name=data.draw(st.sampled_from(["orders", "prices"])),
        uri=data.draw(st.none() | st.just("gs://in/orders.csv")),
        connection_id=None if connection is None else connection.id,
    )


def grow_connection(world: World, me: int) -> Connection:
    uuid = world.uuid(world.connections.ids.upcoming)
    return world.create(Connection, by=me, name="lake", uuid=uuid, vendor="s3", vendor_name="S3")


def grow_output(data: Draw, world: World, me: int, recipe: Recipe) -> None:
    """Let a recipe write files, load tables and run SQL, or nothing at all."""
    for _ in range(data.draw(st.integers(0, 2))):
        output = world.create(OutputObject, by=me, recipe_id=recipe.id)
        world.create(WriteSetting, by=me, output_object_id=output.id, path="gs://out")
        connection = grow_connection(world, me)
        world.create(
            Publication,
            by=me,
            output_object_id=output.id,
            connection_id=connection.id,
            path=("public",),
            table_name="t",
            target_type="s3",
        )
        world.create(
            SqlScript, by=me, output_object_id=output.id, sql_script="x", type="pre", vendor="v"
        )


def grow_plan(data: Draw, world: World, me: int, flows: list[Flow]) -> Plan:
    """Make a plan with a node for each flow, one after the other or side by side."""
    plan = world.create(Plan, by=me, name="plan")
    nodes = [
        world.create(
            PlanNode,
            by=me,
            plan_id=plan.id,
            handle=f"n{place}",
            name=flow.name,
            task_type="flow",
            flow_id=flow.id,
            flow_node_ids=tuple(item.id for item in data.draw(some(world.recipes_of(flow.id)))),
        )
        for place, flow in enumerate(flows)
    ]
    for begin, end in itertools.pairwise(nodes):
        if data.draw(st.booleans()):
            link = {"in_plan_node_id": begin.id, "out_plan_node_id": end.id}
            world.create(PlanEdge, by=me, plan_id=plan.id, **link)
    return plan


@given(st.data())
def test_out_and_in_again_is_the_same(data: Draw) -> None:
    """A flow or a plan comes back equal but for ids, and a trial shows the result beforehand.

    A flow does so as the document that is exported, and as tables, which are still read.
    """
    world, me, plan = grown(data)
    roots: list[Flow | Plan] = [plan, *world.flows.live()]
    root = data.draw(st.sampled_from(roots))
    kind = PackageKind.PLAN if root is plan else PackageKind.FLOW
    view = View(world, me, RESOURCES)
    write = data.draw(st.sampled_from([pack, packed])) if root is not plan else pack
    out = write(export(view, root, kind=kind, comment=None))
    before = fingerprint(world)

    on_trial = View(world.scratch_copy(), me, RESOURCES)
    arrivals = arrivals_of(read_package(out, kind), on_trial)
    tried = bring_in(on_trial, arrivals, folder_id=None)
    refuse_invalid(on_trial, tried)
    assert fingerprint(world) == before

    imported = bring_in(view, arrivals, folder_id=None)
    view = View(world, me, RESOURCES)
    assert answer_of(view, imported) == answer_of(on_trial, tried)
    (new,) = imported.roots
    assert isinstance(new, Flow | Plan)
    again = write(export(view, new, kind=kind, comment=None))
    assert meaning(again) == meaning(out)


@given(st.data())
def test_a_copy_shares_nothing_that_is_a_part(data: Draw) -> None:
    """A planted graph has as many parts as the first, all of them new, and the same uses."""
    world, me, plan = grown(data)
    root = data.draw(st.sampled_from([plan, *world.flows.live()]))
    view = View(world, me, RESOURCES)
    graph = graph_of(view, root, leave_out={WebhookFlowTask})
    before = set(fingerprint(world))

    made = plant(view, graph.parts, by=me.id)

    copy = graph_of(view, made[type(root), root.id])
    assert [type(part) for part in copy.parts] == [type(part) for part in graph.parts]
    assert not {(type(part), part.id) for part in graph.parts} & {
        (type(part), part.id) for part in copy.parts
    }
    assert {item.id for item in copy.used} == {item.id for item in graph.used}
    assert not any(isinstance(part, WebhookFlowTask) for part in copy.parts)
    records = {line for line in before if "(" in line}  # the other lines show counters
    assert records <= set(fingerprint(world))

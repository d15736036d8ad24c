"""Runs of plans, and the parameters with which a plan would run."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from monitor.sandbox.api.calls import Call, Handlers, Reply
from monitor.sandbox.api.crud.handlers import found
from monitor.sandbox.api.errors import Json, not_found
from monitor.sandbox.api.plans.plans import PLAN, PLAN_NODE
from monitor.sandbox.api.request.bodies import Body
from monitor.sandbox.api.schedules.schedules import schedule
from monitor.sandbox.running.destinations import key_of
from monitor.sandbox.world.lineage import datasets_of
from monitor.sandbox.world.records.objects import (
    OutputObject,
    PlanNode,
    Publication,
    Recipe,
    WriteSetting,
)
from monitor.sandbox.world.records.parts import PlanOverride, SqlScript
from monitor.sandbox.world.records.runs import PlanSnapshotRun
from monitor.sandbox.world.shelves import World

Parameters = list[Mapping[str, Any]]


def _plan_runs(call: Call) -> Iterable[PlanSnapshotRun]:
    query = call.list_query()
    plan_ids = call.view.visible_plan_ids
    for item in call.world.plan_runs.newest():
        if item.deleted_at is not None and not query.include_deleted:
            continue
        is_own = item.creator_id == call.person.id
        if is_own or (query.run_by_all and item.plan_id in plan_ids):
            yield item


def list_plan_runs(call: Call) -> Reply:
    """List plan runs, newest first, by default the caller's own."""
    return call.list("plansnapshotruns", _plan_runs(call))


def count_plan_runs(call: Call) -> Reply:
    """Count what the list of plan runs shows."""
    return call.count("plansnapshotruns", _plan_runs(call))


def _plan_run(call: Call) -> PlanSnapshotRun:
    return call.thing(call.world.plan_runs, "planSnapshotRun")


def get_plan_run(call: Call) -> Reply:
    """Read a plan run; its plan is a snapshot."""
    return call.show("plansnapshotruns", _plan_run(call))


def cancel_plan_run(call: Call) -> Reply:
    """Cancel a plan run; one that is over stays as it is."""
    run = _plan_run(call)
    if call.body is not None:
        Body(call.body)
    call.engine.cancel_plan_run(run, by=call.person.id)
    return call.show("plansnapshotruns", run)


def get_schedule_of_run(call: Call) -> Reply:
    """Return the schedule as it was when it started the run."""
    run = _plan_run(call)
    history = None
    if run.schedule_history_id is not None:
        history = call.world.schedule_histories.get(run.schedule_history_id)
    if history is None:
        raise not_found("schedule for plan snapshot run", run.id)
    return Reply(body=schedule(call.view, history))


def plan_run_parameters(call: Call) -> Reply:
    """List the parameters of what each node of a plan runs."""
    plan = found(call, PLAN)
    nodes = call.world.nodes_of(plan.id)
    return Reply(body={"planNodeParameters": [_of_node(call, node) for node in nodes]})


def get_plan_node_run_parameters(call: Call) -> Reply:
    """List the parameters of what one node runs: of its datasets and outputs."""
    return Reply(body=_of_node(call, found(call, PLAN_NODE)))


def _of_node(call: Call, node: PlanNode) -> dict[str, Json]:
    world = call.world
    flow = None if node.flow_id is None else world.flows.get(node.flow_id)
    datasets, outputs = _rows(world, node)
    overrides = [
        call.view.table["planoverrides"].render(call.view, plan_override)
        for plan_override in world.shelf(PlanOverride).having("plan_node_id", node.id)
    ]
    return {
        "handle": node.handle,
        "displayId": [other_node.id for other_node in world.nodes_of(node.plan_id)].index(node.id)
        + 1,
        "planNodeId": node.id,
        "conflicts": _conflicts([*datasets, *outputs]),
        "flow": None if flow is None else call.view.table["flows"].render(call.view, flow),
        "datasources": {"data": datasets},
        "outputObjects": {"data": outputs},
        "planOverrides": {"data": overrides},
    }


def _rows(world: World, node: PlanNode) -> tuple[list[Json], list[Json]]:
    """Return the datasets and the outputs of what a node runs that have parameters."""
    recipes = _recipes(world, node)
    datasets = {
        dataset.id: {"id": dataset.id, "name": dataset.name, **_shown(list(dataset.run_parameters))}
        for dataset in datasets_of(world, *recipes)
        if dataset.run_parameters
    }
    outputs = [
        {"id": output.id, "name": output.name, **_shown(parameters)}
        for recipe in recipes
        for output in world.outputs_of(recipe.id)
        if (parameters := list(_of_output(world, output)))
    ]
    return list(datasets.values()), outputs


def _recipes(world: World, node: PlanNode) -> list[Recipe]:
    recipes = [] if node.flow_id is None else world.recipes_of(node.flow_id)
    return [
        recipe for recipe in recipes if not node.flow_node_ids or recipe.id in node.flow_node_ids
    ]


def _of_output(world: World, output: OutputObject) -> Iterator[Mapping[str, Any]]:
    scripts = world.shelf(SqlScript).having("output_object_id", output.id)
    settings, tables = world.write_settings_of(output.id), world.publications_of(output.id)
    for item in itertools.chain[WriteSetting | Publication | SqlScript](settings, tables, scripts):
        yield from item.run_parameters


def _shown(parameters: Parameters) -> dict[str, Json]:
    return {"runParameters": {"data": [dict(parameter) for parameter in parameters]}}


def _conflicts(rows: list[Json]) -> list[Json]:
    """Return the keys that have one value in one place and another in another."""
    values: dict[str, list[Json]] = {}
    for row in rows:
        for parameter in row["runParameters"]["data"]:
            known = values.setdefault(key_of(parameter), [])
            if parameter.get("value") not in known:
                known.append(parameter.get("value"))
    return [
        {"overrideKey": key, "values": known} for key, known in values.items() if key and known[1:]
    ]


HANDLERS: Handlers = {
    "listPlanSnapshotRuns": list_plan_runs,
    "countPlanSnapshotRuns": count_plan_runs,
    "getPlanSnapshotRun": get_plan_run,
    "cancelPlanSnapshotRun": cancel_plan_run,
    "getScheduleForPlanRun": get_schedule_of_run,
    "planRunParameters": plan_run_parameters,
    "getPlanNodeRunParameters": get_plan_node_run_parameters,
}

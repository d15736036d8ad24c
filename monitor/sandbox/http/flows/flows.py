"""Flows: listed, read and run."""

from __future__ import annotations

from collections.abc import Iterable

from monitor.sandbox.engine import NothingToRunError
from monitor.sandbox.http.calls import NOT_MODIFIED, Call, Handlers, Reply
from monitor.sandbox.http.errors import bad_field, validation_failed
from monitor.sandbox.http.reading.bodies import Body
from monitor.sandbox.http.reading.parameters import boolean, integer
from monitor.sandbox.http.runs.job_groups import run_answer
from monitor.sandbox.objects import Flow
from monitor.sandbox.runs import RanFrom


def _flows(call: Call) -> Iterable[Flow]:
    query = call.list_query()
    folder_id = integer(call.query, "folderId", 0)
    return (
        one
        for one in call.world.flows
        if (query.include_deleted or one.deleted_at is None)
        and call.view.in_scope(one, query.scope)
        and (not folder_id or one.folder_id == folder_id)
    )


def list_flows(call: Call) -> Reply:
    return call.list("flows", _flows(call))


def count_flows(call: Call) -> Reply:
    return call.count("flows", _flows(call))


def get_flow(call: Call) -> Reply:
    return call.show("flows", call.thing(call.world.flows, "flow"))


def run_flow(call: Call) -> Reply:
    """Run all recipes of a flow, or those named; tell the job groups that exist already."""
    flow = call.thing(call.world.flows, "flow")
    body = Body({} if call.body is None else call.body)
    boolean(call.query, "runAsync")
    recipe_ids = _recipe_ids(call, flow, body)
    execution = body.integer("scheduleExecutionId") if body.has("scheduleExecutionId") else None
    body.boolean("ignoreRecipeErrors")
    for name in ("runParameters", "overrides"):
        if body.has(name):
            body.object(name)
    if call.has_run_before():
        return NOT_MODIFIED
    try:
        started = call.engine.start_flow_run(
            flow,
            by=call.person.id,
            ran_from=RanFrom.API,
            recipe_ids=recipe_ids or None,
            schedule_execution_id=execution,
            request_id=call.execution_id or None,
        )
    except NothingToRunError as exc:
        raise validation_failed(f'"id" cannot be run: {exc}') from exc
    call.remember_run()
    job_groups = call.world.job_groups_of(started)
    return Reply(
        status=201,
        body={
            "flowRunId": started.id,
            "data": [run_answer(call, one) for one in job_groups],
        },
    )


def _recipe_ids(call: Call, flow: Flow, body: Body) -> tuple[int, ...]:
    known = {recipe.id for recipe in call.world.recipes_of(flow.id)}
    wanted = body.integers("wrangledDatasetIds")
    for index, recipe_id in enumerate(wanted):
        if recipe_id not in known:
            raise bad_field(f"wrangledDatasetIds[{index}]", f"names no recipe of flow {flow.id}")
    return wanted


HANDLERS: Handlers = {
    "listFlows": list_flows,
    "countFlows": count_flows,
    "getFlow": get_flow,
    "runFlow": run_flow,
}

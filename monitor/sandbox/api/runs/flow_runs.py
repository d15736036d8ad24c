"""Flow runs: started, and read by their ids."""

from __future__ import annotations

from monitor.sandbox.api.calls import NOT_MODIFIED, Call, Handlers, Reply
from monitor.sandbox.api.errors import bad_field, validation_failed
from monitor.sandbox.api.request.bodies import Body
from monitor.sandbox.api.request.parameters import boolean
from monitor.sandbox.api.runs.job_groups import run_answer
from monitor.sandbox.api.runs.overrides import flow_overrides
from monitor.sandbox.running.engine import NothingToRunError
from monitor.sandbox.world.records.objects import Flow
from monitor.sandbox.world.records.runs import FlowRun, RanFrom


def run_flow(call: Call) -> Reply:
    """Run all recipes of a flow, or those named; return the job groups that exist already."""
    flow = call.thing(call.world.flows, "flow")
    body = Body({} if call.body is None else call.body)
    boolean(call.query, "runAsync")
    recipe_ids = _recipe_ids(call, flow, body)
    execution = body.integer("scheduleExecutionId") if body.has("scheduleExecutionId") else None
    overrides = flow_overrides(call, flow, body)
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
            overrides=overrides,
        )
    except NothingToRunError as exc:
        raise validation_failed(f'"id" cannot be run: {exc}') from exc
    call.remember_run()
    job_groups = call.world.job_groups_of(started)
    return Reply(
        status=201,
        body={
            "flowRunId": started.id,
            "data": [run_answer(call, job_group) for job_group in job_groups],
        },
    )


def _recipe_ids(call: Call, flow: Flow, body: Body) -> tuple[int, ...]:
    known = {recipe.id for recipe in call.world.recipes_of(flow.id)}
    wanted = body.integers("wrangledDatasetIds")
    for index, recipe_id in enumerate(wanted):
        if recipe_id not in known:
            raise bad_field(f"wrangledDatasetIds[{index}]", f"names no recipe of flow {flow.id}")
    return wanted


def _flow_run(call: Call) -> FlowRun:
    return call.thing(call.world.flow_runs, "flowRun")


def get_flow_run(call: Call) -> Reply:
    """Read a flow run."""
    return call.show("flowruns", _flow_run(call))


def get_flow_run_status(call: Call) -> Reply:
    """Read the state of a flow run as a bare text."""
    return Reply(body=_flow_run(call).status.value)


def get_flow_run_job_groups(call: Call) -> Reply:
    """List the job groups of a flow run that have appeared so far."""
    return call.list("jobgrouprows", call.world.job_groups_of(_flow_run(call)))


HANDLERS: Handlers = {
    "runFlow": run_flow,
    "getFlowRun": get_flow_run,
    "getFlowRunStatus": get_flow_run_status,
    "getFlowRunJobGroups": get_flow_run_job_groups,
}

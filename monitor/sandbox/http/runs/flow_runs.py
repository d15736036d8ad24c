"""Runs of flows."""

from __future__ import annotations

from monitor.sandbox.http.calls import Call, Handlers, Reply
from monitor.sandbox.runs import FlowRun


def _flow_run(call: Call) -> FlowRun:
    return call.thing(call.world.flow_runs, "flowRun")


def get_flow_run(call: Call) -> Reply:
    return call.show("flowruns", _flow_run(call))


def get_flow_run_status(call: Call) -> Reply:
    return Reply(body=_flow_run(call).status.value)


def get_flow_run_job_groups(call: Call) -> Reply:
    return call.list("jobgrouprows", call.world.job_groups_of(_flow_run(call)))


HANDLERS: Handlers = {
    "getFlowRun": get_flow_run,
    "getFlowRunStatus": get_flow_run_status,
    "getFlowRunJobGroups": get_flow_run_job_groups,
}

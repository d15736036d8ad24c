"""Runs of plans."""

from __future__ import annotations

from collections.abc import Iterable

from monitor.sandbox.api.calls import Call, Handlers, Reply
from monitor.sandbox.api.errors import not_found
from monitor.sandbox.api.request.bodies import Body
from monitor.sandbox.api.schedules.schedule_shapes import schedule
from monitor.sandbox.world.records.runs import PlanSnapshotRun


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


HANDLERS: Handlers = {
    "listPlanSnapshotRuns": list_plan_runs,
    "countPlanSnapshotRuns": count_plan_runs,
    "getPlanSnapshotRun": get_plan_run,
    "cancelPlanSnapshotRun": cancel_plan_run,
    "getScheduleForPlanRun": get_schedule_of_run,
}

"""The payloads of schedules and of their definitions as they were when they started a run."""

from __future__ import annotations

from monitor.sandbox.api.errors import Json
from monitor.sandbox.api.response.kinds import Kind, Resource, View
from monitor.sandbox.api.response.rendering import NAMED, OWN, stamp, stamps
from monitor.sandbox.api.schedules.triggers import trigger_document
from monitor.sandbox.world.records.objects import (
    Flow,
    Plan,
    Schedule,
    ScheduleHistory,
    ScheduleTask,
)
from monitor.sandbox.world.shelves import WORKSPACE_ID


def schedule(view: View, schedule: Schedule | ScheduleHistory) -> dict[str, Json]:
    """Return a schedule; what it starts is expanded, as reads do."""
    documents = schedule.documents or tuple(
        trigger_document(trigger) for trigger in schedule.triggers
    )
    document: dict[str, Json] = {
        **stamps(schedule),
        "name": schedule.name,
        "triggers": [dict(document) for document in documents],
        "tasks": [_task(view, task) for task in schedule.tasks],
        "enabled": schedule.enabled,
        "createdBy": schedule.creator_id,
        "updatedBy": schedule.updater_id,
    }
    if isinstance(schedule, Schedule):
        document["disableReason"] = schedule.disable_reason
    return document


def target_of(view: View, task: ScheduleTask) -> Flow | Plan | None:
    """Return what a task starts, deleted or not."""
    if task.kind == "plan":
        return view.world.plans.get(task.target_id, with_deleted=True)
    return view.world.flows.get(task.target_id, with_deleted=True)


def target_names(view: View, schedule: Schedule) -> str:
    """Return the names of what a schedule starts, for the list's filter."""
    found = [target_of(view, task) for task in schedule.tasks]
    return " ".join(target.name for target in found if target is not None)


def _task(view: View, task: ScheduleTask) -> Json:
    kind, id_name = ("runPlan", "planId") if task.kind == "plan" else ("runFlow", "flowId")
    target = target_of(view, task)
    expanded: dict[str, Json] = {id_name: task.target_id, "id": task.target_id}
    if target is not None:
        expanded |= {
            "name": target.name,
            "deleted_at": stamp(target.deleted_at),
            "workspaceId": WORKSPACE_ID,
        }
    return {kind: expanded}


SCHEDULE_RESOURCES: dict[str, Resource] = {
    "schedules": Resource(
        plural="schedules",
        render=schedule,
        columns={**NAMED, "enabled": lambda _, record: record.enabled, "flow": target_names},
        associations=OWN,
    ),
}

SCHEDULE: Kind[Schedule] = Kind(
    record=Schedule,
    name="schedule",
    plural="schedules",
    model="ScheduleResponseWithTask",
    requests=("ScheduleCreateRequest", "ScheduleUpdateRequest"),
    resource=SCHEDULE_RESOURCES["schedules"],
    filter_fields=("flow",),
)

"""Schedules and their definitions as they were: what they show, and the operations on them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from monitor.sandbox.api.calls import NO_CONTENT, Call, Handlers, Reply
from monitor.sandbox.api.crud.handlers import Hooks, crud, minimal
from monitor.sandbox.api.errors import Json, bad_field, forbidden, shortened, validation_failed
from monitor.sandbox.api.request.bodies import Body
from monitor.sandbox.api.request.parameters import integer, words
from monitor.sandbox.api.response.kinds import Kind, Resource, View, named
from monitor.sandbox.api.response.rendering import NAMED, OWN, stamp, stamps
from monitor.sandbox.api.schedules.triggers import read_trigger, trigger_document, will_fire
from monitor.sandbox.world.records.objects import (
    Flow,
    Plan,
    Schedule,
    ScheduleHistory,
    ScheduleTask,
)
from monitor.sandbox.world.shelves import WORKSPACE_ID, Shelf

LONGEST_NAME = 255
# What the list's ``taskTypeFilter`` calls the kinds of things that can be started.
TASK_TYPES = {"runFlow": "flow", "runPlan": "plan", "flow": "flow", "plan": "plan"}


def schedule(view: View, schedule: Schedule | ScheduleHistory) -> dict[str, Json]:
    """Return a schedule; what it starts is expanded, as reads do."""
    documents = schedule.documents or tuple(
        trigger_document(trigger) for trigger in schedule.triggers
    )
    document: dict[str, Json] = {
        **stamps(schedule),
        "name": schedule.name,
        "triggers": [dict(document) for document in documents],
        "tasks": [_task_shown(view, task) for task in schedule.tasks],
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


def _task_shown(view: View, task: ScheduleTask) -> Json:
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
        associations=named(*OWN),
    ),
}

SCHEDULE: Kind[Schedule] = Kind(
    record=Schedule,
    name="schedule",
    model="ScheduleResponseWithTask",
    requests=("ScheduleCreateRequest", "ScheduleUpdateRequest"),
    resource=SCHEDULE_RESOURCES["schedules"],
    filter_fields=("flow",),
)


def _narrow(call: Call, schedules: Iterable[Schedule]) -> Iterable[Schedule]:
    """Keep those that start what the query asks for."""
    kinds = {TASK_TYPES[word] for word in words(call.query, "taskTypeFilter", tuple(TASK_TYPES))}
    asset_id = integer(call.query, "assetId", 0)
    return (
        schedule
        for schedule in schedules
        if (not kinds or any(task.kind in kinds for task in schedule.tasks))
        and (not asset_id or any(task.target_id == asset_id for task in schedule.tasks))
    )


def create_schedule(call: Call) -> Reply:
    """Make a schedule of flows and plans, which fires from now on."""
    body = Body(call.body)
    values = {
        "name": _name(body),
        **_triggers(call, body),
        "tasks": _tasks(call, body),
    }
    schedule = call.world.create(Schedule, by=call.person.id, **values)
    call.engine.schedules_changed()
    return _shown(call, schedule, status=201)


def update_schedule(call: Call) -> Reply:
    """Change the sent parts of a schedule."""
    schedule = _own(call)
    body = Body(call.body)
    values: dict[str, Any] = {}
    if body.has("name"):
        values["name"] = _name(body)
    if body.has("triggers"):
        values |= _triggers(call, body)
    if body.has("tasks"):
        values["tasks"] = _tasks(call, body)
    call.world.update(schedule, by=call.person.id, **values)
    call.engine.schedules_changed()
    return Reply(body=minimal(schedule))


def enable_schedule(call: Call) -> Reply:
    """Let a schedule fire again."""
    schedule = _own(call)
    _refuse_what_has_nothing_to_start(call, schedule)
    now = call.world.now()
    if not any(will_fire(trigger, now=now) for trigger in schedule.triggers):
        raise validation_failed(
            f"No trigger of schedule {schedule.id} will ever fire", code="TRIGGER_WILL_NEVER_FIRE"
        )
    return _switch(call, schedule, disable_reason=None)


def _refuse_what_has_nothing_to_start(call: Call, schedule: Schedule) -> None:
    for task in schedule.tasks:
        shelf: Shelf[Any] = call.world.plans if task.kind == "plan" else call.world.flows
        if shelf.get(task.target_id) is not None:
            return
    task = schedule.tasks[0]
    raise validation_failed(
        f"Schedule {schedule.id} starts {task.kind} {task.target_id}, which is no more",
        code=f"CANNOT_USE_{task.kind.upper()}_IN_SCHEDULE",
    )


def disable_schedule(call: Call) -> Reply:
    """Keep a schedule from firing."""
    schedule = _own(call)
    # What has switched it off already remains the reason.
    reason = schedule.disable_reason or f"disabled by {call.person.email}"
    return _switch(call, schedule, disable_reason=reason)


def _switch(call: Call, schedule: Schedule, *, disable_reason: str | None) -> Reply:
    """Leave the schedule off for the reason, or on without any."""
    if call.body is not None:
        Body(call.body)
    call.world.update(
        schedule,
        by=call.person.id,
        enabled=disable_reason is None,
        disable_reason=disable_reason,
    )
    call.engine.schedules_changed()
    return _shown(call, schedule)


def delete_schedule(call: Call) -> Reply:
    """Delete a schedule; it fires no more."""
    call.world.delete(_own(call))
    call.engine.schedules_changed()
    return NO_CONTENT


def _shown(call: Call, schedule: Schedule, *, status: int = 200) -> Reply:
    return Reply(status=status, body=call.show("schedules", schedule).body)


def _own(call: Call) -> Schedule:
    schedule = call.thing(call.world.schedules, "schedule")
    if schedule.creator_id != call.person.id:
        raise forbidden(f"Only its owner may change schedule {schedule.id}")
    return schedule


def _name(body: Body) -> str:
    name = body.text("name")
    if len(name) > LONGEST_NAME:
        raise validation_failed(
            f'"name" must be at most {LONGEST_NAME} characters long', code="SCHEDULE_NAME_TOO_LONG"
        )
    return name


def _triggers(call: Call, body: Body) -> dict[str, Any]:
    found = body.objects("triggers")
    documents: list[Json] = body.array("triggers")
    now = call.world.now()
    return {
        "triggers": tuple(read_trigger(object_, now=now) for object_ in found),
        "documents": tuple(documents),
    }


def _tasks(call: Call, body: Body) -> tuple[ScheduleTask, ...]:
    return tuple(_task(call, object_) for object_ in body.objects("tasks"))


def _task(call: Call, body: Body) -> ScheduleTask:
    kinds = body.names()
    if kinds not in (("runFlow",), ("runPlan",)):
        shown = shortened(", ".join(kinds)) or "nothing"
        raise bad_field(body.name_of("runFlow"), f"or runPlan is required, not {shown}")
    target: Flow | Plan | None
    if kinds == ("runFlow",):
        kind, target_id = "flow", body.object("runFlow").integer("flowId")
        target = call.world.flows.get(target_id)
    else:
        kind, target_id = "plan", body.object("runPlan").integer("planId")
        target = call.world.plans.get(target_id)
    if target is None or not call.view.may_see(target):
        raise validation_failed(
            f'"{body.name_of(kinds[0])}" names {kind} {target_id}, which cannot be scheduled',
            code=f"CANNOT_USE_{kind.upper()}_IN_SCHEDULE",
        )
    return ScheduleTask(kind=kind, target_id=target_id)


HANDLERS: Handlers = {
    **crud(SCHEDULE, Hooks(narrow=_narrow)),
    "createSchedule": create_schedule,
    "updateSchedule": update_schedule,
    "enableSchedule": enable_schedule,
    "disableSchedule": disable_schedule,
    "deleteSchedule": delete_schedule,
}

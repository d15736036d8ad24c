"""Answers hold what the public models promise: fields, types and words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest

from monitor.catalogue.operations import operation
from monitor.sandbox.http.showing.models import models
from monitor.sandbox.objects import WebhookFlowTask
from monitor.sandbox.runs import NativeStatus
from tests.sandbox.http_workspace import Workspace, open_workspace

TYPES: dict[str, tuple[type, ...]] = {
    "str": (str,),
    "int": (int,),
    "float": (int, float),
    "bool": (bool,),
    "int|str": (int, str),
    "list": (list,),
}
# The model says object; the page of facts, which decides, says a list.
LISTS = {"ScheduleResponseWithTask.triggers"}


def faults(value: Any, model: str, where: str) -> Iterator[str]:
    """Yield what is wrong with an answer, by the model that it should have."""
    fields = models().get(model)
    if fields is None:
        return
    if "" in fields:
        if value not in fields[""].enum:
            yield f"{where}: {value!r} is no {model}"
        return
    if not isinstance(value, dict):
        yield f"{where}: {value!r} is no object"
        return
    for name, field in fields.items():
        at = f"{where}.{name}"
        if name not in value or value[name] is None:
            if field.required:
                yield f"{at} is missing"
            continue
        if field.enum and value[name] not in field.enum:
            yield f"{at}: {value[name]!r} is none of {field.enum}"
        if f"{model}.{name}" not in LISTS:
            yield from type_faults(value[name], field.type, at)


def type_faults(value: Any, kind: str, where: str) -> Iterator[str]:
    if found := re.fullmatch(r"list\[(.+)\]", kind):
        if not isinstance(value, list):
            yield f"{where}: {value!r} is no list"
            return
        for index, one in enumerate(value):
            yield from type_faults(one, found.group(1), f"{where}[{index}]")
    elif kind == "datetime":
        if not re.fullmatch(r".{19}\.000Z", value) or not datetime.fromisoformat(value):
            yield f"{where}: {value!r} is no date"
    elif kind in TYPES:
        if not isinstance(value, TYPES[kind]):
            yield f"{where}: {value!r} is no {kind}"
    elif kind != "object":
        yield from faults(value, kind, where)


async def living(workspace: Workspace) -> dict[str, int]:
    """Fill the world with one of each; return the ids by which operations are asked."""
    owner, things = workspace.things.owner, workspace.things
    job_group = workspace.job_group(status=NativeStatus.COMPLETE, profiling=True)
    flow_run = workspace.engine.start_flow_run(things.orders, by=owner.id)
    plan_run = workspace.engine.start_plan_run(things.nightly, by=owner.id)
    task = workspace.world.create(
        WebhookFlowTask, by=owner.id, flow_id=things.orders.id, name="n", url="http://x.example"
    )
    trigger = {"timeBased": {"hourly": {"minuteOfHour": 5}, "timezone": "UTC"}}
    schedule = await workspace.post(
        "/v4/schedules",
        {
            "name": "hourly",
            "triggers": [trigger],
            "tasks": [{"runPlan": {"planId": things.nightly.id}}],
        },
    )
    return {
        "/v4/jobGroups/": job_group.id,
        "/v4/jobs/": job_group.job_ids[0],
        "/v4/flows/": things.orders.id,
        "/v4/flowRuns/": flow_run.id,
        "/v4/plans/": things.nightly.id,
        "/v4/planSnapshotRuns/": plan_run.id,
        "/v4/schedules/": schedule.body["id"],
        "/v4/webhookFlowTasks/": task.id,
    }


ASKED = [
    *("listFlows", "countFlows", "getFlow", "runFlow"),
    *("getFlowRun", "getFlowRunStatus", "getFlowRunJobGroups", "getJobStatus"),
    *("listJobGroups", "listJobLibrary", "countJobLibrary", "getJobGroup", "getJobGroupStatus"),
    *("getJobsForJobGroup", "getJobGroupInputs", "getJobGroupOutputs"),
    *("getPublicationsForJobGroup", "cancelJobGroup", "getCurrentPerson"),
    *("listPlans", "countPlans", "readFull", "runPlan", "getSchedulesForPlan"),
    *("listPlanSnapshotRuns", "countPlanSnapshotRuns", "getPlanSnapshotRun"),
    *("cancelPlanSnapshotRun", "listSchedules", "countSchedules", "getSchedule"),
    *("enableSchedule", "disableSchedule", "updateSchedule"),
    *("getWebhookFlowTask", "deleteWebhookFlowTask"),
]


@pytest.mark.parametrize("operation_id", ASKED)
async def test_an_answer_fits_its_model(operation_id: str) -> None:
    """The answer of an operation has the required fields, types and words of its model."""
    one = operation(operation_id)
    assert one.response is not None
    async with open_workspace() as workspace:
        ids = await living(workspace)
        path_values = [ids[one.path.split(":", maxsplit=1)[0]]] if one.parameters else []
        answer = await workspace.ask(
            one.method, one.fill(*path_values), body=None if one.method == "GET" else {}
        )

    assert answer.status < 300, answer.content
    assert list(faults(answer.body, one.response, operation_id)) == []
    if one.response.endswith("List"):
        assert answer.body["data"]


async def test_what_starts_and_is_made_fits_its_model() -> None:
    """The answers to a run and to a new webhook task fit their models too."""
    async with open_workspace() as workspace:
        recipe_id = workspace.things.clean.id
        run = await workspace.post("/v4/jobGroups", {"wrangledDataset": {"id": recipe_id}})
        task = await workspace.post(
            "/v4/webhookFlowTasks",
            {
                "name": "n",
                "flowId": workspace.things.orders.id,
                "url": "http://x.example",
                "method": "post",
                "triggerEvent": "onJobDone",
                "triggerObject": "any",
            },
        )

    assert list(faults(run.body, "RunJobResult", "runJobGroup")) == []
    assert list(faults(task.body, "WebhookFlowTask", "createWebhookFlowTask")) == []

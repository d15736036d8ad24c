"""Runs of recipes and flows: started, with what one does otherwise, listed, read and canceled."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from monitor.sandbox.api.calls import NOT_MODIFIED, Call, Handlers, Reply, all_of
from monitor.sandbox.api.errors import Json, bad_field, not_found, validation_failed
from monitor.sandbox.api.outputs.output_objects import WRITE_SETTING, nested_values
from monitor.sandbox.api.people.people import person
from monitor.sandbox.api.request.bodies import Body, check_part, instant
from monitor.sandbox.api.request.listing import RAN_FROM
from monitor.sandbox.api.request.parameters import boolean, integer
from monitor.sandbox.api.response.rendering import creator_of
from monitor.sandbox.api.runs.job_shapes import job
from monitor.sandbox.running.destinations import FlowOverrides, RunOverrides
from monitor.sandbox.running.engine import NothingToRunError
from monitor.sandbox.world.records.objects import Flow, Recipe
from monitor.sandbox.world.records.runs import FlowRun, JobGroup, RanFrom

MODEL = "RunJobOverrides"
LONGEST_ENGINE = 50
# Published examples write the first, everything else in the API is written like the second.
SPELLINGS = ("writesettings", "writeSettings")
# What the job library's filter matches; the operation has no filterFields.
LIBRARY_FILTER = ("id", "recipe", "flow", "creator", "flowRun")


def recipe_overrides(call: Call, body: Body) -> RunOverrides:
    """Return what a request to run one recipe says otherwise.

    Raises:
        ApiError: 400, naming the field that cannot be.
    """
    overrides = body.raw("overrides") if body.has("overrides") else {}
    return _of_recipe(call, overrides, body, path="overrides")


def flow_overrides(call: Call, flow: Flow, body: Body) -> FlowOverrides:
    """Return what a request to run a flow says otherwise, for all recipes and by their names.

    Raises:
        ApiError: 400, naming the field that cannot be, or a name that no recipe has.
    """
    known = {recipe.name for recipe in call.world.recipes_of(flow.id)}
    by_name: dict[str, RunOverrides] = {}
    for name, overrides in (body.raw("overrides") if body.has("overrides") else {}).items():
        if name not in known:
            raise bad_field(f"overrides.{name}", f"names no recipe of flow {flow.id}")
        by_name[name] = _of_recipe(call, overrides, Body({}), path=f"overrides.{name}")
    return FlowOverrides(
        everywhere=RunOverrides(
            execution=body.text("execution") if body.has("execution") else None,
            parameters=parameters(body),
            reference_date=_reference_date(body),
        ),
        by_recipe_name=by_name,
    )


def parameters(body: Body) -> dict[str, Any]:
    """Return the values that ``runParameters`` gives, by override key.

    They stand there as rows of ``key`` and ``value``, or as one object.

    Raises:
        ApiError: 400, naming the row that cannot be.
    """
    overrides = _object(_object(body, "runParameters"), "overrides")
    if not overrides.has("data"):
        return {name: overrides.raw(name) for name in overrides.names() if overrides.has(name)}
    rows = overrides.objects("data") if overrides.array("data") else []
    return {row.text("key"): row.raw("value") for row in rows}


def _reference_date(body: Body) -> datetime | None:
    run_parameters = _object(body, "runParameters")
    if not run_parameters.has("referenceDate"):
        return None
    return instant(run_parameters.text("referenceDate"))


def _object(body: Body, field: str) -> Body:
    return body.object(field) if body.has(field) else Body({})


def _of_recipe(call: Call, overrides: Json, body: Body, *, path: str) -> RunOverrides:
    sent = Body(check_part(MODEL, overrides, path=path), path=path)
    execution = sent.text("execution", longest=LONGEST_ENGINE) if sent.has("execution") else None
    return RunOverrides(
        execution=execution,
        profiler=sent.boolean("profiler") if sent.has("profiler") else None,
        write_settings=_write_settings(call, sent),
        parameters=parameters(body),
        reference_date=_reference_date(body),
    )


def _write_settings(call: Call, overrides: Body) -> tuple[Mapping[str, Any], ...] | None:
    for name in SPELLINGS:
        if overrides.has(name):
            return tuple(
                nested_values(call, WRITE_SETTING, item, path=f"{overrides.name_of(name)}[{place}]")
                for place, item in enumerate(overrides.array(name))
            )
    return None


def run_job_group(call: Call) -> Reply:
    """Start one recipe, or with ``testMode`` only say which it would be."""
    body = Body(call.body)
    recipe = _recipe(call, body)
    overrides = recipe_overrides(call, body)
    ran_from = body.text("ranfrom", one_of=RAN_FROM) if body.has("ranfrom") else RanFrom.API
    profiling = overrides.profiler
    if call.has_run_before():
        return NOT_MODIFIED
    if body.boolean("testMode"):
        return Reply(status=201, body=_test_answer(call, recipe))
    started = call.engine.start_job_group(
        recipe,
        by=call.person.id,
        ran_from=RanFrom(ran_from),
        profiling=_is_profiled(call, recipe) if profiling is None else profiling,
        overrides=overrides,
    )
    call.remember_run()
    return Reply(status=201, body=run_answer(call, started))


def _recipe(call: Call, body: Body) -> Recipe:
    wrangled = body.object("wrangledDataset")
    recipe = call.world.recipes.get(wrangled.integer("id"))
    flow = None if recipe is None else call.world.flows.get(recipe.flow_id)
    if recipe is None or flow is None or not call.view.may_see(flow):
        raise bad_field("wrangledDataset.id", "names no recipe of this workspace")
    return recipe


def _is_profiled(call: Call, recipe: Recipe) -> bool:
    return any(output.profiler for output in call.world.outputs_of(recipe.id))


def _test_answer(call: Call, recipe: Recipe) -> Json:
    session_id = call.world.uuid("test mode", recipe.id)
    return {"datasetId": recipe.id, "datasetName": recipe.name, "sessionId": session_id}


def run_answer(call: Call, started: JobGroup) -> dict[str, Json]:
    """Return what starting a job group answers: its jobs, which run one after the other."""
    ids = [job.id for job in call.world.jobs_of(started)]
    answer: dict[str, Json] = {
        "id": started.id,
        "reason": "JobStarted",
        "sessionId": started.session_id,
        "jobs": {"data": [{"id": job_id} for job_id in ids]},
        "jobGraph": {
            "vertices": ids,
            "edges": [
                {"source": source, "target": target} for source, target in itertools.pairwise(ids)
            ],
        },
    }
    if started.flow_run_id is not None:
        answer["flowRun"] = {"id": started.flow_run_id}
    return answer


def list_job_groups(call: Call) -> Reply:
    """List the job groups that the caller sees, of one recipe by ``flowNodeId``."""
    rows = _visible(call)
    node_id = integer(call.query, "flowNodeId", 0)
    if node_id:
        rows = (row for row in rows if row.recipe_id == node_id)
    return call.list("jobgrouprows", rows)


def list_job_library(call: Call) -> Reply:
    """Return rows that carry their creator's whole record, unlike those of other lists."""
    return call.list(
        "joblibraryrows",
        _library(call),
        filter_fields=LIBRARY_FILTER,
        extra=lambda character: _creator(call, character),
    )


def _creator(call: Call, job_group: JobGroup) -> dict[str, Json]:
    found = creator_of(call.view, job_group)
    return {} if found is None else {"creator": person(call.view, found)}


def count_job_library(call: Call) -> Reply:
    """Count what the job library shows."""
    return call.count("joblibraryrows", _library(call), filter_fields=LIBRARY_FILTER)


def _visible(call: Call) -> Iterable[JobGroup]:
    with_deleted = call.list_query().include_deleted
    flow_ids = call.view.visible_flow_ids
    return (
        item
        for item in call.world.job_groups.newest()
        if (with_deleted or item.deleted_at is None)
        and (item.creator_id == call.person.id or item.flow_id in flow_ids)
    )


def _library(call: Call) -> Iterable[JobGroup]:
    if call.list_query().run_by_all:
        return _visible(call)
    return (item for item in _visible(call) if item.creator_id == call.person.id)


def get_job_group(call: Call) -> Reply:
    """Read a job group."""
    return call.show("jobgroups", call.thing(call.world.job_groups, "jobGroup"))


def get_job_group_status(call: Call) -> Reply:
    """Read the state of a job group, as a bare text."""
    return Reply(body=call.thing(call.world.job_groups, "jobGroup").status.value)


def get_jobs(call: Call) -> Reply:
    """List the jobs of a job group in the order of work."""
    job_group = call.thing(call.world.job_groups, "jobGroup")
    return all_of([job(call.view, other_job) for other_job in call.world.jobs_of(job_group)])


def get_job_status(call: Call) -> Reply:
    """Read the state of one job, as a bare text."""
    found = call.thing(call.world.jobs, "job")
    if call.world.job_groups.get(found.job_group_id) is None:
        raise not_found("job", found.id)
    return Reply(body=found.status.value)


def cancel_job_group(call: Call) -> Reply:
    """Cancel what is not over; a job group that is over stays as it is."""
    job_group = call.thing(call.world.job_groups, "jobGroup")
    if call.body is not None:
        Body(call.body)
    job_ids = call.engine.cancel_job_group(job_group, by=call.person.id)
    return Reply(body={"jobIds": job_ids, "jobgroupId": job_group.id})


def run_flow(call: Call) -> Reply:
    """Run all recipes of a flow, or those named; return the job groups that exist already."""
    return start_flow(call, call.thing(call.world.flows, "flow"))


def start_flow(call: Call, flow: Flow) -> Reply:
    """Start a flow as a request says.

    Raises:
        ApiError: 400, naming what cannot be run, or not so.
    """
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
    "runJobGroup": run_job_group,
    "listJobGroups": list_job_groups,
    "listJobLibrary": list_job_library,
    "countJobLibrary": count_job_library,
    "getJobGroup": get_job_group,
    "getJobGroupStatus": get_job_group_status,
    "getJobsForJobGroup": get_jobs,
    "getJobStatus": get_job_status,
    "cancelJobGroup": cancel_job_group,
    "runFlow": run_flow,
    "getFlowRun": get_flow_run,
    "getFlowRunStatus": get_flow_run_status,
    "getFlowRunJobGroups": get_flow_run_job_groups,
}

"""The payloads of what runs: job groups, flow runs and plan runs; jobs are in `job_shapes`."""

from __future__ import annotations

from dataclasses import replace

from monitor.sandbox.api.errors import Json
from monitor.sandbox.api.people.people import dataflow_options_of
from monitor.sandbox.api.response.kinds import Association, Resource, View, named
from monitor.sandbox.api.response.rendering import (
    CREATOR,
    STAMPS,
    UPDATER,
    columns,
    kept,
    reference,
    stamp,
)
from monitor.sandbox.world.records.objects import Recipe, Record
from monitor.sandbox.world.records.runs import FlowRun, JobGroup, PlanSnapshotRun
from monitor.sandbox.world.shelves import WORKSPACE_ID


def recipe_of(view: View, job_group: JobGroup) -> Recipe | None:
    return view.world.recipes.get(job_group.recipe_id, with_deleted=True)


def _recipe_name(view: View, job_group: JobGroup) -> str | None:
    recipe = recipe_of(view, job_group)
    return None if recipe is None else recipe.name


def flow_name(view: View, flow_id: int) -> str | None:
    flow = view.world.flows.get(flow_id, with_deleted=True)
    return None if flow is None else flow.name


def _creator_name(view: View, record: Record) -> str | None:
    person = view.world.people.get(record.creator_id, with_deleted=True)
    return None if person is None else person.name


def job_group(view: View, job_group: JobGroup) -> dict[str, Json]:
    """Return the object as GET /v4/jobGroups/:id answers it."""
    del view
    return {
        **kept(job_group, "id", "name", "description", "status", "profilingEnabled"),
        **kept(job_group, "createdAt", "updatedAt"),
        "ranfrom": job_group.ran_from.value,
        "ranfor": job_group.ran_for.value,
        "runParameterReferenceDate": stamp(job_group.reference_date or job_group.created_at),
        "workspace": reference(WORKSPACE_ID),
        "creator": reference(job_group.creator_id),
        "updater": reference(job_group.updater_id),
        "snapshot": reference(job_group.snapshot_id),
        "wrangledDataset": reference(job_group.recipe_id),
        "flowrun": reference(job_group.flow_run_id),  # as the published description spells it
        "flowRun": reference(job_group.flow_run_id),
        "workloadError": None,
    }


def job_group_row(view: View, other_job_group: JobGroup) -> dict[str, Json]:
    """Return a row of a list: the recipe comes with its flow, unasked."""
    document = job_group(view, other_job_group)
    document["wrangledDataset"] = {
        "id": other_job_group.recipe_id,
        "flow": {"id": other_job_group.flow_id, "name": flow_name(view, other_job_group.flow_id)},
    }
    return document


def job_library_row(view: View, other_job_group: JobGroup) -> dict[str, Json]:
    """Return a row of the job library; a bare one shows neither flow nor flow run."""
    if view.world.options.library_rows != "bare":
        return job_group_row(view, other_job_group)
    document = job_group(view, other_job_group)
    del document["flowRun"], document["flowrun"]
    return document


def flow_run(view: View, flow_run: FlowRun) -> dict[str, Json]:
    """Return the object, which has neither status nor name nor end."""
    del view
    return {
        **kept(flow_run, "id", "createdAt", "updatedAt", "scheduleExecutionId", "requestId"),
        "flow": reference(flow_run.flow_id),
    }


def plan_run(view: View, plan_snapshot_run: PlanSnapshotRun) -> dict[str, Json]:
    return {
        **kept(plan_snapshot_run, "id", "status", "createdAt", "submittedAt", "startedAt"),
        **kept(plan_snapshot_run, "finishedAt", "updatedAt", "scheduleHistoryId"),
        **kept(plan_snapshot_run, "failedToCancelSomeJobs"),
        "plan": reference(view.world.plan_id_shown(plan_snapshot_run)),
        "nextRun": reference(plan_snapshot_run.next_run_id),
        "previousRun": reference(plan_snapshot_run.previous_run_id),
    }


def _plan_shown(view: View, plan_snapshot_run: PlanSnapshotRun) -> Record | None:
    if view.world.options.plan_runs_name_plans:
        return view.world.plans.get(plan_snapshot_run.plan_id, with_deleted=True)
    return view.world.plan_snapshots.get(plan_snapshot_run.snapshot_id, with_deleted=True)


def _flow_run_of(view: View, job_group: JobGroup) -> FlowRun | None:
    return (
        None if job_group.flow_run_id is None else view.world.flow_runs.get(job_group.flow_run_id)
    )


def _plan_run_beside(view: View, run_id: int | None) -> PlanSnapshotRun | None:
    return None if run_id is None else view.world.plan_runs.get(run_id)


JOB_GROUP_COLUMNS = {
    **STAMPS,
    **columns("name", "status", "profilingEnabled"),
    "ranfrom": lambda _, record: record.ran_from.value,
    "ranfor": lambda _, record: record.ran_for.value,
    "recipe": _recipe_name,
    "flow": lambda view, record: flow_name(view, record.flow_id),
    "creator": _creator_name,
    "flowRun": lambda _, record: record.flow_run_id,
}

JOB_GROUPS = Resource(
    plural="jobgroups",
    render=job_group,
    columns=JOB_GROUP_COLUMNS,
    associations=named(
        CREATOR,
        UPDATER,
        Association("wrangledDataset", recipe_of, target="wrangleddatasets"),
        Association("flowRun", _flow_run_of, target="flowruns", other_key="flowrun"),
        Association("jobs", lambda view, record: view.world.jobs_of(record), many=True),
        Association(
            "jobGroupDataflowOptions",
            lambda view, record: dataflow_options_of(view, record.creator_id),
            target="dataflowoptions",
            many=True,
        ),
    ),
    extra_fields=frozenset({"flowRun", "flowrun"}),
)

RUN_RESOURCES: dict[str, Resource] = {
    "dataflowoptions": Resource(
        plural="dataflowoptions",
        render=lambda _, record: {"key": record[0], "value": record[1]},
        columns={"key": lambda _, record: record[0]},
    ),
    "jobgroups": JOB_GROUPS,
    "jobgrouprows": replace(JOB_GROUPS, render=job_group_row),
    "joblibraryrows": replace(JOB_GROUPS, render=job_library_row),
    "flowruns": Resource(
        plural="flowruns",
        render=flow_run,
        columns=STAMPS,
        associations=named(
            CREATOR,
            Association(
                "flow",
                lambda view, record: view.world.flows.get(record.flow_id, with_deleted=True),
                target="flows",
            ),
            Association(
                "jobGroups", lambda view, record: view.world.job_groups_of(record), many=True
            ),
        ),
    ),
    "plansnapshotruns": Resource(
        plural="plansnapshotruns",
        render=plan_run,
        columns={
            **STAMPS,
            **columns("status", "submittedAt", "startedAt", "finishedAt"),
            "ranfrom": lambda _, record: record.ran_from.value,
            "name": lambda view, record: getattr(_plan_shown(view, record), "name", None),
        },
        associations=named(
            CREATOR,
            Association("plan", _plan_shown, target="plans"),
            Association(
                "nextRun",
                lambda view, record: _plan_run_beside(view, record.next_run_id),
                target="plansnapshotruns",
            ),
            Association(
                "previousRun",
                lambda view, record: _plan_run_beside(view, record.previous_run_id),
                target="plansnapshotruns",
            ),
        ),
    ),
}

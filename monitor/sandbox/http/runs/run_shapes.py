"""The payloads of what runs: job groups, flow runs and plan runs; jobs are in `job_shapes`."""

from __future__ import annotations

from dataclasses import replace

from monitor.sandbox.http.errors import Json
from monitor.sandbox.http.kinds.shapes import CREATOR, STAMPS, UPDATER
from monitor.sandbox.http.people.person_shapes import dataflow_options_of
from monitor.sandbox.http.showing.rendering import Association, Resource, View, reference, stamp
from monitor.sandbox.records.objects import Recipe, Record
from monitor.sandbox.records.runs import FlowRun, JobGroup, PlanSnapshotRun
from monitor.sandbox.world import WORKSPACE_ID


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


def job_group(view: View, one: JobGroup) -> dict[str, Json]:
    """Return the object as GET /v4/jobGroups/:id answers it."""
    del view
    return {
        "id": one.id,
        "name": one.name,
        "description": one.description,
        "ranfrom": one.ran_from.value,
        "ranfor": one.ran_for.value,
        "status": one.status.value,
        "profilingEnabled": one.profiling_enabled,
        "runParameterReferenceDate": stamp(one.reference_date or one.created_at),
        "createdAt": stamp(one.created_at),
        "updatedAt": stamp(one.updated_at),
        "workspace": reference(WORKSPACE_ID),
        "creator": reference(one.creator_id),
        "updater": reference(one.updater_id),
        "snapshot": reference(one.snapshot_id),
        "wrangledDataset": reference(one.recipe_id),
        "flowrun": reference(one.flow_run_id),  # as the published description spells it
        "flowRun": reference(one.flow_run_id),
        "workloadError": None,
    }


def job_group_row(view: View, one: JobGroup) -> dict[str, Json]:
    """Return a row of a list: the recipe comes with its flow, unasked."""
    document = job_group(view, one)
    document["wrangledDataset"] = {
        "id": one.recipe_id,
        "flow": {"id": one.flow_id, "name": flow_name(view, one.flow_id)},
    }
    return document


def job_library_row(view: View, one: JobGroup) -> dict[str, Json]:
    """Return a row of the job library; a bare one shows neither flow nor flow run."""
    if view.world.options.library_rows != "bare":
        return job_group_row(view, one)
    document = job_group(view, one)
    del document["flowRun"], document["flowrun"]
    return document


def flow_run(view: View, one: FlowRun) -> dict[str, Json]:
    """Return the object, which has neither status nor name nor end."""
    del view
    return {
        "id": one.id,
        "createdAt": stamp(one.created_at),
        "updatedAt": stamp(one.updated_at),
        "scheduleExecutionId": one.schedule_execution_id,
        "requestId": one.request_id,
        "flow": reference(one.flow_id),
    }


def plan_run(view: View, one: PlanSnapshotRun) -> dict[str, Json]:
    return {
        "id": one.id,
        "status": one.status.value,
        "createdAt": stamp(one.created_at),
        "submittedAt": stamp(one.submitted_at),
        "startedAt": stamp(one.started_at),
        "finishedAt": stamp(one.finished_at),
        "updatedAt": stamp(one.updated_at),
        "scheduleHistoryId": one.schedule_history_id,
        "failedToCancelSomeJobs": one.failed_to_cancel_some_jobs,
        "plan": reference(view.world.plan_id_shown(one)),
        "nextRun": reference(one.next_run_id),
        "previousRun": reference(one.previous_run_id),
    }


def _plan_shown(view: View, one: PlanSnapshotRun) -> Record | None:
    if view.world.options.plan_runs_name_plans:
        return view.world.plans.get(one.plan_id, with_deleted=True)
    return view.world.plan_snapshots.get(one.snapshot_id, with_deleted=True)


def _flow_run_of(view: View, one: JobGroup) -> FlowRun | None:
    return None if one.flow_run_id is None else view.world.flow_runs.get(one.flow_run_id)


def _plan_run_beside(view: View, run_id: int | None) -> PlanSnapshotRun | None:
    return None if run_id is None else view.world.plan_runs.get(run_id)


JOB_GROUP_COLUMNS = {
    **STAMPS,
    "name": lambda _, one: one.name,
    "status": lambda _, one: one.status.value,
    "ranfrom": lambda _, one: one.ran_from.value,
    "ranfor": lambda _, one: one.ran_for.value,
    "profilingEnabled": lambda _, one: one.profiling_enabled,
    "recipe": _recipe_name,
    "flow": lambda view, one: flow_name(view, one.flow_id),
    "creator": _creator_name,
    "flowRun": lambda _, one: one.flow_run_id,
}

JOB_GROUPS = Resource(
    plural="jobgroups",
    render=job_group,
    columns=JOB_GROUP_COLUMNS,
    associations={
        "creator": CREATOR,
        "updater": UPDATER,
        "wrangleddataset": Association(
            key="wrangledDataset", target="wrangleddatasets", find=recipe_of
        ),
        "flowrun": Association(
            key="flowRun", target="flowruns", find=_flow_run_of, other_key="flowrun"
        ),
        "jobs": Association(
            key="jobs", target="jobs", find=lambda view, one: view.world.jobs_of(one), many=True
        ),
        "jobgroupdataflowoptions": Association(
            key="jobGroupDataflowOptions",
            target="dataflowoptions",
            find=lambda view, one: dataflow_options_of(view, one.creator_id),
            many=True,
        ),
    },
    extra_fields=frozenset({"flowRun", "flowrun"}),
)

RUN_RESOURCES: dict[str, Resource] = {
    "dataflowoptions": Resource(
        plural="dataflowoptions",
        render=lambda _, one: {"key": one[0], "value": one[1]},
        columns={"key": lambda _, one: one[0]},
    ),
    "jobgroups": JOB_GROUPS,
    "jobgrouprows": replace(JOB_GROUPS, render=job_group_row),
    "joblibraryrows": replace(JOB_GROUPS, render=job_library_row),
    "flowruns": Resource(
        plural="flowruns",
        render=flow_run,
        columns=STAMPS,
        associations={
            "creator": CREATOR,
            "flow": Association(
                key="flow",
                target="flows",
                find=lambda view, one: view.world.flows.get(one.flow_id, with_deleted=True),
            ),
            "jobgroups": Association(
                key="jobGroups",
                target="jobgroups",
                find=lambda view, one: view.world.job_groups_of(one),
                many=True,
            ),
        },
    ),
    "plansnapshotruns": Resource(
        plural="plansnapshotruns",
        render=plan_run,
        columns={
            **STAMPS,
            "status": lambda _, one: one.status.value,
            "ranfrom": lambda _, one: one.ran_from.value,
            "name": lambda view, one: getattr(_plan_shown(view, one), "name", None),
            "submittedAt": lambda _, one: one.submitted_at,
            "startedAt": lambda _, one: one.started_at,
            "finishedAt": lambda _, one: one.finished_at,
        },
        associations={
            "creator": CREATOR,
            "plan": Association(key="plan", target="plans", find=_plan_shown),
            "nextrun": Association(
                key="nextRun",
                target="plansnapshotruns",
                find=lambda view, one: _plan_run_beside(view, one.next_run_id),
            ),
            "previousrun": Association(
                key="previousRun",
                target="plansnapshotruns",
                find=lambda view, one: _plan_run_beside(view, one.previous_run_id),
            ),
        },
    ),
}

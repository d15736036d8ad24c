"""The kinds of rows: how each is made of what was read."""

from __future__ import annotations

from msgspec import UnsetType

from monitor.model.runs import Pipeline, PipelineKind
from monitor.model.secrets import Secret
from monitor.workspace import wire
from monitor.workspace.decoding import (
    RowKind,
    error_text,
    instant,
    readable,
    text_of,
    text_or_none,
    unwrap,
)
from monitor.workspace.payloads import (
    AccessTokenRow,
    FlowRow,
    FlowRunRow,
    FolderRow,
    JobGroupJobs,
    JobGroupRow,
    JobRow,
    PersonRow,
    PlanChild,
    PlanFull,
    PlanRow,
    PlanRunRow,
    RecipeRow,
    ScheduleRow,
    WebhookTaskRow,
    WebhookTest,
)
from monitor.workspace.trigger_parsing import TRIGGER


def _ref_id(ref: wire.Ref | None) -> str | None:
    return None if ref is None else text_or_none(ref.id)


def _owner_id(creator: wire.Creator | None) -> str | None:
    return None if creator is None else text_or_none(creator.id)


def _owner(creator: wire.Creator | None) -> str | None:
    return None if creator is None else creator.email or creator.name


def _flow_run(row: wire.JobGroup) -> tuple[bool, str | None]:
    """Return whether the row has a field for its flow run, and which one it names."""
    both = (row.flow_run, row.flow_run_lower)
    values = [value for value in both if not isinstance(value, UnsetType)]
    for value in values:
        flow_run_id = _ref_id(value) if isinstance(value, wire.Ref) else text_or_none(value)
        if flow_run_id is not None:
            return True, flow_run_id
    return None in values, None


def _job_group(row: wire.JobGroup) -> JobGroupRow:
    recipe = row.wrangled_dataset or wire.WrangledDataset()
    flow = recipe.flow or wire.Ref()
    shows_flow_run, flow_run_id = _flow_run(row)
    return JobGroupRow(
        id=text_of(row.id),
        native_status=row.status,
        name=row.name,
        created_at=instant(row.created_at),
        updated_at=instant(row.updated_at),
        ran_from=row.ranfrom,
        ran_for=row.ranfor,
        shows_flow_run=shows_flow_run,
        flow_run_id=flow_run_id,
        recipe_id=text_or_none(recipe.id),
        recipe_name=_recipe_name(recipe),
        flow_id=text_or_none(flow.id),
        flow_name=flow.name,
        owner_id=_owner_id(row.creator),
        owner=_owner(row.creator),
        error=error_text(row.workload_error),
    )


def _recipe(row: wire.WrangledDatasetRow) -> RecipeRow:
    return RecipeRow(id=text_of(row.id), name=_recipe_name(row))


def _recipe_name(row: wire.WrangledDataset | wire.WrangledDatasetRow) -> str | None:
    return (row.recipe.name if row.recipe else None) or row.name


def _job(row: wire.Job) -> JobRow:
    return JobRow(
        id=text_of(row.id),
        native_status=row.status,
        job_type=row.job_type,
        job_group_id=_ref_id(row.job_group),
        percent_complete=row.percent_complete,
        heartbeat_at=instant(row.last_heartbeat_at),
        created_at=instant(row.created_at),
        updated_at=instant(row.updated_at),
        started_at=instant(row.started_at),
        finished_at=instant(row.finished_at),
        error=error_text(row.error_message),
    )


def _job_group_jobs(row: wire.JobGroupWithJobs) -> JobGroupJobs:
    return JobGroupJobs(id=text_of(row.id), jobs=readable(row.jobs, JOB))


def _flow_run_row(row: wire.FlowRun) -> FlowRunRow:
    return FlowRunRow(
        id=text_of(row.id),
        created_at=instant(row.created_at),
        updated_at=instant(row.updated_at),
        flow_id=_ref_id(row.flow),
        flow_name=row.flow.name if row.flow else None,
        schedule_execution_id=text_or_none(row.schedule_execution_id),
    )


def _plan_run(row: wire.PlanRun) -> PlanRunRow:
    return PlanRunRow(
        id=text_of(row.id),
        native_status=row.status,
        created_at=instant(row.created_at),
        submitted_at=instant(row.submitted_at),
        started_at=instant(row.started_at),
        finished_at=instant(row.finished_at),
        updated_at=instant(row.updated_at),
        plan_id=_ref_id(row.plan),
        plan_name=row.plan.name if row.plan else None,
        schedule_history_id=text_or_none(row.schedule_history_id),
        owner_id=_owner_id(row.creator),
        owner=_owner(row.creator),
    )


def _original_plan_id(row: wire.Plan) -> str | None:
    return text_or_none(row.original_plan_id) or _ref_id(row.original_plan)


def _is_snapshot(row: wire.Plan) -> bool:
    """True for a plan's snapshot; a plan of its own may also name one that it was made of."""
    if row.snapshotted is None:
        return _original_plan_id(row) is not None
    return row.snapshotted


def _plan(row: wire.Plan) -> PlanRow:
    latest = row.latest_plan_snapshot_run or wire.LatestRun()
    return PlanRow(
        id=text_of(row.id),
        name=row.name,
        created_at=instant(row.created_at),
        updated_at=instant(row.updated_at),
        is_snapshot=_is_snapshot(row),
        original_plan_id=_original_plan_id(row),
        latest_snapshot_id=_ref_id(row.latest_plan_snapshot),
        latest_run_id=text_or_none(latest.id),
        latest_run_native_status=latest.status,
        latest_run_created_at=instant(latest.created_at),
        owner_id=_owner_id(row.creator),
        owner=_owner(row.creator),
    )


def _plan_full(row: wire.Plan) -> PlanFull:
    nodes = readable(row.plan_nodes, _PLAN_NODE)
    flow_ids = [_ref_id(node.task.flow) for node in nodes if node.task]
    return PlanFull(
        id=text_of(row.id),
        name=row.name,
        created_at=instant(row.created_at),
        updated_at=instant(row.updated_at),
        is_snapshot=_is_snapshot(row),
        original_plan_id=_original_plan_id(row),
        snapshot_ids=tuple(
            text_of(snapshot.id) for snapshot in readable(row.plan_snapshots, _ONLY_ID)
        ),
        flow_ids=tuple(dict.fromkeys(flow_id_ for flow_id_ in flow_ids if flow_id_ is not None)),
        children=tuple(child for node in nodes for child in _children(node)),
    )


def _children(node: wire.PlanNode) -> list[PlanChild]:
    children = []
    for task_run in unwrap(node.plan_task_snapshot_runs):
        plan_run_id = _ref_id(task_run.plan_snapshot_run)
        if plan_run_id is None:
            continue
        for result in unwrap(task_run.plan_flow_task_run_results):
            if (job_group_id := _ref_id(result.job_group)) is not None:
                children.append(PlanChild(plan_run_id=plan_run_id, job_group_id=job_group_id))
            if (flow_run_id := _ref_id(result.flow_run)) is not None:
                children.append(PlanChild(plan_run_id=plan_run_id, flow_run_id=flow_run_id))
    return children


def _flow(row: wire.Flow) -> FlowRow:
    folder = row.folder if isinstance(row.folder, wire.Ref) else wire.Ref(id=row.folder)
    return FlowRow(
        id=text_of(row.id),
        name=row.name,
        created_at=instant(row.created_at),
        updated_at=instant(row.updated_at),
        owner_id=_owner_id(row.creator),
        owner=_owner(row.creator),
        folder_id=text_or_none(folder.id),
        folder_name=folder.name,
    )


def _folder(row: wire.Folder) -> FolderRow:
    return FolderRow(id=text_of(row.id), name=row.name)


def _schedule(row: wire.Schedule) -> ScheduleRow:
    tasks = readable(row.tasks, _SCHEDULED_TASK)
    started = [started_pipeline for task in tasks for started_pipeline in _started_pipelines(task)]
    return ScheduleRow(
        id=text_of(row.id),
        name=row.name,
        is_enabled=row.enabled is not False,
        triggers=readable(row.triggers, TRIGGER),
        pipelines=tuple(pipeline for pipeline, _ in started),
        deleted=frozenset(pipeline for pipeline, is_deleted in started if is_deleted),
        disable_reason=row.disable_reason,
        created_at=instant(row.created_at),
        updated_at=instant(row.updated_at),
        owner_id=text_or_none(row.created_by),
    )


def _started_pipelines(task: wire.ScheduledTask) -> list[tuple[Pipeline, bool]]:
    """Return what a task starts, each with whether it was deleted."""
    pipelines = []
    flow, plan = task.run_flow, task.run_plan
    if flow and (flow_id := text_or_none(flow.flow_id or flow.id)):
        pipeline = Pipeline(kind=PipelineKind.FLOW, id=flow_id, name=flow.name)
        pipelines.append((pipeline, bool(flow.deleted_at)))
    if plan and (plan_id := text_or_none(plan.plan_id or plan.id)):
        pipeline = Pipeline(kind=PipelineKind.PLAN, id=plan_id, name=plan.name)
        pipelines.append((pipeline, bool(plan.deleted_at)))
    return pipelines


def _person(row: wire.Person) -> PersonRow:
    return PersonRow(
        id=text_of(row.id),
        email=row.email,
        name=row.name,
        state=row.state,
        is_disabled=bool(row.is_disabled),
    )


def _access_token(row: wire.AccessToken) -> AccessTokenRow:
    return AccessTokenRow(
        id=text_of(row.token_id),
        expires_at=instant(row.expired_at),
        created_at=instant(row.created_at),
        last_used_at=instant(row.last_used),
    )


def _webhook_task(row: wire.WebhookTask) -> WebhookTaskRow:
    headers = row.headers or {}
    return WebhookTaskRow(
        id=text_of(row.id),
        name=row.name,
        flow_id=_ref_id(row.flow) or text_or_none(row.flow_id),
        url=Secret(row.url),
        method=row.method.lower() if row.method else None,
        trigger_event=row.trigger_event,
        trigger_object=row.trigger_object,
        body=row.body,
        headers={name: Secret(str(value)) for name, value in headers.items()},
        has_secret_key=bool(row.secret_key),
        ssl_verification=row.ssl_verification,
        retry_on_failure=row.retry_on_failure,
        created_at=instant(row.created_at),
        updated_at=instant(row.updated_at),
    )


def _webhook_tasks_of(flow: wire.FlowWithTasks) -> tuple[WebhookTaskRow, ...]:
    return readable(flow.webhook_flow_tasks, WEBHOOK_TASK) or readable(
        flow.webhook_flow_tasks_lower, WEBHOOK_TASK
    )


def _webhook_test(row: wire.WebhookTestResult) -> WebhookTest:
    return WebhookTest(status_code=row.status_code, error=error_text(row.error))


# Exact, because their ids are not checked yet; the row that they become a part of is not.
_PLAN_NODE: RowKind[wire.PlanNode] = RowKind(wire.PlanNode, lambda node: node, is_exact=True)
_ONLY_ID: RowKind[wire.OnlyId] = RowKind(wire.OnlyId, lambda shape: shape, is_exact=True)
_SCHEDULED_TASK: RowKind[wire.ScheduledTask] = RowKind(
    wire.ScheduledTask, lambda task: task, is_exact=True
)

JOB_GROUP = RowKind(wire.JobGroup, _job_group)
JOB = RowKind(wire.Job, _job)
JOB_GROUP_JOBS = RowKind(wire.JobGroupWithJobs, _job_group_jobs)
FLOW_RUN = RowKind(wire.FlowRun, _flow_run_row)
PLAN_RUN = RowKind(wire.PlanRun, _plan_run)
PLAN = RowKind(wire.Plan, _plan)
PLAN_FULL = RowKind(wire.Plan, _plan_full)
FLOW = RowKind(wire.Flow, _flow)
RECIPE = RowKind(wire.WrangledDatasetRow, _recipe)
FOLDER = RowKind(wire.Folder, _folder)
SCHEDULE = RowKind(wire.Schedule, _schedule)
PERSON = RowKind(wire.Person, _person)
ACCESS_TOKEN = RowKind(wire.AccessToken, _access_token)
WEBHOOK_TASK = RowKind(wire.WebhookTask, _webhook_task, is_exact=True)
WEBHOOK_TASKS_OF_FLOW = RowKind(wire.FlowWithTasks, _webhook_tasks_of, is_exact=True)
WEBHOOK_TEST = RowKind(wire.WebhookTestResult, _webhook_test)
CREATED = RowKind(wire.OnlyId, lambda shape: text_of(shape.id))
STARTED_FLOW_RUN = RowKind(wire.StartedFlowRun, lambda shape: text_of(shape.flow_run_id))
STARTED_PLAN_RUN = RowKind(wire.StartedPlanRun, lambda shape: text_of(shape.plan_snapshot_run_id))
CANCELED_PLAN_RUN = RowKind(
    wire.CanceledPlanRun, lambda shape: not shape.failed_to_cancel_some_jobs, is_exact=True
)

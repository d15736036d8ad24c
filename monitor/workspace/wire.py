"""The JSON of the answers, as far as it is read, with the variety that is understood.

Fields that are not named here are skipped unread. Assumptions, where the API's documents differ
from recorded answers: ids are numbers or text; ``flowRun`` and ``flowrun`` are the same key; an
embedded list stands alone or is wrapped in ``data``.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Generic, TypeVar

from msgspec import UNSET, Meta, Raw, Struct, UnsetType, field

from monitor.model.triggers import Weekday

T = TypeVar("T")

Id = int | str


class Listing(Struct):
    """The envelope of lists. ``count`` is not always a number, so it is checked later."""

    data: list[Raw]
    count: object = None


class Wrapped(Struct, Generic[T]):
    """An embedded list in its envelope."""

    data: list[T]


class OnlyId(Struct):
    """What is tried last on a row that cannot be read."""

    id: Id


class StartedFlowRun(Struct, rename="camel"):
    """The answer to a flow that was started."""

    flow_run_id: Id


class StartedPlanRun(Struct, rename="camel"):
    """The answer to a plan that was started."""

    plan_snapshot_run_id: Id


class CanceledPlanRun(Struct, rename="camel"):
    """The answer to a plan run that was canceled."""

    failed_to_cancel_some_jobs: bool | None = None


class Head(Struct, rename="camel", gc=False):
    """What shows whether a row of a run has changed since it was last read."""

    id: Id
    status: str | None = None
    updated_at: datetime | None = None


class Ref(Struct):
    """Another object, as far as it is embedded."""

    id: Id | None = None
    name: str | None = None


class Creator(Struct):
    """The person of a row; live lists embed the whole record."""

    id: Id | None = None
    email: str | None = None
    name: str | None = None


class WrangledDataset(Struct):
    """The recipe inside a job group, with what was embedded of its surroundings."""

    id: Id | None = None
    name: str | None = None
    recipe: Ref | None = None
    flow: Ref | None = None


class WrangledDatasetRow(Struct):
    """A recipe of the list of recipes."""

    id: Id
    name: str | None = None
    recipe: Ref | None = None


class JobGroup(Struct, rename="camel"):
    id: Id
    status: str | None = None
    name: str | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None
    ranfrom: str | None = None
    ranfor: str | None = None
    flow_run: Ref | Id | UnsetType | None = UNSET
    flow_run_lower: Ref | Id | UnsetType | None = field(default=UNSET, name="flowrun")
    wrangled_dataset: WrangledDataset | None = None
    creator: Creator | None = None
    workload_error: object = None


class Job(Struct, rename="camel"):
    id: Id
    status: str | None = None
    job_type: str | None = None
    job_group: Ref | None = None
    percent_complete: float | None = None
    last_heartbeat_at: datetime | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    error_message: object = None


class JobGroupWithJobs(Struct):
    """A job group with its job records embedded, where the workspace embeds them."""

    id: Id
    jobs: Raw = Raw(b"[]")


class FlowRun(Struct, rename="camel"):
    id: Id
    created_at: datetime | None = None
    updated_at: datetime | None = None
    flow: Ref | None = None
    schedule_execution_id: Id | None = None


class PlanRun(Struct, rename="camel"):
    id: Id
    status: str | None = None
    created_at: datetime | None = None
    submitted_at: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    updated_at: datetime | None = None
    plan: Ref | None = None
    schedule_history_id: Id | None = None
    creator: Creator | None = None


class LatestRun(Struct, rename="camel"):
    """A plan's newest run as the plan list shows it."""

    id: Id | None = None
    status: str | None = None
    created_at: datetime | None = None


class Plan(Struct, rename="camel"):
    id: Id
    name: str | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None
    snapshotted: bool | None = None
    original_plan_id: Id | None = None
    original_plan: Ref | None = None
    latest_plan_snapshot: Ref | None = None
    latest_plan_snapshot_run: LatestRun | None = None
    creator: Creator | None = None
    plan_nodes: Raw = Raw(b"[]")
    plan_snapshots: Raw = Raw(b"[]")


class FlowTask(Struct):
    flow: Ref | None = None


class TaskResult(Struct, rename="camel"):
    """What a flow task of a plan run started."""

    job_group: Ref | None = None
    flow_run: Ref | None = None


class TaskRun(Struct, rename="camel"):
    """One execution of one plan node."""

    plan_snapshot_run: Ref | None = None
    plan_flow_task_run_results: list[TaskResult] | Wrapped[TaskResult] | None = None


class PlanNode(Struct, rename="camel"):
    task: FlowTask | None = None
    plan_task_snapshot_runs: list[TaskRun] | Wrapped[TaskRun] | None = None


class Flow(Struct, rename="camel"):
    id: Id
    name: str | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None
    creator: Creator | None = None
    folder: Ref | Id | None = None


class Folder(Struct):
    id: Id
    name: str | None = None


class FlowWithTasks(Struct, rename="camel"):
    """A flow read with its registered callbacks; the key's spelling is an assumption."""

    id: Id
    webhook_flow_tasks: Raw = Raw(b"[]")
    webhook_flow_tasks_lower: Raw = field(default=Raw(b"[]"), name="webhookflowtasks")


class Schedule(Struct, rename="camel"):
    id: Id
    name: str | None = None
    enabled: bool | None = None
    triggers: Raw = Raw(b"[]")
    tasks: Raw = Raw(b"[]")
    disable_reason: str | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None
    created_by: Id | None = None


class Started(Struct, rename="camel"):
    """The flow or plan that a scheduled task starts; reads expand it with id and name."""

    id: Id | None = None
    flow_id: Id | None = None
    plan_id: Id | None = None
    name: str | None = None
    # The workspace writes this one otherwise than all others.
    deleted_at: str | int | None = field(name="deleted_at", default=None)


class ScheduledTask(Struct, rename="camel"):
    run_flow: Started | None = None
    run_plan: Started | None = None


Minute = Annotated[int, Meta(ge=0, le=59)]
Hour = Annotated[int, Meta(ge=0, le=23)]
DayOfMonth = Annotated[int, Meta(ge=1, le=31)]
NthOfMonth = Annotated[int, Meta(ge=1, le=5)]


class Cron(Struct):
    expression: str


class Hourly(Struct, rename="camel"):
    minute_of_hour: Minute = 0
    utc_start_date_time: datetime | None = None
    utc_end_date_time: datetime | None = None


class Daily(Hourly, rename="camel"):
    hour_of_day: Hour = 0
    only_working_days: bool = False


class Weekly(Daily, rename="camel", kw_only=True):
    days_of_week: Annotated[tuple[Weekday, ...], Meta(min_length=1)]


class Monthly(Daily, rename="camel", kw_only=True):
    days_of_month: Annotated[tuple[DayOfMonth, ...], Meta(min_length=1)]


class MonthlyWeekday(Daily, rename="camel", kw_only=True):
    day_of_week: Weekday
    nth_week_day_of_month: NthOfMonth


class OneTime(Struct, rename="camel"):
    utc_date_time: datetime


class Person(Struct, rename="camel"):
    id: Id
    email: str | None = None
    name: str | None = None
    state: str | None = None
    is_disabled: bool | None = None


class AccessToken(Struct, rename="camel"):
    token_id: Id
    expired_at: datetime | None = None
    created_at: datetime | None = None
    last_used: datetime | None = None


class WebhookTask(Struct, rename="camel"):
    id: Id
    url: str
    name: str | None = None
    flow: Ref | None = None
    flow_id: Id | None = None
    method: str | None = None
    trigger_event: str | None = None
    trigger_object: str | None = None
    body: str | None = None
    headers: dict[str, object] | None = None
    secret_key: str | None = None
    ssl_verification: bool | None = None
    retry_on_failure: bool | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None


class WebhookTestResult(Struct, rename="camel"):
    status_code: int | None = None
    error: object = None


class Specification(Struct):
    """The served OpenAPI document: only which methods stand under which paths."""

    paths: dict[str, dict[str, Raw]]
    servers: list[dict[str, object]] | None = None

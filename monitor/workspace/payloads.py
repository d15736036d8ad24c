"""Typed answers of a workspace. Ids are text, instants aware UTC, native words are kept.

A field is None where the workspace did not show it. Rows hold what was shown and nothing else:
turning native words into our own is the work of those who read them.
"""

from __future__ import annotations

from datetime import datetime
from typing import Generic, TypeVar

from msgspec import Struct

from monitor.model.runs import Pipeline
from monitor.model.secrets import Secret
from monitor.model.triggers import ScheduleTrigger

T = TypeVar("T")
_SUCCESSES = range(200, 300)


class BadRow(Struct, frozen=True, kw_only=True, gc=False):
    """A row of a list that cannot be read. ``id`` is None where not even that is readable.

    ``reason`` names the field and the problem; it never holds the row's content.
    """

    id: str | None
    reason: str


class RowHead(Struct, frozen=True, kw_only=True, gc=False):
    """The start of a row of runs: enough to recognise one that has not changed."""

    id: str
    native_status: str | None
    updated_at: datetime | None


class Page(Struct, Generic[T], frozen=True, kw_only=True):
    """One page of a list. Rows of the page before may stand in it again.

    ``known`` are those of its rows that its reader has recognised as unchanged; ``rows`` are all
    others.

    ``began_at`` is the workspace's time when this page was requested, never later than the
    truth; None where the workspace sends no ``Date``. ``number`` counts from 1.
    """

    rows: tuple[T, ...]
    known: tuple[RowHead, ...] = ()
    bad_rows: tuple[BadRow, ...] = ()
    began_at: datetime | None = None
    number: int = 1


class JobGroupRow(Struct, frozen=True, kw_only=True, gc=False):
    """One execution of one recipe (the API calls the recipe a wrangled dataset).

    ``flow_run_id`` None with ``shows_flow_run`` means "not part of a flow run"; without it the
    row does not show it. ``owner`` is the creator's e-mail address, else the name.
    """

    id: str
    native_status: str | None
    name: str | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None
    ran_from: str | None = None  # ui, schedule, api
    ran_for: str | None = None  # recipe, plan, sampling, ...
    shows_flow_run: bool = False
    flow_run_id: str | None = None
    recipe_id: str | None = None
    recipe_name: str | None = None
    flow_id: str | None = None
    flow_name: str | None = None
    owner_id: str | None = None
    owner: str | None = None
    error: str | None = None  # live answers carry a ``workloadError``


class JobRow(Struct, frozen=True, kw_only=True, gc=False):
    """One job of a job group."""

    id: str
    native_status: str | None
    job_type: str | None = None
    job_group_id: str | None = None
    percent_complete: float | None = None  # 0 to 100
    heartbeat_at: datetime | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    error: str | None = None


class JobGroupJobs(Struct, frozen=True, kw_only=True, gc=False):
    """A job group of a list with its job records; ``jobs`` is empty where it shows none."""

    id: str
    jobs: tuple[JobRow, ...]


class JobsPage(Struct, frozen=True, kw_only=True):
    """A page of job groups. ``ids`` are all that it shows, in its order; ``rows`` the wanted ones.

    ``count`` is of the whole list, None where the workspace does not count; ``began_at`` as in a
    `Page`.
    """

    ids: tuple[str, ...]
    rows: tuple[JobGroupJobs, ...]
    count: int | None
    began_at: datetime | None


class FlowRunRow(Struct, frozen=True, kw_only=True, gc=False):
    """One run of a flow. Another operation shows its status."""

    id: str
    created_at: datetime | None = None
    updated_at: datetime | None = None
    flow_id: str | None = None
    flow_name: str | None = None
    schedule_execution_id: str | None = None  # there when a schedule started it


class PlanRunRow(Struct, frozen=True, kw_only=True, gc=False):
    """One run of a plan. ``plan_id`` is usually the id of a snapshot, not of the plan."""

    id: str
    native_status: str | None
    created_at: datetime | None = None
    submitted_at: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    updated_at: datetime | None = None
    plan_id: str | None = None
    plan_name: str | None = None
    schedule_history_id: str | None = None  # there when a schedule started it
    owner_id: str | None = None
    owner: str | None = None


class PlanRow(Struct, frozen=True, kw_only=True, gc=False):
    """One plan of the list, with its newest run."""

    id: str
    name: str | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None
    is_snapshot: bool = False
    original_plan_id: str | None = None  # the plan whose snapshot this is
    latest_snapshot_id: str | None = None
    latest_run_id: str | None = None
    latest_run_native_status: str | None = None
    latest_run_created_at: datetime | None = None
    owner_id: str | None = None
    owner: str | None = None


class PlanChild(Struct, frozen=True, kw_only=True, gc=False):
    """A run that a plan run started; exactly one of the two child ids is there."""

    plan_run_id: str
    job_group_id: str | None = None
    flow_run_id: str | None = None


class PlanFull(Struct, frozen=True, kw_only=True, gc=False):
    """A plan or a snapshot of one, read whole."""

    id: str
    name: str | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None
    is_snapshot: bool = False
    original_plan_id: str | None = None
    snapshot_ids: tuple[str, ...] = ()
    flow_ids: tuple[str, ...] = ()  # of its flow tasks, in the order of the nodes
    children: tuple[PlanChild, ...] = ()


class FlowRow(Struct, frozen=True, kw_only=True, gc=False):
    """One flow of the list. Lists often show only the id of its folder."""

    id: str
    name: str | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None
    owner_id: str | None = None
    owner: str | None = None
    folder_id: str | None = None
    folder_name: str | None = None


class FolderRow(Struct, frozen=True, kw_only=True, gc=False):
    """One folder of the list."""

    id: str
    name: str | None = None


class RecipeRow(Struct, frozen=True, kw_only=True, gc=False):
    """One recipe of the list, which the API calls a wrangled dataset."""

    id: str
    name: str | None = None


class ScheduleRow(Struct, frozen=True, kw_only=True, gc=False):
    """One schedule that the token may see. ``is_enabled`` is True unless the row has it."""

    id: str
    name: str | None = None
    is_enabled: bool = True
    triggers: tuple[ScheduleTrigger, ...] = ()
    pipelines: tuple[Pipeline, ...] = ()  # what it starts; other kinds of task are left out
    deleted: frozenset[Pipeline] = frozenset()  # those of them that are no longer there
    disable_reason: str | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None
    owner_id: str | None = None


class PersonRow(Struct, frozen=True, kw_only=True, gc=False):
    """Someone who uses the workspace."""

    id: str
    email: str | None = None
    name: str | None = None
    state: str | None = None
    is_disabled: bool = False

    @property
    def called(self) -> str:
        """What people know them by."""
        return self.email or self.name or f"person {self.id}"


class AccessTokenRow(Struct, frozen=True, kw_only=True, gc=False):
    """An access token of the caller; the token itself is never shown again."""

    id: str
    expires_at: datetime | None = None  # None: never, or not shown
    created_at: datetime | None = None
    last_used_at: datetime | None = None


class WebhookTaskRow(Struct, frozen=True, kw_only=True, gc=False):
    """A registered callback. Its URL and headers may hold our secret, so they are not shown."""

    id: str
    name: str | None = None
    flow_id: str | None = None
    url: Secret
    method: str | None = None  # lower case
    trigger_event: str | None = None  # onJobFailure, onJobSuccess, onJobDone
    trigger_object: str | None = None  # any, some
    body: str | None = None
    headers: dict[str, Secret] = {}
    has_secret_key: bool = False
    ssl_verification: bool | None = None
    retry_on_failure: bool | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None


class WebhookTest(Struct, frozen=True, kw_only=True, gc=False):
    """What the workspace got when it called a URL. Both None: it did not report."""

    status_code: int | None = None
    error: str | None = None

    @property
    def is_ok(self) -> bool:
        return self.status_code in _SUCCESSES

"""The executions of the sandbox's world: what runs, and where it stands.

Only the engine changes these records. Instants are workspace time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, ClassVar

from monitor.sandbox.world.records.objects import Publication, Record, WriteSetting
from monitor.sandbox.world.records.parts import SqlScript


class NativeStatus(StrEnum):
    """The workspace's own five words, the same for job groups, jobs, flow runs and plan runs."""

    CREATED = "Created"
    IN_PROGRESS = "InProgress"
    COMPLETE = "Complete"
    FAILED = "Failed"
    CANCELED = "Canceled"

    @property
    def is_over(self) -> bool:
        return self not in (NativeStatus.CREATED, NativeStatus.IN_PROGRESS)


class RanFrom(StrEnum):
    """What started a run."""

    UI = "ui"
    SCHEDULE = "schedule"
    API = "api"


class RanFor(StrEnum):
    """What a job group was run for."""

    RECIPE = "recipe"
    PLAN = "plan"
    EXTRACT = "extract"
    PROFILE = "profile"
    PUBLISH = "publish"
    SAMPLING = "sampling"
    PENDING_DATASOURCE = "pendingDatasource"
    REFRESH = "refresh"


# Work that the workspace does for its own editor; it is no run of a pipeline.
SAMPLING_LIKE = frozenset({RanFor.SAMPLING, RanFor.PENDING_DATASOURCE, RanFor.REFRESH})


@dataclass(slots=True, kw_only=True)
class PlanSnapshotRun(Record):
    """One execution of a plan. `World.plan_id_shown` returns the id that it shows as its plan."""

    first_id: ClassVar[int] = 7_001
    plan_id: int  # the original plan
    snapshot_id: int
    status: NativeStatus = NativeStatus.CREATED
    ran_from: RanFrom = RanFrom.UI
    submitted_at: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    schedule_history_id: int | None = None
    failed_to_cancel_some_jobs: bool = False
    previous_run_id: int | None = None
    next_run_id: int | None = None


@dataclass(slots=True, kw_only=True)
class PlanTaskRun(Record):
    """One node's part in one plan run, made when the node begins."""

    first_id: ClassVar[int] = 17_001
    plan_run_id: int
    plan_node_id: int
    status: NativeStatus = NativeStatus.CREATED
    flow_run_id: int | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None


@dataclass(slots=True, kw_only=True)
class FlowRun(Record):
    """One execution of a flow. Its job groups appear one after the other."""

    first_id: ClassVar[int] = 20_001
    flow_id: int
    status: NativeStatus = NativeStatus.CREATED
    ran_from: RanFrom = RanFrom.UI
    schedule_execution_id: int | None = None
    request_id: str | None = None
    plan_run_id: int | None = None
    job_group_ids: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Destinations:
    """Where the results of one run go. Later edits of the outputs do not reach it."""

    write_settings: tuple[WriteSetting, ...] = ()
    publications: tuple[Publication, ...] = ()
    sql_scripts: tuple[SqlScript, ...] = ()


NOWHERE = Destinations()


@dataclass(slots=True, kw_only=True)
class JobGroup(Record):
    """One execution of one recipe, with all that was decided when it began."""

    first_id: ClassVar[int] = 40_001
    flow_id: int
    recipe_id: int
    status: NativeStatus = NativeStatus.CREATED
    ran_from: RanFrom = RanFrom.UI
    ran_for: RanFor = RanFor.RECIPE
    name: str | None = None
    description: str | None = None
    profiling_enabled: bool = False
    unfit_values: float = 0.0  # of all values, beyond the few that never fit
    flow_run_id: int | None = None
    plan_run_id: int | None = None
    snapshot_id: int = 0  # of the flow; the workspace shows it, nothing can be read by it
    session_id: str = ""
    fires_webhooks: bool = True
    job_ids: list[int] = field(default_factory=list)  # in the order of work
    execution: str = ""  # the engine that does the work
    dataset_ids: tuple[int, ...] = ()  # what it reads, through the recipes it builds upon
    parameters: Mapping[str, Any] = field(default_factory=dict)  # by override key
    reference_date: datetime | None = None  # that dates in paths count from; None: its creation
    destinations: Destinations = NOWHERE


@dataclass(slots=True, kw_only=True)
class Job(Record):
    """One step of a job group, done by one engine."""

    first_id: ClassVar[int] = 600_001
    job_group_id: int
    job_type: str
    status: NativeStatus = NativeStatus.CREATED
    percent_complete: int = 0
    sample_size: int = 100
    last_heartbeat_at: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    error_message: str | None = None
    has_warnings: bool = False
    execution_language: str | None = None
    cp_job_id: str | None = None


Run = FlowRun | JobGroup | PlanSnapshotRun

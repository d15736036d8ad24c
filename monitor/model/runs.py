"""Pipelines, and the state of one execution of them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType

from msgspec import Struct


class RunKind(StrEnum):
    """The three things of a workspace that are executions."""

    FLOW_RUN = "flow_run"
    JOB_GROUP = "job_group"
    PLAN_RUN = "plan_run"


class PipelineKind(StrEnum):
    """The two things of a workspace that are executed."""

    FLOW = "flow"
    PLAN = "plan"


# The kinds of runs that execute a pipeline; the containing kind first.
RUN_KINDS: Mapping[PipelineKind, tuple[RunKind, ...]] = MappingProxyType(
    {
        PipelineKind.FLOW: (RunKind.FLOW_RUN, RunKind.JOB_GROUP),
        PipelineKind.PLAN: (RunKind.PLAN_RUN,),
    }
)


class Status(StrEnum):
    """Our words for where a run is: the same in code, labels, topics and on the page."""

    PENDING = "pending"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELED = "canceled"
    LOST = "lost"

    is_terminal: bool  # an attribute, because it is asked for twenty times for each observation

    def __init__(self, word: str) -> None:
        self.is_terminal = word not in ("pending", "running")


class Trigger(StrEnum):
    """Who or what started a run."""

    SCHEDULE = "schedule"
    MANUAL = "manual"
    API = "api"
    PLAN = "plan"
    UNKNOWN = "unknown"


class Source(StrEnum):
    """How the monitor observed a run."""

    POLL = "poll"  # the list of changes, or a run's own end-of-run reads
    RECONCILIATION = "reconciliation"  # the slow check of what is active
    DETAIL = "detail"  # job records
    CALLBACK = "callback"  # an HTTP request that the workspace sent
    TRACK = "track"  # a run that the operator named
    PARTS = "parts"  # job groups of a flow run, job records of a job group: derived, not read


class EndBasis(StrEnum):
    """What the time of an end was taken from; the first of them is the best."""

    REPORTED = "reported"  # by the workspace, as the end of this very run
    DERIVED = "derived"  # from the ends of its parts: the jobs of a job group, job groups of a run
    LAST_WRITE = "last_write"  # of the run's record, when it was first observed ended


class Implausible(StrEnum):
    """What a workspace reports of a run and cannot be true."""

    ENDS_BEFORE_START = "ends_before_start"
    IN_THE_FUTURE = "in_the_future"  # one of its times
    PIPELINE_CHANGED = "pipeline_changed"
    RECIPE_CHANGED = "recipe_changed"
    CONTAINS_ITSELF = "contains_itself"
    COMPLETE_WITH_FAILED_JOBS = "complete_with_failed_jobs"


# The only list of the workspace's words, spelled as it spells them, those of a run's life first.
NATIVE_STATUSES: Mapping[str, Status] = MappingProxyType(
    {
        "InProgress": Status.RUNNING,
        "Created": Status.PENDING,
        "Pending": Status.PENDING,
        "Complete": Status.SUCCEEDED,
        "Failed": Status.FAILED,
        "Canceled": Status.CANCELED,
        "Cancelled": Status.CANCELED,
    }
)
_BY_LOWER_CASE = {word.lower(): status for word, status in NATIVE_STATUSES.items()}


def status_of(native_status: str | None) -> Status | None:
    """Translate the workspace's word in any case; None for an unknown word, and for none."""
    return None if native_status is None else _BY_LOWER_CASE.get(native_status.strip().lower())


class RunKey(Struct, frozen=True, order=True, gc=False):
    """One run among all workspaces. Ids are text, whatever the workspace sends."""

    workspace: str
    kind: RunKind
    id: str

    def __str__(self) -> str:
        return f"{self.workspace}:{self.kind}:{self.id}"


class Pipeline(Struct, frozen=True, kw_only=True, gc=False):
    """A flow or a plan. The name may be unknown while the id is not."""

    kind: PipelineKind
    id: str
    name: str | None = None


class Recipe(Struct, frozen=True, kw_only=True, gc=False):
    """What one job group executes inside its flow; the API calls it a wrangled dataset."""

    id: str
    name: str | None = None


class Parents(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """The runs that this run is a part of, as far as the workspace reports."""

    flow_run: str | None = None
    plan_run: str | None = None


class JobCount(Struct, frozen=True, kw_only=True, gc=False):
    """How many jobs of one type ended in one way. ``status`` may be a word we do not know."""

    job_type: str
    status: str
    count: int


class JobRecord(Struct, frozen=True, kw_only=True, gc=False, array_like=True):
    """One job of a job group. An instant is None where the job has not come to it.

    ``approximate`` as in a run: a workspace may report only when a record was made and written.
    """

    id: str
    job_type: str
    status: str  # ours, or a word of the workspace that we do not know
    started_at: datetime | None = None
    ended_at: datetime | None = None
    approximate: tuple[str, ...] = ()


class JobDetails(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """The job records of one job group, summed up. Instants are the workspace's, or None."""

    records: tuple[JobRecord, ...] = ()  # at most 20, in the workspace's order; none in events
    counts: tuple[JobCount, ...] = ()
    percent_complete: float | None = None  # 0 to 100, mean over the jobs that report it
    heartbeat_at: datetime | None = None
    read_at: datetime | None = None  # workspace time of the read

    @property
    def ids(self) -> tuple[str, ...]:
        """The API reads a single job by its id alone."""
        return tuple(record.id for record in self.records)


class FailedPart(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """The first part of a flow run or plan run that failed.

    The reason of a failure; in a run that succeeded a failure that its success hides.
    """

    key: RunKey
    name: str | None = None  # of its recipe, or of its flow
    error: str | None = None
    failed_at: datetime | None = None


class RunState(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """All that is kept of a run. Instants are aware UTC by the workspace's clock, or None.

    ``approximate`` names those of ``created_at``, ``started_at`` and ``finished_at`` that the
    workspace did not report itself and that were taken from the nearest stamp it did report. Where
    ``finished_at`` is None, the end lies between ``unfinished_at`` and ``end_seen_at``.
    """

    key: RunKey
    status: Status
    native_status: str | None = None
    created_at: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    updated_at: datetime | None = None
    approximate: tuple[str, ...] = ()
    pipeline: Pipeline | None = None
    recipe: Recipe | None = None
    parents: Parents = Parents()
    trigger: Trigger = Trigger.UNKNOWN
    ran_for: str | None = None
    owner: str | None = None
    error: str | None = None
    url: str | None = None
    jobs: JobDetails | None = None
    detailed: bool = False  # the job records were read after the end
    was_detailed: bool = False  # they were read for an end that the workspace has changed since
    has_unsent_details: bool = False  # more is known of its end than its events have carried
    historical: bool = False  # ended before we followed: state only, never an event
    ended_by: Source | None = None  # who reported the end
    is_called_back: bool = False  # a callback named this run
    contradiction: str | None = None  # another end that was reported and does not count: the word
    corrections: int = 0  # of an end that was reported or derived, or of the part that explained it
    finished_by: EndBasis | None = None  # None where ``finished_at`` is None
    unfinished_at: datetime | None = None  # the last read that showed it unfinished before its end
    end_seen_at: datetime | None = None  # the first read or callback that showed this end
    # The end that only a callback has reported so far. The state's status is still the one that
    # the workspace reported; the event of that end carries the end as its status.
    unconfirmed_end: Status | None = None
    implausible: tuple[Implausible, ...] = ()  # what was reported of it and cannot be true
    failed_part: FailedPart | None = None
    confirmed_at: datetime  # when the workspace last reported this; our clock
    confirmed_by: Source

    @property
    def has_derived_end(self) -> bool:
        """True where the parts have shown the end and the workspace has not reported it itself."""
        return self.ended_by is Source.PARTS and self.status.is_terminal

    @property
    def known_end(self) -> Status | None:
        """The end that the workspace or, for now, only a callback has reported; None before."""
        return self.status if self.status.is_terminal else self.unconfirmed_end

    @property
    def duration_seconds(self) -> float | None:
        """Seconds from start to end; from creation where no start is known; None if unknown."""
        begun_at = self.started_at or self.created_at
        if begun_at is None or self.finished_at is None:
            return None
        return max(0.0, (self.finished_at - begun_at).total_seconds())

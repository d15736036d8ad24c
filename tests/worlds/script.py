"""What a world is: objects of a workspace, and a script of dated facts. Pure data.

All times are seconds since the world's beginning, rounded to milliseconds. A fact has two times:
when it happened, and from when on the workspace shows it. Everything else is derived from this:
`served` says what a read shows at a time, `truth` what must be reported and by when.
"""

from __future__ import annotations

import math
from datetime import datetime
from enum import StrEnum

from msgspec import Struct

from tests.worlds.impairments import ClockSet, Hiding, ShortList, Span, Withdrawal

NEVER = float("inf")


class Ingredient(StrEnum):
    """What can make a world difficult. A world has some of them; see `generator`."""

    OVERLAPS = "overlapping runs"
    RECIPES = "recipes side by side"
    FLOW_RUNS = "flow runs"
    CANCELS = "canceled runs"
    LATE_ROWS = "late rows"  # a run is shown after a newer end
    LATE_ENDS = "late ends"  # the end of a run is shown after a newer end
    ABSENT_TIMES = "absent times"
    WHOLE_SECONDS = "whole seconds"
    INCOMPLETE_ROWS = "incomplete rows"
    PLANS = "plans"
    LATE_CHILDREN = "late children"  # a plan names its children late, or at the end of its run
    CALLBACKS = "callbacks"
    LIES = "callbacks that lie"
    RENAMES = "renames"
    DELETED_RUNS = "deleted runs"
    DELETED_FLOWS = "deleted flows"
    OUTAGES = "outages"
    RESTARTS = "restarts"
    SCHEDULES = "schedules"
    WITHDRAWN_RUNS = "withdrawn lists of runs"
    WITHDRAWN_WORKSPACE = "withdrawn workspace"  # nothing but its specification can be read
    WITHDRAWN_SCHEDULES = "withdrawn list of schedules"
    SHORT_RUNS = "short lists of runs"
    SHORT_PIPELINES = "short lists of flows and plans"
    SHORT_SCHEDULES = "short list of schedules"
    VANISHED = "vanished"  # every list of runs is empty and every run unknown, for a while
    PAGE_CAPS = "page caps"
    OTHER_PERSON = "another person"  # the token is that of a person without schedules
    FEWER_RIGHTS = "fewer rights"  # a flow is no longer shared with the token's owner
    WORKSPACE_CLOCK = "workspace's clock set"
    OUR_CLOCK = "our clock set"
    DAMAGED_STORE = "damaged store"  # between two lives of the daemon, then mended
    DELETED_STORE = "deleted store"  # while the daemon runs; then an older copy takes its place
    DEADLINES = "deadlines"
    DAYLIGHT_SAVING = "daylight saving"  # begins or ends while the world lasts


class RunKind(StrEnum):
    """The kinds of runs, as topics and the JSON API name them."""

    FLOW_RUN = "flow_run"
    JOB_GROUP = "job_group"
    PLAN_RUN = "plan_run"


class End(StrEnum):
    """How a run ends, in the workspace's words."""

    COMPLETE = "Complete"
    FAILED = "Failed"
    CANCELED = "Canceled"


class Times(StrEnum):
    """Which of its times the workspace shows of a run."""

    ALL = "all"
    NO_JOB_ENDS = "no finishedAt of jobs"
    NO_JOBS = "no readable job records"
    NO_LAST_WRITE = "no updatedAt"
    NONE = "neither"


class JobGroup(Struct, frozen=True, kw_only=True):
    """One execution of a recipe."""

    id: int
    flow: int
    recipe: int
    created: float
    started: float
    ended: float
    end: End
    shown_from: float  # before, no read shows it
    end_shown_from: float  # before, every read shows it unfinished
    times: Times = Times.ALL
    error: str | None = None
    flow_run: int | None = None
    plan_run: int | None = None
    deleted_at: float = NEVER

    @property
    def middle(self) -> float:
        """When its first job record ends, and its last one starts."""
        return round((self.started + self.ended) / 2, 3)


class FlowRun(Struct, frozen=True, kw_only=True):
    """One execution of a flow: all its job groups. It ends with the last of them."""

    id: int
    flow: int
    job_groups: tuple[int, ...]
    created: float
    ended: float
    end: End
    end_shown_from: float
    plan_run: int | None = None


class PlanRun(Struct, frozen=True, kw_only=True):
    """One execution of a plan, made of flow runs and of job groups alone."""

    id: int
    plan: int
    snapshot: int
    flow_runs: tuple[int, ...]
    created: float
    started: float
    ended: float
    end: End
    shown_from: float
    end_shown_from: float
    children_named_from: dict[int, float]  # by the id of the child
    has_finish: bool = True
    deleted_at: float = NEVER


class Pipeline(Struct, frozen=True, kw_only=True):
    """A flow or a plan. ``parts`` are the recipes of a flow, or the flows of a plan."""

    id: int
    name: str
    parts: tuple[int, ...] = ()
    deleted_at: float = NEVER
    renamed_at: float = NEVER
    new_name: str = ""

    def name_at(self, at: float) -> str:
        return self.new_name if at >= self.renamed_at else self.name


class Callback(Struct, frozen=True, kw_only=True):
    """An HTTP request that names a job group and its status, true or not."""

    at: float
    job_group: int
    status: End


class Schedule(Struct, frozen=True, kw_only=True):
    """When a flow should start, by a cron trigger; at some of these times nothing starts."""

    id: int
    flow: int
    due: tuple[float, ...]  # all on the same second of a minute
    starts: dict[float, int] = {}  # by the time at which it is due: the job group that started


class DeadlineDays(StrEnum):
    """The days that have a deadline, as its rule names them."""

    EVERY = "every day"
    THAT_WEEKDAY = "the weekday of the world"
    OTHER_WEEKDAYS = "all weekdays but that of the world"
    NOT_THAT_DATE = "every day but the date of the world"
    NO_HOLIDAYS = "every day but public holidays"


class Deadline(Struct, frozen=True, kw_only=True):
    """By when a flow or plan must have succeeded; the daemon has a rule for each.

    Times are minutes after the planned beginning: by time that passes, or as added to what the
    clock of the zone shows then, whatever it skips or repeats.
    """

    rule: str
    kind: str  # flow or plan
    pipeline: int
    zone: str
    due_minutes: int
    opens_minutes: int  # from then on a success counts
    is_by_shown_clock: bool
    counts: str  # started or ended
    days: DeadlineDays
    region: str | None = None  # of public holidays
    usual_seconds: float | None = None  # a run takes so long: a second rule warns of it

    @property
    def risk_rule(self) -> str:
        return f"{self.rule}-at-risk"


class World(Struct, frozen=True, kw_only=True):
    """One workspace and what happens in it. A function of ``seed``."""

    seed: int
    ingredients: tuple[Ingredient, ...]
    flows: tuple[Pipeline, ...] = ()
    plans: tuple[Pipeline, ...] = ()
    job_groups: tuple[JobGroup, ...] = ()
    flow_runs: tuple[FlowRun, ...] = ()
    plan_runs: tuple[PlanRun, ...] = ()
    callbacks: tuple[Callback, ...] = ()
    outages: tuple[Span, ...] = ()
    schedules: tuple[Schedule, ...] = ()
    withdrawals: tuple[Withdrawal, ...] = ()
    short_lists: tuple[ShortList, ...] = ()
    hidings: tuple[Hiding, ...] = ()
    page_cap: int | None = None  # rows of a page, however many are requested
    other_person_from: float = NEVER
    workspace_clock_set: ClockSet | None = None
    deadlines: tuple[Deadline, ...] = ()
    # Of the daemon; all worlds of a batch have the same.
    stops: tuple[Span, ...] = ()
    our_clock_sets: tuple[ClockSet, ...] = ()
    is_store_damaged: bool = False  # at each stop
    store_deleted_at: float = NEVER  # the begin of the first stop
    begins_at: datetime | None = None  # None: at any time

    @property
    def name(self) -> str:
        """Name of its workspace."""
        return f"world-{self.seed}"

    def group(self, group_id: int) -> JobGroup:
        return next(group for group in self.job_groups if group.id == group_id)

    def stamped(self, at: float) -> float:
        """Return a time as the workspace's clock has it then, in whole seconds if it stamps so."""
        clock_set = self.workspace_clock_set
        if clock_set is not None and at >= clock_set.at:
            at += clock_set.seconds
        if Ingredient.WHOLE_SECONDS in self.ingredients and at < NEVER:
            return float(math.floor(at))
        return at

    def describe(self) -> str:
        """Name the world and its ingredients, for people."""
        return f"seed {self.seed} ({', '.join(self.ingredients) or 'plain'})"

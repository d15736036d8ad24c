"""The live state, as frozen values. It is overwritten; what happened is in the events."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import takewhile

from msgspec import Struct

from monitor.model.ends import RunEnd
from monitor.model.inventory import Inventory
from monitor.model.outage_words import reason_in_words
from monitor.model.poll_outcomes import PollOutcome
from monitor.model.runs import Pipeline, PipelineKind, RunKind, RunState, Source, Status
from monitor.model.triggers import ScheduleTrigger


class Reachability(StrEnum):
    """How well a workspace answers. ``unknown`` before the first answer or failure."""

    UNKNOWN = "unknown"
    REACHABLE = "reachable"
    DEGRADED = "degraded"  # it answers, but some of what we ask for fails
    UNREACHABLE = "unreachable"


class ReachabilityStretch(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """A time in which a workspace answered in one way; `Reachability.UNKNOWN`: not watched.

    Instants are ours.
    """

    reachability: Reachability
    since: datetime
    until: datetime  # when it was last known to be so
    reason: str | None = None


class ActiveRun(Struct, frozen=True, kw_only=True, gc=False):
    """A run that has not ended, and when that was last confirmed (our clock)."""

    run: RunState
    confirmed_at: datetime
    confirmed_by: Source
    percent_complete: float | None = None
    heartbeat_at: datetime | None = None


class PipelineHealth(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """The newest ends of one pipeline, or of one recipe of it, and what follows from them.

    For job groups there is one for each recipe; a pipeline shows the worst.
    """

    workspace: str
    run_kind: RunKind
    pipeline: Pipeline
    recipe_id: str | None = None
    last_started_at: datetime | None = None
    ends: tuple[RunEnd, ...] = ()  # the newest ones in their order, and the newest success
    older_failures: int = 0  # since the newest success, those that are not in ``ends``

    @property
    def last_run_id(self) -> str | None:
        return self.ends[-1].run_id if self.ends else None

    @property
    def last_status(self) -> Status | None:
        return self.ends[-1].status if self.ends else None

    @property
    def last_finished_at(self) -> datetime | None:
        return self.ends[-1].at if self.ends else None

    @property
    def last_success(self) -> RunEnd | None:
        return next((end for end in reversed(self.ends) if end.status is Status.SUCCEEDED), None)

    @property
    def last_success_at(self) -> datetime | None:
        success = self.last_success
        return None if success is None else success.at

    @property
    def open_failures(self) -> tuple[RunEnd, ...]:
        """The failures in ``ends`` since the newest success, oldest first."""
        since = takewhile(lambda end: end.status is not Status.SUCCEEDED, reversed(self.ends))
        return tuple(end for end in since if end.status is Status.FAILED)[::-1]

    @property
    def consecutive_failures(self) -> int:
        return self.older_failures + len(self.open_failures)


class ScheduleKnown(Struct, frozen=True, kw_only=True, gc=False):
    """A schedule that the token may see, and the pipelines that it starts."""

    id: str
    name: str
    is_enabled: bool
    triggers: tuple[ScheduleTrigger, ...]
    pipelines: tuple[Pipeline, ...]
    disable_reason: str | None = None
    created_at: datetime | None = None  # this and the next: workspace time
    updated_at: datetime | None = None
    owner_id: str | None = None
    deleted: tuple[Pipeline, ...] = ()  # those of ``pipelines`` that are no longer there

    @property
    def starts(self) -> tuple[Pipeline, ...]:
        """The pipelines that it can start, or could if it were enabled."""
        return tuple(pipeline for pipeline in self.pipelines if pipeline not in self.deleted)

    @property
    def is_orphaned(self) -> bool:
        """True where all that it started was deleted; such a schedule may stay."""
        return bool(self.pipelines) and not self.starts


class PollStatus(Struct, frozen=True, kw_only=True, gc=False):
    """How one poll of one workspace is doing. Instants are ours; ``overdue_at`` is monotonic."""

    workspace: str
    poll: str
    last_attempt_at: datetime
    last_success_at: datetime | None
    last_outcome: PollOutcome
    overdue_at: float | None = None  # past this without success it counts as late

    def is_overdue(self, monotonic: float) -> bool:
        return self.overdue_at is not None and self.overdue_at < monotonic


class BudgetStatus(Struct, frozen=True, kw_only=True, gc=False):
    """What the workspace and our own settings allow. Counts are requests."""

    scope: str  # "own", "user", "workspace"
    limit: int
    remaining: int
    starved: tuple[str, ...] = ()  # of our own: classes of requests that found no room lately


SCHEDULES = "schedules"  # stands among kinds of runs for what is unwatched


class RefusedCapability(Struct, frozen=True, kw_only=True, gc=False):
    """A capability that the workspace offered before and refuses now.

    What it never offered is only absent from `WorkspaceStatus.capabilities`. ``unwatched`` is of
    what nothing new is seen without it: kinds of runs, `SCHEDULES`, "flows", "plans".
    """

    capability: str
    since: datetime  # our clock
    reason: str  # one sentence: how the workspace refuses it
    unwatched: tuple[str, ...] = ()


class DoubtedList(Struct, frozen=True, kw_only=True, gc=False):
    """A list of the workspace that lacks rows which must be in it. Nothing follows from it."""

    name: str  # "job groups", "plan runs", "flows", "plans", "schedules"
    since: datetime  # our clock
    reason: str  # one sentence: what it lacks
    unwatched: tuple[str, ...] = ()  # as of `RefusedCapability`


class TooManyRuns(Struct, frozen=True, kw_only=True, gc=False):
    """More runs are active than are followed at once; further ones are not seen."""

    since: datetime  # our clock
    reason: str  # one sentence: how many there are
    unwatched: tuple[str, ...] = ()  # as of `RefusedCapability`


class UnsharedPipeline(Struct, frozen=True, kw_only=True, gc=False):
    """A flow or plan that was known, is refused by its id, and has left the lists with its runs.

    Others of the workspace are shown as ever, so this says nothing about them.
    """

    pipeline: Pipeline
    since: datetime  # our clock
    hidden_from: datetime  # workspace time; all that it did until then is known
    reason: str  # one sentence: how its own read is refused


class ClockSetBack(Struct, frozen=True, kw_only=True, gc=False):
    """The workspace's clock was set back: new ends seem to lie before former ones.

    Before the start of following they even seem to be old.
    """

    since: datetime  # our clock
    reason: str  # one sentence with both times
    unwatched: tuple[str, ...] = ()  # as of `RefusedCapability`


class HistoryRead(Struct, frozen=True, kw_only=True, gc=False):
    """How far back the runs from before the start of following are read. Workspace time.

    Every run that was created at or after ``reached`` is known. ``is_over``: no more is read.
    """

    since: datetime  # it is to reach back so far
    until: datetime  # the start of following
    reached: datetime
    is_over: bool = False

    @property
    def words(self) -> str | None:
        """Such as "6 of 24 h read"; None where all was read."""
        if self.reached <= self.since:
            return None
        read, all_ = self.until - self.reached, self.until - self.since
        unit, name = (3_600.0, "h") if all_ >= timedelta(hours=2) else (60.0, "min")
        done, whole = max(0.0, read.total_seconds()) / unit, all_.total_seconds() / unit
        # Rounded down: never more than was read.
        shown = f"{int(done)}" if done >= 1 else f"{int(10 * done) / 10:g}"
        return f"{shown} of {whole:.0f} {name} read"


class UnreadableRun(Struct, frozen=True, kw_only=True, gc=False):
    """A run whose reads all fail. ``tried_at`` (ours): the last one."""

    kind: RunKind
    id: str
    tried_at: datetime
    reason: str


class UnlistedRuns(Struct, frozen=True, kw_only=True, gc=False):
    """Runs that their ids show and no list ever did, although it shows others of their kind.

    Of such runs only those are seen that are named. ``ids`` are some of them.
    """

    kind: RunKind
    ids: tuple[str, ...]
    count: int


def pipeline_key(kind: PipelineKind, pipeline_id: str) -> str:
    return f"{kind}/{pipeline_id}"


UnwatchedCause = RefusedCapability | DoubtedList | TooManyRuns | ClockSetBack


REFRESH_TOKEN = "refresh_token"  # noqa: S105 - stands among the ids of tokens


class TokenTroubleKind(StrEnum):
    """How a token pair is in danger; after `REFRESH_TOKEN`, each has an alert of its own."""

    LOCKED_OUT = "locked_out"
    ANSWER_LOST = "answer_lost"
    NEW_TOKEN_REFUSED = "new_token_refused"  # noqa: S105 - a word
    NOT_REFRESHED = "not_refreshed"

    @property
    def token_id(self) -> str:
        return f"{REFRESH_TOKEN}/{self.value}"


class TokenTrouble(Struct, frozen=True, kw_only=True, gc=False):
    """Why the token pair of a workspace is in danger, or lost."""

    kind: TokenTroubleKind
    since: datetime  # our clock
    reason: str  # what happened, in one sentence without its full stop
    advice: str  # what to do, likewise


class Authentication(StrEnum):
    """How requests to a workspace are authenticated."""

    NONE = "none"
    STATIC_TOKEN = "static_token"  # noqa: S105 - a word; only a person renews it
    REFRESHED_TOKEN = "refreshed_token"  # noqa: S105 - a word


class TokenStatus(Struct, frozen=True, kw_only=True, gc=False):
    """The refreshed tokens of a workspace. Instants are ours."""

    refreshed_at: datetime | None = None  # None: not yet
    expires_at: datetime | None = None  # of the access token in use; None: not stated
    pair_expires_at: datetime | None = None  # of the refresh token, as configured
    trouble: TokenTrouble | None = None


class WorkspaceStatus(Struct, frozen=True, kw_only=True, gc=False):
    """One workspace as it stands. ``known_at`` (our clock) is when that was last confirmed."""

    workspace: str
    reachability: Reachability = Reachability.UNKNOWN
    since: datetime | None = None
    known_at: datetime | None = None
    reason: str | None = None  # one sentence where something fails or is switched off
    paused_until: datetime | None = None  # our clock: the end of a long pause that it asked for
    is_remembered: bool = False  # as it was before the start; nothing has confirmed it since
    edition: str | None = None
    edition_reason: str | None = None
    capabilities: frozenset[str] = frozenset()
    refused: tuple[RefusedCapability, ...] = ()  # sorted by name
    doubted: tuple[DoubtedList, ...] = ()  # sorted by name
    too_many_runs: TooManyRuns | None = None
    unreadable: tuple[UnreadableRun, ...] = ()
    unshared: dict[str, UnsharedPipeline] = {}  # by `pipeline_key`
    unlisted: tuple[UnlistedRuns, ...] = ()  # of the last day, by kind
    clock_skew_seconds: float | None = None  # workspace minus ours
    clock_set_back: ClockSetBack | None = None
    followed_since: datetime | None = None  # workspace time
    history: HistoryRead | None = None  # None: not begun, or read before this start
    budgets: tuple[BudgetStatus, ...] = ()
    schedules: tuple[ScheduleKnown, ...] = ()
    schedules_read_at: datetime | None = None  # workspace time at which reading them all began
    schedules_read_before: datetime | None = None  # the same of the reading before, in this life
    schedules_of: str | None = None  # their owner: a token sees its owner's schedules only
    webhook_tasks: dict[str, int] = {}  # state -> count
    callbacks_missed: int = 0
    last_callback_at: datetime | None = None
    inventory: Inventory = Inventory()
    authentication: Authentication | None = None  # None: another daemon has the workspace
    token: TokenStatus | None = None  # None: it is not refreshed, or another daemon does that

    def time_there(self, now: datetime) -> datetime:
        """Return the workspace's time at our ``now``, as far as the difference is known."""
        return now + timedelta(seconds=self.clock_skew_seconds or 0.0)

    @property
    def how_unreachable(self) -> str:
        """Return such as "is unreachable", the end of a sentence."""
        until = self.paused_until
        return "is unreachable" if until is None else f"allows no requests until {until:%H:%M:%SZ}"

    @property
    def does_not_answer(self) -> str | None:
        """Return such as "does not answer: connection refused"; None where it answers."""
        if self.reachability is not Reachability.UNREACHABLE:
            return None
        if self.paused_until is not None:
            return self.how_unreachable
        words = reason_in_words(self.reason)
        return "does not answer" if words is None else f"does not answer: {words}"

    def why_unwatched(self, what: str) -> str | None:
        """Return why nothing new is seen of a kind of run, or of `SCHEDULES`; None while it is."""
        if self.reachability is Reachability.UNREACHABLE:
            return f"the workspace {self.how_unreachable}"
        causes = self.unwatched_causes()
        return next((cause.reason for cause in causes if what in cause.unwatched), None)

    def why_unshared(self, pipeline: Pipeline | None) -> str | None:
        """Return why nothing new is seen of a flow or plan, None where it is shown to us."""
        if not self.unshared or pipeline is None:
            return None
        known = self.unshared.get(pipeline_key(pipeline.kind, pipeline.id))
        return None if known is None else known.reason

    def unwatched_causes(self) -> tuple[UnwatchedCause, ...]:
        """Return why runs or schedules are unwatched although the workspace answers."""
        causes = (*self.refused, *self.doubted, self.too_many_runs, self.clock_set_back)
        return tuple(cause for cause in causes if cause is not None and cause.unwatched)


def unshared_pipelines(
    statuses: Iterable[WorkspaceStatus],
) -> dict[tuple[str, PipelineKind, str], str]:
    """Return why nothing new is seen of flows and plans, by workspace, kind and id."""
    return {
        (status.workspace, unshared.pipeline.kind, unshared.pipeline.id): unshared.reason
        for status in statuses
        for unshared in status.unshared.values()
    }


class NamedPipeline(Struct, frozen=True, kw_only=True, gc=False):
    """A pipeline of the inventory and the name that its series and page rows carry."""

    workspace: str
    kind: PipelineKind
    id: str
    name: str | None
    label: str  # the name, or ``name#id`` where a lower id holds the plain name
    folder: str | None = None  # its name, else its id; None outside folders, or where none is known
    owner: str | None = None  # e-mail address, else name

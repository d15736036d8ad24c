"""Alerts and their snapshot: what engine, outputs, metrics and page share."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum

import msgspec
from msgspec import Struct

from monitor.model.live_state import REFRESH_TOKEN
from monitor.model.runs import Pipeline, PipelineKind, RunKey, RunKind

BRIDGE = "bridge"  # stands where a workspace stands, for alerts about the daemon itself


# Facts of an alert that is over, beside those of its rule: why, where nothing became well; and what
# is called now as its pipeline was when it began.
ENDED_BECAUSE, NAME_TAKEN_BY = "ended_because", "name_taken_by"


class Severity(StrEnum):
    CRITICAL = "critical"
    WARNING = "warning"
    INFO = "info"


class AlertState(StrEnum):
    """The state of one alert. ``pending`` is shown on page and metrics only."""

    PENDING = "pending"
    FIRING = "firing"
    RESOLVED = "resolved"


class Acknowledgement(Struct, frozen=True, kw_only=True, gc=False):
    """People know of an alert: no reminders of it go out until then, its end does.

    Instants are ours. ``until`` None: as long as the alert is open.
    """

    author: str
    comment: str
    at: datetime
    until: datetime | None = None


class Alert(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """One alert from fired to resolved, in events and in the live state.

    ``labels`` are fixed when the alert starts, so that its end carries the same ones;
    ``starts_at`` is taken from the evidence, never from now. ``templates`` are the annotations as
    they are configured: `alert_texts.texts_of` says what they read at some time.
    """

    fingerprint: str
    name: str  # of the rule as configured: label ``alertname`` and topic level
    rule: str  # what kind of rule it is
    severity: Severity
    state: AlertState
    labels: dict[str, str]
    templates: dict[str, str] = msgspec.field(name="annotations")
    starts_at: datetime
    ends_at: datetime | None = None
    workspace: str  # BRIDGE for the daemon
    kind: RunKind | None = None
    pipeline: Pipeline | None = None
    run: RunKey | None = None  # the root run of the first evidence, as far as known
    evidence: tuple[str, ...] = ()  # ids of events, the newest 50
    evidence_count: int = 0
    facts: dict[str, str | float | None] = {}  # what templates may name: instants, no ages
    preexisting: bool = False  # true before the rule was first evaluated
    is_flapping: bool = False
    over_when_seen: bool = False  # it had ended before it was observed; fired and resolved at once
    muted_by: tuple[str, ...] = ()  # "silence:ID", "mute", "inhibited:FINGERPRINT"
    is_notified: bool = False  # ``fired`` or ``flapping`` went out, so ``resolved`` is owed
    notified_at: datetime | None = None  # ours; of the last of fired, flapping, reminded
    reminders: int = 0
    acknowledged: Acknowledgement | None = None

    @property
    def is_by_our_clock(self) -> bool:
        """True where its instants are ours: of a workspace as such, or a pair that we refresh."""
        if self.kind is not None or self.pipeline is not None or "schedule" in self.labels:
            return False
        token = self.labels.get("token_id")
        return token is None or token.partition("/")[0] == REFRESH_TOKEN

    def is_about(self, pipeline: str) -> bool:
        """True where it is about the flow or plan of that id or name."""
        of = self.pipeline
        return of is not None and pipeline in (of.id, of.name, self.labels.get("pipeline"))


def fingerprint(name: str, identity: Mapping[str, str]) -> str:
    """Return 16 hex digits over the rule's name and the identity labels (ids, never names)."""
    text = msgspec.json.encode([name, sorted(identity.items())])
    return hashlib.sha256(text).hexdigest()[:16]


# Numbers of the transitions of an alert that may begin more than once under its start.
OPENINGS = (0, *range(2, 10))


def alert_event_id(key: str, starts_at: datetime, transition: str, number: int = 0) -> str:
    """Return the id of one transition; ``number`` for those that may recur in an alert."""
    start = starts_at.astimezone(UTC).strftime("%Y%m%dT%H%M%S%fZ")
    return f"alert:{key}:{start}:{transition}" + (f":{number}" if number else "")


class Silence(Struct, frozen=True, kw_only=True, gc=False):
    """A silence: matchers that must all fit, from when until when, by whom and why."""

    id: str
    matchers: tuple[str, ...]  # "label=glob" or "label!=glob"
    author: str
    comment: str
    starts_at: datetime
    ends_at: datetime
    origin: str  # "config" or "api"


class PastPlace(Struct, frozen=True, order=True):
    """The place of an ended alert in the order of `PastQuery`."""

    ended_at: datetime
    fingerprint: str
    starts_at: datetime


class PastQuery(Struct, frozen=True, kw_only=True):
    """Which ended alerts to return; None: any. The newest end comes first.

    ``since`` and ``before`` are about the end: from the one on, and before the other.
    """

    workspace: str | None = None
    pipeline: tuple[PipelineKind, str] | None = None  # of a flow or plan: kind and id
    pipeline_named: str | None = None  # its id or name
    rule: str | None = None  # as configured: the name, not the kind
    rule_kind: str | None = None
    severity: Severity | None = None
    since: datetime | None = None
    before: datetime | None = None
    after: PastPlace | None = None  # only what comes after this one, for pages
    limit: int = 100


class AppliedRule(Struct, frozen=True, kw_only=True):
    """A rule at work beside one pipeline: whether it applies there, and from when on it fires."""

    name: str
    rule: str  # its kind
    severity: Severity
    applies: bool
    threshold: str  # in words, with units
    why_not: str | None = None  # what of ``match`` does not fit


class LearnedLimit(Struct, frozen=True, kw_only=True, gc=False):
    """How long runs of one pipeline may take, by what its former runs took."""

    workspace: str
    kind: RunKind
    pipeline: Pipeline
    seconds: float
    runs: int  # that it was learned from


PipelineOfKind = tuple[str, RunKind, str]  # workspace, kind of run, id of flow or plan


class OverwrittenTopics(Struct, frozen=True, kw_only=True):
    """A retained topic of ours that another client overwrites again after each repair."""

    since: datetime  # our clock
    topic: str


class Trouble(Struct, frozen=True, kw_only=True):
    """What a daemon, its clock or store, or the cluster lacks."""

    part: str  # daemon:NAME or shard:NAME of the cluster; clock, or clock:DAEMON@SHARD
    since: datetime  # our clock
    reason: str


class DaemonCondition(Struct, frozen=True, kw_only=True):
    """What alerting is told of the daemon beside the figures of the store.

    ``shard`` sets apart the parts of shards that have a name, which may be at any daemon.
    ``troubles`` is None while the cluster is to be read for the first time. Ages by which something
    is deleted are judged by ``ages_at``, None: by the clock.
    """

    shard: str = ""
    overwritten: OverwrittenTopics | None = None
    troubles: tuple[Trouble, ...] | None = ()
    ages_at: datetime | None = None


class StartAfterGrace(Struct, frozen=True, kw_only=True):
    """What is awaited once the next start is later than the rule allows."""

    grace_ends_at: datetime
    grace_seconds: float  # of the rule; a wall time that comes twice is awaited for longer
    next_at: datetime | None = None


class PipelineDeadlines(Struct, frozen=True, kw_only=True):
    """The deadlines of one flow or plan, by the workspace's time.

    ``next_at`` is the first that is neither met nor missed; ``missed_at`` the oldest one since
    which nothing that counts has succeeded. Both counts are of all that were ever decided.
    """

    next_at: datetime | None
    missed_at: datetime | None
    met: int
    missed: int


class AlertingSnapshot(Struct, frozen=True, kw_only=True):
    """The present state of alerting: for metrics, retained topics, page and API."""

    alerts: tuple[Alert, ...] = ()  # pending, firing, and resolved for an hour
    silences: tuple[Silence, ...] = ()
    limits: tuple[LearnedLimit, ...] = ()
    cadences: tuple[LearnedLimit, ...] = ()  # since the last success, until one is late
    expected: dict[PipelineOfKind, datetime] = {}  # the next start, workspace time
    after_grace: dict[PipelineOfKind, StartAfterGrace] = {}  # what comes when that one is overdue
    missed: dict[PipelineOfKind, int] = {}  # expected starts that never came, ever
    deadlines: dict[PipelineOfKind, PipelineDeadlines] = {}
    transitions: dict[tuple[str, str], int] = {}  # rule's name, to -> how often, ever
    rules: tuple[tuple[str, Severity], ...] = ()  # those at work, by name
    failing_rules: dict[str, str] = {}  # rule's name -> what it last raised
    failures: dict[str, int] = {}  # rule's name -> how often it raised in this life

    def expected_start(self, pipeline: PipelineOfKind, *, now: datetime) -> datetime | None:
        """Return the next start that none has met; ``now`` is workspace time.

        It lies in the past while a start is late, and never further back than its grace. None
        where nothing is awaited, or where past starts have not been evaluated yet.
        """
        at, later = self.expected.get(pipeline), self.after_grace.get(pipeline)
        if later is None or now < later.grace_ends_at:
            return at
        is_coming = later.next_at is not None and later.next_at > now
        return later.next_at if is_coming else None

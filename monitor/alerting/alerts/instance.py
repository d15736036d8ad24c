"""The stored state of an alert and of its fingerprint. Pure data."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from msgspec import Struct

from monitor.model.alerts import Alert, AlertState
from monitor.model.events import run_of_event_id
from monitor.model.runs import RunKey


class AlertSpan(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An ended alert: from when until when, and how far its numbered transitions went."""

    starts_at: datetime
    ends_at: datetime
    openings: int = 1  # how often an alert began with this start
    reminders: int = 0
    silenced: int = 0
    acknowledgements: int = 0


class FingerprintHistory(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What stays of a fingerprint between its alerts; kept as long as the log keeps event ids.

    ``spans`` are the newest ended alerts, oldest first. ``starts`` are those of the newest alerts
    that fired; they decide on flapping.
    """

    spans: tuple[AlertSpan, ...] = ()
    starts: tuple[datetime, ...] = ()

    @property
    def last_end(self) -> datetime | None:
        """Return when the last of its alerts ended."""
        return max((span.ends_at for span in self.spans), default=None)

    def span_from(self, starts_at: datetime) -> AlertSpan | None:
        """Return the ended alert with this start."""
        return next((span for span in self.spans if span.starts_at == starts_at), None)

    def span_around(self, at: datetime) -> AlertSpan | None:
        """Return the ended alert that an instant lies inside of."""
        around = (span for span in self.spans if span.starts_at <= at <= span.ends_at)
        return next(around, None)


class Inhibitor(Struct, frozen=True, kw_only=True, gc=False):
    """Another open alert that this one waits for, since both are about one failure.

    It is over once that fingerprint has had a later end than ``last_end``. ``until`` (ours): the
    link between their runs is only likely, and is waited for so long.
    """

    fingerprint: str
    last_end: datetime | None = None
    until: datetime | None = None


class AlertInstance(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An alert and what its next step depends on.

    ``since``, ``quiet_since`` and ``acknowledged_until`` are our clock.
    """

    alert: Alert
    since: datetime  # of the newest change of its state
    past: FingerprintHistory = FingerprintHistory()
    is_met: bool = True  # the newest evaluation result was `Firing`
    clear_since: datetime | None = None  # of a flapping alert: by the clock of its subject
    quiet_since: datetime | None = None  # the same by our clock
    silenced: int = 0  # how often a silence began for it
    acknowledgements: int = 0  # how often it was acknowledged while it fired
    acknowledged_until: datetime | None = None  # None: as long as it is open
    owes_reminder: bool = False  # an acknowledgement ended, and no reminder went out since
    opening: int = 1  # counts the alerts of the fingerprint that began with the same start
    newest_run: RunKey | None = None  # root run of the newest evidence; None: the alert's own
    inhibited_by: tuple[Inhibitor, ...] = ()

    @property
    def root_run(self) -> RunKey | None:
        """The root run of the newest evidence."""
        return self.newest_run or self.alert.run

    def has_ended_around(self, instant: datetime) -> bool:
        """True where the alert is over, and lasted at that time."""
        ends_at = self.alert.ends_at
        return ends_at is not None and self.alert.starts_at <= instant <= ends_at

    @property
    def evidence_runs(self) -> frozenset[RunKey]:
        """The runs that the ids of its evidence name."""
        runs = map(run_of_event_id, self.alert.evidence)
        return frozenset(run for run in runs if run is not None)

    @property
    def is_open(self) -> bool:
        """True where it is pending or firing."""
        return self.alert.state is not AlertState.RESOLVED


# What is stored under one fingerprint.
FingerprintState = AlertInstance | FingerprintHistory


class StepWord(StrEnum):
    """What a rule's result, or time, made of an alert. Explanations show the values."""

    UNCHANGED = ""
    FIRED = "fired"
    FLAPPING = "flapping"
    REMINDED = "reminded"
    RESOLVED = "resolved"
    SILENCED = "silenced"
    ACKNOWLEDGED = "acknowledged"
    MUTED = "muted"
    PENDING = "pending"
    DEDUPLICATED = "deduplicated"
    OK = "ok"
    UNKNOWN = "unknown"
    NO_RESULT = "no result"
    RULE_FAILED = "rule failed"
    ENDED_PENDING = "it ended while it was pending"
    TOO_SHORT = "it was over before it had lasted long enough"
    ENDED_UNNOTIFIED = "it ended before anybody was notified"


class LifecycleOutcome(Struct, frozen=True, kw_only=True):
    """The state after one step. ``state`` is the very object that went in where nothing changed.

    ``number`` counts published steps that may recur under one start.
    """

    state: FingerprintState
    step: StepWord = StepWord.UNCHANGED
    is_published: bool = False  # the step is an event of the alert
    occurred_at: datetime | None = None
    number: int = 0

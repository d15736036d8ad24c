"""What one step makes of an alert: its next state, the transitions to publish, and a word."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from msgspec import Struct

from monitor.alerting.alerts.instance import FingerprintState
from monitor.model.alerts import Alert


class StepWord(StrEnum):
    """What a rule's result, or time, made of an alert. Explanations show the values."""

    UNCHANGED = ""
    FIRED = "fired"
    FLAPPING = "flapping"
    REMINDED = "reminded"
    RESOLVED = "resolved"
    SILENCED = "silenced"
    MUTED = "muted"
    PENDING = "pending"
    DEDUPLICATED = "deduplicated"
    POSTPONED = "postponed"  # the event waits for the runs that may contain its run
    OK = "ok"
    UNKNOWN = "unknown"
    NO_RESULT = "no result"
    RULE_FAILED = "rule failed"
    ENDED_PENDING = "it ended while it was pending"
    ENDED_UNNOTIFIED = "it ended before anybody was notified"


class Transition(Struct, frozen=True, kw_only=True):
    """A transition to publish. ``number`` counts transitions that may recur within an alert."""

    word: StepWord
    alert: Alert
    occurred_at: datetime | None
    number: int = 0


class LifecycleOutcome(Struct, frozen=True, kw_only=True):
    """The state after one step. ``state`` is the very object that went in where nothing changed."""

    state: FingerprintState
    step: StepWord = StepWord.UNCHANGED
    transition: Transition | None = None

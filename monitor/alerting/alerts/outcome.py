"""The result of one step for an alert: its next state, a word, and whether to publish it."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from msgspec import Struct

from monitor.alerting.alerts.instance import FingerprintState


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

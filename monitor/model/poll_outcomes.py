"""The outcomes of an attempt of a poll: labels of ``polls_total``, and their words for people."""

from __future__ import annotations

from enum import StrEnum
from typing import Self


class PollOutcome(StrEnum):
    """How an attempt ended. A failure is named by the first of these errors that fits."""

    in_words: str

    OK = "ok", "succeeded"
    IDLE = "idle", "nothing to read"
    UNREACHABLE = "unreachable", "the workspace did not answer, or not as its API does"
    THROTTLED = "throttled", "the workspace asked to wait"
    BUDGET = "budget", "no room in the request budget"
    LEASE = "lease", "this daemon could not confirm that it still holds the workspace"
    DOUBTED = "doubted", "the list lacks rows that must be in it"
    INCOMPLETE = "incomplete", "the workspace answered in part; read again soon"
    UNAUTHORIZED = "unauthorized", "the token was refused"
    NOT_AVAILABLE = "not_available", "the workspace does not serve it"
    NO_SUCH_OBJECT = "no_such_object", "what was to be read does not exist"
    REJECTED = "rejected", "the workspace rejected the request"
    UNREADABLE = "unreadable", "the answer could not be read"
    STORE = "store", "the store took no writes"
    FAILED = "failed", "failed"

    def __new__(cls, label: str, in_words: str = "") -> Self:
        outcome = str.__new__(cls, label)
        outcome._value_ = label
        outcome.in_words = in_words
        return outcome


# After these nothing is missing: what a workspace does not serve is shown as a capability.
WELL_OUTCOMES = frozenset({PollOutcome.OK, PollOutcome.IDLE, PollOutcome.NOT_AVAILABLE})
# Other outcomes pass by themselves, or show nothing about the workspace: budgets, our own store.
FAILED_OUTCOMES = frozenset(
    {
        PollOutcome.UNREACHABLE,
        PollOutcome.UNAUTHORIZED,
        PollOutcome.UNREADABLE,
        PollOutcome.REJECTED,
        PollOutcome.NO_SUCH_OBJECT,
        PollOutcome.FAILED,
    }
)
# These are no failures before a success is overdue: a wait within a minute is kept.
STARVED_OUTCOMES = frozenset({PollOutcome.THROTTLED, PollOutcome.BUDGET})

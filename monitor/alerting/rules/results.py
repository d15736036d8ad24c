"""The result of a rule: firing, ok or unknown, and what it remembers. Pure data."""

from __future__ import annotations

from datetime import datetime
from typing import Generic, TypeVar

from msgspec import Struct

from monitor.model.runs import RunKey

M = TypeVar("M", bound=Struct)

Facts = dict[str, str | float | None]  # what a result gives to the texts of its alert


class Firing(Struct, frozen=True, kw_only=True, gc=False):
    """True since ``since``, as of ``as_of``; both by the clock of the subject."""

    since: datetime
    as_of: datetime
    evidence: tuple[str, ...] = ()
    run: RunKey | None = None
    facts: Facts = {}
    preexisting: bool = False


class OverWhenSeen(Struct, frozen=True, kw_only=True, gc=False):
    """Was true from ``since`` to ``until``, and over before it was observed.

    ``is_known``: ``run`` was known to have failed, by a part of it, so there was an alert about it.
    """

    since: datetime
    until: datetime
    evidence: tuple[str, ...] = ()
    run: RunKey | None = None
    facts: Facts = {}
    is_known: bool = False


class Ok(Struct, frozen=True, kw_only=True, gc=False):
    """False, or no longer true, since ``at``. With a ``reason`` it never will be again."""

    at: datetime
    evidence: tuple[str, ...] = ()
    reason: str | None = None


class Unknown(Struct, frozen=True, gc=False):
    """Cannot be decided now; an alert stays as it is."""

    why: str


EvaluationResult = Firing | OverWhenSeen | Ok | Unknown


class RuleAnswer(Struct, Generic[M], frozen=True):
    """``memory`` None keeps nothing. ``again_at``: evaluate again when the clock has reached it."""

    result: EvaluationResult | None
    memory: M | None = None
    again_at: datetime | None = None

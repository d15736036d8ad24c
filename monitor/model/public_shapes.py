"""The public shapes of a run and an alert: what API, page and events say, and alerts on MQTT.

Each adds what only it says. A shape that renames fields on the wire declares them again. Most of
what is shown of a thing is known of it by the same names: `filled` copies that.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import cache
from operator import attrgetter
from typing import Any, TypeVar

from msgspec import Struct

from monitor.model.alerts import Acknowledgement, Severity
from monitor.model.runs import Implausible, RunKind, Trigger

S = TypeVar("S", bound=Struct)


class RunShape(Struct, frozen=True, kw_only=True):
    """One run. Instants are the workspace's; what it did not report is null.

    ``approximate`` names instants that it reported only indirectly, ``implausible`` what it
    reported and cannot be true. ``native_status`` is its own word.
    """

    id: str
    kind: RunKind
    status: str  # of ours; also ``unknown`` where it may have ended unseen
    native_status: str | None
    created_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    approximate: tuple[str, ...]
    implausible: tuple[Implausible, ...]
    duration_seconds: float | None
    trigger: Trigger
    owner: str | None
    error: str | None
    url: str | None


class AlertShape(Struct, frozen=True, kw_only=True):
    """One alert. Instants are on the clock of its subject.

    ``evidence`` are ids of events, the newest ones; ``evidence_count`` counts them all.
    ``muted_by`` says why it fires without a notification: ``silence:ID``, ``mute``,
    ``inhibited:FINGERPRINT``. ``preexisting``: true before its rule was first evaluated.
    ``acknowledged`` is None again once an acknowledgement has ended while it fires.
    """

    fingerprint: str
    name: str
    rule: str
    severity: Severity
    labels: dict[str, str]
    annotations: dict[str, str]
    facts: dict[str, str | float | None]
    starts_at: datetime
    ends_at: datetime | None
    muted_by: tuple[str, ...]
    preexisting: bool
    over_when_seen: bool
    is_flapping: bool
    acknowledged: Acknowledgement | None
    evidence: tuple[str, ...]
    evidence_count: int


def filled(shape: type[S], known: object, **others: Any) -> S:
    """Return a shape with these fields, and every other one as ``known`` has it.

    Raises:
        AttributeError: ``known`` lacks one of them.
    """
    names, values_of = _copied(shape, *others)
    return shape(**dict(zip(names, values_of(known), strict=False)), **others)


@cache  # for each place that calls `filled`
def _copied(shape: type[Struct], *others: str) -> tuple[list[str], Callable[[object], Any]]:
    """Return the names of what is copied, and what gets their values, and two more, of a thing."""
    names = [name for name in shape.__struct_fields__ if name not in others]
    # Of fewer than two names it would return no tuple.
    return names, attrgetter(*names, "__class__", "__class__")

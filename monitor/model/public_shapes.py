"""The public shapes of a run and an alert: what API, page and events say, and alerts on MQTT.

Each adds what only it says. A shape that renames fields on the wire declares them again.
"""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from monitor.model.alerts import Severity
from monitor.model.runs import Implausible, RunKind, Trigger


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
    evidence: tuple[str, ...]
    evidence_count: int

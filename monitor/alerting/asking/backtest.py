"""Holds what rules would have told against what was told. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from msgspec import Struct

from monitor.alerting.settings.rules import RuleKind, RuleSettings
from monitor.model.alerts import Alert
from monitor.model.events import AlertEvent, EventType

# What these look at is the present, which no log holds.
NOT_RECORDED = frozenset(
    {
        RuleKind.RUN_STUCK,
        RuleKind.SCHEDULE_DISABLED,
        RuleKind.WORKSPACE_UNREACHABLE,
        RuleKind.TOKEN_EXPIRING,
        RuleKind.CALLBACKS_MISSED,
        RuleKind.QUALITY_DROPPED,
        RuleKind.BUDGET_EXHAUSTED,
        RuleKind.MONITOR_DEGRADED,
    }
)
_SAME_START = timedelta(seconds=90)  # of one episode, once by looks and once by replay
_STARTS = (EventType.ALERT_FIRED, EventType.ALERT_FLAPPING)


class Firing(Struct, frozen=True, kw_only=True, order=True):
    """One start of an alert."""

    starts_at: datetime
    rule: str
    fingerprint: str
    workspace: str
    pipeline: str
    summary: str


class Compared(Struct, frozen=True, kw_only=True):
    """One rule: what it would have told, and what a rule of that name did tell."""

    rule: str
    is_recorded: bool  # False: the log does not hold what this rule looks at
    would_fire: int
    did_fire: int
    only_new: tuple[Firing, ...]
    only_old: tuple[Firing, ...]


def firing_of(alert: Alert) -> Firing:
    return Firing(
        starts_at=alert.starts_at,
        rule=alert.name,
        fingerprint=alert.fingerprint,
        workspace=alert.workspace,
        pipeline=alert.labels.get("pipeline", ""),
        summary=alert.annotations.get("summary", ""),
    )


def firings(events: Iterable[object]) -> list[Firing]:
    """Return the starts among events, each once."""
    found = [
        firing_of(one.alert)
        for one in events
        if isinstance(one, AlertEvent) and one.type in _STARTS
    ]
    return list(dict.fromkeys(found))


def compared(
    rules: Sequence[RuleSettings], would: Sequence[Firing], did: Sequence[Firing]
) -> list[Compared]:
    """Return one row for each rule, in their order; then those that only the past knows."""
    new, old = _by_rule(would), _by_rule(did)
    kinds = {one.name: one.rule for one in rules if one.is_enabled}
    return [
        _one(name, kinds.get(name), new.get(name, []), old.get(name, []))
        for name in dict.fromkeys([*kinds, *old])
    ]


def _one(
    name: str, kind: RuleKind | None, would: Sequence[Firing], did: Sequence[Firing]
) -> Compared:
    is_recorded = kind not in NOT_RECORDED
    left = list(did)
    only_new: list[Firing] = []
    for one in would:
        twin = next((other for other in left if _is_same(one, other)), None)
        if twin is None:
            only_new.append(one)
        else:
            left.remove(twin)
    return Compared(
        rule=name,
        is_recorded=is_recorded,
        would_fire=len(would),
        did_fire=len(did),
        only_new=tuple(only_new),
        only_old=tuple(left) if is_recorded else (),
    )


def _is_same(one: Firing, other: Firing) -> bool:
    return (
        one.fingerprint == other.fingerprint and abs(one.starts_at - other.starts_at) <= _SAME_START
    )


def _by_rule(told: Iterable[Firing]) -> dict[str, list[Firing]]:
    found: defaultdict[str, list[Firing]] = defaultdict(list)
    for one in sorted(told):
        found[one.rule].append(one)
    return found

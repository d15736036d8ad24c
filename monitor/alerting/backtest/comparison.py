"""Holds what rules would have told against what was told. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from msgspec import Struct

from monitor.alerting.rules.rule_settings import RuleKind, RuleSettings
from monitor.alerting.rules.table import RULE_DEFINITIONS
from monitor.model.alerts import Alert
from monitor.model.events import AlertEvent, EventType

# These need live state, which the event log does not hold.
NOT_RECORDED = frozenset(
    rule for rule, definition in RULE_DEFINITIONS.items() if definition.not_recorded
)
_SAME_START = timedelta(seconds=90)  # of one episode, once by looks and once by replay
_STARTS = (EventType.ALERT_FIRED, EventType.ALERT_FLAPPING)


class BacktestFiring(Struct, frozen=True, kw_only=True, order=True):
    """One start of an alert."""

    starts_at: datetime
    rule: str
    fingerprint: str
    workspace: str
    pipeline: str
    summary: str


class RuleComparison(Struct, frozen=True, kw_only=True):
    """One rule: what it would have told, and what a rule of that name did tell."""

    rule: str
    is_recorded: bool  # False: the log does not hold what this rule looks at
    would_fire: int
    did_fire: int
    only_new: tuple[BacktestFiring, ...]
    only_old: tuple[BacktestFiring, ...]


def firing_of(alert: Alert) -> BacktestFiring:
    return BacktestFiring(
        starts_at=alert.starts_at,
        rule=alert.name,
        fingerprint=alert.fingerprint,
        workspace=alert.workspace,
        pipeline=alert.labels.get("pipeline", ""),
        summary=alert.annotations.get("summary", ""),
    )


def firings(events: Iterable[object]) -> list[BacktestFiring]:
    """Return the starts among events, each once."""
    found = [
        firing_of(event.alert)
        for event in events
        if isinstance(event, AlertEvent) and event.type in _STARTS
    ]
    return list(dict.fromkeys(found))


def compared(
    rules: Sequence[RuleSettings], would: Sequence[BacktestFiring], did: Sequence[BacktestFiring]
) -> list[RuleComparison]:
    """Return one row for each rule, in their order; then those that only the past knows."""
    new, old = _by_rule(would), _by_rule(did)
    kinds = {rule.name: rule.rule for rule in rules if rule.is_enabled}
    return [
        _one(name, kinds.get(name), new.get(name, []), old.get(name, []))
        for name in dict.fromkeys([*kinds, *old])
    ]


def _one(
    name: str, kind: RuleKind | None, would: Sequence[BacktestFiring], did: Sequence[BacktestFiring]
) -> RuleComparison:
    is_recorded = kind not in NOT_RECORDED
    left = list(did)
    only_new: list[BacktestFiring] = []
    for firing in would:
        twin = next((other for other in left if _is_same(firing, other)), None)
        if twin is None:
            only_new.append(firing)
        else:
            left.remove(twin)
    return RuleComparison(
        rule=name,
        is_recorded=is_recorded,
        would_fire=len(would),
        did_fire=len(did),
        only_new=tuple(only_new),
        only_old=tuple(left) if is_recorded else (),
    )


def _is_same(first: BacktestFiring, other: BacktestFiring) -> bool:
    return (
        first.fingerprint == other.fingerprint
        and abs(first.starts_at - other.starts_at) <= _SAME_START
    )


def _by_rule(told: Iterable[BacktestFiring]) -> dict[str, list[BacktestFiring]]:
    found: defaultdict[str, list[BacktestFiring]] = defaultdict(list)
    for firing in sorted(told):
        found[firing.rule].append(firing)
    return found

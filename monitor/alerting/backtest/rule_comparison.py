"""Compares the alerts that rules would have fired with those that fired. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from enum import StrEnum

from msgspec import Struct

from monitor.alerting.rules.rule_settings import RuleKind, RuleSettings
from monitor.alerting.rules.table import RULE_DEFINITIONS
from monitor.model.alert_texts import texts_of
from monitor.model.events import AlertEvent, EventType

_SAME_START = timedelta(seconds=90)  # of one alert, by a daemon's evaluations and by a replay's
_STARTS = (EventType.ALERT_FIRED, EventType.ALERT_FLAPPING)


class BacktestFiring(Struct, frozen=True, kw_only=True, order=True):
    """One alert that fired or would have fired."""

    starts_at: datetime
    rule: str
    fingerprint: str
    workspace: str
    pipeline: str
    summary: str


class Side(StrEnum):
    """Whose alert it is: of the rules that are tested, or of those that were in force."""

    NEW = "new"
    OLD = "old"


class Undecided(Struct, frozen=True, kw_only=True, order=True):
    """An alert of one side; the log lacks what decides whether the other side has it."""

    firing: BacktestFiring
    side: Side
    why: str  # what is not recorded


class RuleComparison(Struct, frozen=True, kw_only=True):
    """One rule: what it would have fired, and what a rule of that name did fire."""

    rule: str
    not_recorded: str  # why the log does not hold what it evaluates; empty where it does
    would_fire: int
    did_fire: int
    only_new: tuple[BacktestFiring, ...]
    only_old: tuple[BacktestFiring, ...]
    undecided: tuple[Undecided, ...] = ()  # in neither of them


def firings(events: Iterable[object]) -> list[BacktestFiring]:
    """Return the alerts that fired by these events, each once."""
    alerts = [
        event.alert for event in events if isinstance(event, AlertEvent) and event.type in _STARTS
    ]
    found = [
        BacktestFiring(
            starts_at=alert.starts_at,
            rule=alert.name,
            fingerprint=alert.fingerprint,
            workspace=alert.workspace,
            pipeline=alert.labels.get("pipeline", ""),
            summary=texts_of(alert, alert.starts_at, is_kept=True).get("summary", ""),
        )
        for alert in alerts
    ]
    return list(dict.fromkeys(found))


def compare(
    rules: Sequence[RuleSettings], would: Sequence[BacktestFiring], did: Sequence[BacktestFiring]
) -> list[RuleComparison]:
    """Return one row for each rule, in their order; then those that only the log knows."""
    new, old = _by_rule(would), _by_rule(did)
    kinds = {rule.name: rule.rule for rule in rules if rule.is_enabled}
    return [
        _comparison(name, _not_recorded(kinds.get(name)), new[name], old[name])
        for name in dict.fromkeys([*kinds, *old])
    ]


def _comparison(
    name: str, not_recorded: str, would: Sequence[BacktestFiring], did: Sequence[BacktestFiring]
) -> RuleComparison:
    new, old = dict(enumerate(would)), dict(enumerate(did))
    for number, same in _pairs(would, did):
        if number in new and same in old:
            del new[number], old[same]
    return RuleComparison(
        rule=name,
        not_recorded=not_recorded,
        would_fire=len(would),
        did_fire=len(did),
        only_new=tuple(new.values()),
        only_old=() if not_recorded else tuple(old.values()),
    )


def _not_recorded(kind: RuleKind | None) -> str:
    return "" if kind is None else RULE_DEFINITIONS[kind].not_recorded


def _pairs(would: Sequence[BacktestFiring], did: Sequence[BacktestFiring]) -> list[tuple[int, int]]:
    """Return the indexes of those that may be the same alert, the nearest starts first."""
    by_fingerprint: defaultdict[str, list[int]] = defaultdict(list)
    for index, old in enumerate(did):
        by_fingerprint[old.fingerprint].append(index)
    pairs = [
        (distance, number, index)
        for number, new in enumerate(would)
        for index in by_fingerprint[new.fingerprint]
        if (distance := abs(new.starts_at - did[index].starts_at)) <= _SAME_START
    ]
    return [(number, index) for _, number, index in sorted(pairs)]


def _by_rule(fired: Iterable[BacktestFiring]) -> defaultdict[str, list[BacktestFiring]]:
    by_rule: defaultdict[str, list[BacktestFiring]] = defaultdict(list)
    for firing in sorted(fired):
        by_rule[firing.rule].append(firing)
    return by_rule

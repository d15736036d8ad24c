"""What is kept for how long, and what the configuration no longer wants kept. Pure."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from itertools import product

import msgspec

from monitor.alerting.alerts.lifecycle import AlertPast
from monitor.alerting.alerts.pending_step import (
    ENDED,
    FIRST,
    MEMORY,
    PAST,
    RULE,
    SILENCE,
    Draft,
    EndedAlert,
    FirstEvaluated,
    Row,
    StoredRule,
)
from monitor.alerting.alerts.silences import SilenceSettings, configured_silence
from monitor.alerting.engine.evaluation import first_key
from monitor.alerting.rules.compiled import Rule
from monitor.alerting.rules.rule_settings import RuleKind
from monitor.model.alerts import BRIDGE, Silence
from monitor.model.runs import RunKind

_ENDED_KEPT = timedelta(days=7)
_ENDED_BOUND = 10_000
# As long as the log keeps ids at most: until then a start may not be used again.
_PAST_KEPT = timedelta(days=30)
_PAST_BOUND = 100_000
_SILENCES_KEPT = timedelta(days=1)  # after their end
_CONFIGURED = "config"


def sweep(pending: Draft, *, now: datetime) -> None:
    """Drop what is over for long, the oldest first where there is too much."""
    _drop(pending, ENDED, _ended_at, before=now - _ENDED_KEPT, bound=_ENDED_BOUND)
    _drop(pending, PAST, _last_end, before=now - _PAST_KEPT, bound=_PAST_BOUND)
    for key, silence in list(pending.rows(SILENCE)):
        if silence.ends_at < now - _SILENCES_KEPT:
            pending.put(SILENCE, key, None)


def keep_silences(
    pending: Draft, configured: Iterable[SilenceSettings], *, wall_now: datetime
) -> None:
    """Let the silences of the configuration be those that it holds now."""
    silences = [
        configured_silence(silence_settings, now=wall_now) for silence_settings in configured
    ]
    wanted = {other_silence.id: _begun(other_silence, pending) for other_silence in silences}
    for key, silence in list(pending.rows(SILENCE)):
        if silence.origin == _CONFIGURED and key not in wanted:
            pending.put(SILENCE, key, None)
    for key, silence in wanted.items():
        pending.put(SILENCE, key, silence)


def ended_at(silence: Silence, now: datetime) -> Silence:
    return msgspec.structs.replace(silence, starts_at=min(silence.starts_at, now), ends_at=now)


def forget_rules(pending: Draft, rules: Iterable[Rule]) -> None:
    """Drop what rules remember that are gone, or that are of another kind by now."""
    kinds = {rule.name: str(rule.settings.rule) for rule in rules}
    former = {name: row.rule for name, row in pending.rows(RULE)}
    gone = {name for name, kind in former.items() if kinds.get(name) != kind}
    for letter in (MEMORY, FIRST) if gone else ():
        for key, _ in list(pending.rows(letter)):
            if key.partition(":")[0] in gone:
                pending.put(letter, key, None)
    for name in gone - kinds.keys():
        pending.put(RULE, name, None)
    for name, kind in kinds.items():
        pending.put(RULE, name, StoredRule(rule=kind, considers_past=True))


def keep_judged(
    pending: Draft, rules: Iterable[Rule], *, watched: Iterable[str], wall_now: datetime
) -> None:
    """Take what a daemon has heard that did not look back for judged; to be called first.

    It has told its failures as they came. ``watched`` are the workspaces that it may have heard,
    where what it has left does not say.
    """
    old = {name: row.rule for name, row in pending.rows(RULE) if not row.considers_past}
    stayed = [
        other_rule
        for other_rule in rules
        if other_rule.definition.considers_past
        and old.get(other_rule.name) == other_rule.settings.rule
    ]
    if not stayed:
        return
    judged = {key.split(":")[1] for key, _ in pending.rows(FIRST)} - {BRIDGE}
    for workspace in judged or watched:
        for rule, kind in product(stayed, RunKind):
            key = first_key(rule, workspace, kind)
            if pending.get(FIRST, key) is None:
                pending.put(FIRST, key, FirstEvaluated(at=wall_now))


def forget_awaited(pending: Draft, rules: Iterable[Rule]) -> None:
    """Let rules await starts anew: those that came may be among events that were lost."""
    names = {rule.name for rule in rules if rule.settings.rule is RuleKind.SCHEDULE_MISSED}
    for key, _ in list(pending.rows(MEMORY)):
        if key.partition(":")[0] in names:
            pending.put(MEMORY, key, None)


def _begun(silence: Silence, pending: Draft) -> Silence:
    """A silence without a beginning began when it was first configured."""
    held: Silence | None = pending.get(SILENCE, silence.id)
    if held is None or held.starts_at > silence.starts_at:
        return silence
    return msgspec.structs.replace(silence, starts_at=held.starts_at)


def _ended_at(row: EndedAlert) -> datetime:
    return row.at


def _last_end(row: AlertPast) -> datetime | None:
    return row.last_end


def _drop(
    pending: Draft,
    letter: str,
    at: Callable[[Row], datetime | None],
    *,
    before: datetime,
    bound: int,
) -> None:
    """Drop what is older, and the oldest above the bound. A row without an instant stays."""
    # Not sorted: this runs on the loop again and again, and seldom has anything to drop.
    count, over = 0, []
    for key, row in pending.rows(letter):
        if (instant := at(row)) is not None:
            count += 1
            if instant < before:
                over.append(key)
    if (surplus := count - bound) > len(over):
        dated = ((at(row), key) for key, row in pending.rows(letter))
        over = [
            key
            for _, key in heapq.nsmallest(
                surplus, (other_row for other_row in dated if other_row[0])
            )
        ]
    for key in over:
        pending.put(letter, key, None)

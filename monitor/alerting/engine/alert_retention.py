"""Retention of alerting's rows: their ages, and those that no configuration needs. Pure."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterable, Iterator
from datetime import datetime, timedelta
from itertools import chain, islice, product, repeat
from operator import attrgetter
from urllib.parse import unquote

import msgspec

from monitor.alerting.alerts.pending_step import (
    ALERT,
    ENDED,
    FIRST,
    LEARNED,
    MEMORY,
    PAST,
    RULE,
    SILENCE,
    FirstEvaluated,
    PendingStep,
    Row,
    StoredRule,
)
from monitor.alerting.alerts.silences import SilenceSettings, configured_silence
from monitor.alerting.attribution.subjects import first_key
from monitor.alerting.engine.removed_subjects import RemovedSubjects
from monitor.alerting.rules.baselines import Learned, is_idle
from monitor.alerting.rules.compiled import Rule
from monitor.alerting.rules.contract import SubjectKind
from monitor.bus.contract import Retention
from monitor.model.alerts import BRIDGE, Silence
from monitor.model.runs import Pipeline, PipelineKind, RunKind
from monitor.model.slices import in_slices
from monitor.tracking.live_state import LiveStateView

_ENDED_KEPT = timedelta(days=7)  # at least
_ENDED_BOUND = 10_000
# As long as the log keeps ids at most: until then no start may be reused.
_PAST_KEPT = timedelta(days=30)
_PAST_BOUND = 100_000
_SILENCES_KEPT = timedelta(days=1)  # after their end
_CONFIGURED = "config"
_ROWS_AT_ONCE = 500  # of memory and baselines, with each sweep
_ROWS_IN_SLICE = 50  # of them, at up to 40 us: what was learned is decoded
_DATED_AT_ONCE = 1_000  # of 100,000 rows, which are only compared


async def sweep(pending: PendingStep, *, now: datetime, kept: Retention) -> None:
    """Drop what ended long ago, the oldest first where there is too much.

    Ended alerts stay as long as the log keeps their events.
    """
    ended_kept = max(_ENDED_KEPT, timedelta(seconds=kept.events_seconds))
    await _drop(pending, ENDED, attrgetter("at"), before=now - ended_kept, bound=_ENDED_BOUND)
    await _drop(pending, PAST, attrgetter("last_end"), before=now - _PAST_KEPT, bound=_PAST_BOUND)
    for key, silence in list(pending.rows(SILENCE)):
        if silence.ends_at < now - _SILENCES_KEPT:
            pending.put(SILENCE, key, None)


def keep_silences(
    pending: PendingStep, configured: Iterable[SilenceSettings], *, wall_now: datetime
) -> None:
    """Replace the silences of the configuration by those that it contains now."""
    silences = [configured_silence(settings, now=wall_now) for settings in configured]
    current = {silence.id: _with_start(silence, pending) for silence in silences}
    for key, silence in list(pending.rows(SILENCE)):
        if silence.origin == _CONFIGURED and key not in current:
            pending.put(SILENCE, key, None)
    for key, silence in current.items():
        pending.put(SILENCE, key, silence)


def expired(silence: Silence, now: datetime) -> Silence:
    return msgspec.structs.replace(silence, starts_at=min(silence.starts_at, now), ends_at=now)


def forget_rules(pending: PendingStep, rules: Iterable[Rule]) -> None:
    """Drop the memory of rules that were removed, or whose kind changed."""
    kinds = {rule.name: str(rule.settings.rule) for rule in rules}
    former = {name: row.rule for name, row in pending.rows(RULE)}
    removed = {name for name, kind in former.items() if kinds.get(name) != kind}
    for table in (MEMORY, FIRST) if removed else ():
        for key, _ in list(pending.rows(table)):
            if key.partition(":")[0] in removed:
                pending.put(table, key, None)
    for name in removed - kinds.keys():
        pending.put(RULE, name, None)
    for name, kind in kinds.items():
        pending.put(RULE, name, StoredRule(rule=kind, considers_past=True))


def keep_evaluated(
    pending: PendingStep, rules: Iterable[Rule], *, watched: Iterable[str], wall_now: datetime
) -> None:
    """Count rules as evaluated whose rows a daemon stored that did not consider earlier failures.

    It has handled its failures as events. ``watched`` are the workspaces whose events it may have
    handled, where its rows do not show it. To be called before `forget_rules`.
    """
    old = {name: row.rule for name, row in pending.rows(RULE) if not row.considers_past}
    stayed = [
        rule
        for rule in rules
        if rule.definition.considers_past and old.get(rule.name) == rule.settings.rule
    ]
    if not stayed:
        return
    evaluated = {key.split(":")[1] for key, _ in pending.rows(FIRST)} - {BRIDGE}
    for workspace in evaluated or watched:
        for rule, kind in product(stayed, RunKind):
            key = first_key(rule.name, workspace, kind)
            if pending.get(FIRST, key) is None:
                pending.put(FIRST, key, FirstEvaluated(at=wall_now))


def forget_awaited(pending: PendingStep, names: Collection[str]) -> None:
    """Drop which starts these rules await: their events may be among those that were lost."""
    for key, _ in list(pending.rows(MEMORY)):
        if key.partition(":")[0] in names:
            pending.put(MEMORY, key, None)


class MemoryRetention:
    """Drops memory and baselines of removed subjects, some rows with each sweep."""

    def __init__(self) -> None:
        self._left: Iterator[tuple[str, str]] = iter(())

    async def sweep(self, pending: PendingStep, view: LiveStateView) -> None:
        """Check the next rows; after the last one start over."""
        rows = list(islice(self._left, _ROWS_AT_ONCE))
        if not rows:
            keys = [(table, list(pending.keys(table))) for table in (MEMORY, LEARNED)]
            self._left = chain.from_iterable(zip(repeat(table), names) for table, names in keys)
            rows = list(islice(self._left, _ROWS_AT_ONCE))
        removed, known_until = RemovedSubjects(view), _known_until(view)
        # What is late by its baseline is late until it succeeds, however long that takes.
        late: set[tuple[str, Pipeline | None]] = set()
        async for _, instance in in_slices(pending.rows(ALERT)):  # thousands in an outage
            if instance.is_open:
                late.add((instance.alert.workspace, _without_name(instance.alert.pipeline)))
        async for table, key in in_slices(rows, size=_ROWS_IN_SLICE):
            subject_key = key.partition(":")[2] if table == MEMORY else key
            kind, workspace, run_kind, pipeline_id, thing = map(unquote, subject_key.split(":"))
            pipeline = _pipeline(run_kind, pipeline_id)
            is_removed = removed.reason(workspace, pipeline) is not None or (
                kind == SubjectKind.SCHEDULE and removed.is_deleted(workspace, thing)
            )
            if not is_removed and table == LEARNED and (workspace, pipeline) not in late:
                learned, now = pending.decoded(LEARNED, key, Learned), known_until.get(workspace)
                is_removed = learned is not None and now is not None and is_idle(learned, now)
            if is_removed:
                pending.put(table, key, None)


def _known_until(view: LiveStateView) -> dict[str, datetime]:
    """Return the newest instant that is known of each workspace, by its own clock."""
    known: dict[str, datetime] = {}
    for (workspace, _), at in view.complete().items():
        known[workspace] = max(at, known.get(workspace, at))
    return known


def _pipeline(run_kind: str, pipeline_id: str) -> Pipeline | None:
    if not pipeline_id or not run_kind:
        return None
    kind = PipelineKind.PLAN if run_kind == RunKind.PLAN_RUN else PipelineKind.FLOW
    return Pipeline(kind=kind, id=pipeline_id)


def _without_name(pipeline: Pipeline | None) -> Pipeline | None:
    return None if pipeline is None else Pipeline(kind=pipeline.kind, id=pipeline.id)


def _with_start(silence: Silence, pending: PendingStep) -> Silence:
    """Return a silence without a start as started when it was first configured."""
    stored: Silence | None = pending.get(SILENCE, silence.id)
    if stored is None or stored.starts_at > silence.starts_at:
        return silence
    return msgspec.structs.replace(silence, starts_at=stored.starts_at)


async def _drop(
    pending: PendingStep,
    table: str,
    at: Callable[[Row], datetime | None],
    *,
    before: datetime,
    bound: int,
) -> None:
    """Drop what is older, and the oldest above the bound. A row without an instant stays."""
    # Not sorted: it seldom has anything to drop.
    count, over = 0, []
    async for key, row in in_slices(pending.rows(table), size=_DATED_AT_ONCE):
        if (instant := at(row)) is not None:
            count += 1
            if instant < before:
                over.append(key)
    if (surplus := count - bound) > len(over):
        dated = ((instant, key) for key, row in pending.rows(table) if (instant := at(row)))
        over = [key for _, key in heapq.nsmallest(surplus, dated)]
    for key in over:
        pending.put(table, key, None)

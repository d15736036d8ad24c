"""Alerting as families: alerts and silences, learned limits, expected starts, deadlines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

from monitor.model.alerts import (
    AlertingSnapshot,
    AlertState,
    LearnedLimit,
    PipelineOfKind,
    Silence,
)
from monitor.model.events import EventType
from monitor.model.silencing import silenced_of
from monitor.outputs.metrics import families
from monitor.outputs.metrics.counter_rows import Identity
from monitor.outputs.metrics.exposition_cache import ExpositionPage, FamilyText
from monitor.outputs.metrics.labels import OTHER_LABEL, PipelineId, kind_of_pipeline, pipeline_of
from monitor.outputs.metrics.metrics_snapshot import MetricsSnapshot

_PREFIX = "alert."
TRANSITIONS = tuple(kind.removeprefix(_PREFIX) for kind in EventType if kind.startswith(_PREFIX))
DEADLINE_RESULTS = ("met", "missed")
_BEGINS_LATER, _AT_WORK = "pending", "active"

Series = tuple[str, str]  # the labels workspace and pipeline


def alert_families(snapshot: MetricsSnapshot, page: ExpositionPage) -> Iterator[FamilyText]:
    """Yield the numbers of alerts and silences, and the transitions and failures of rules.

    Without rules, none of them has series.
    """
    alerting, now = snapshot.alerting, snapshot.now
    alerts = page.family_text(families.ALERTS)
    transitions = page.family_text(families.ALERT_TRANSITIONS)
    failures = page.family_text(families.RULE_FAILURES)
    silences = page.family_text(families.SILENCES)
    if alerting is not None:
        _add_alerts(alerting, alerts)
        _add_transitions(alerting, transitions)
        for name, count in sorted((_zeros(alerting) | alerting.failures).items()):
            failures.add((name,), count)
        for state, count in _silences(alerting.silences, now):
            silences.add((state,), count)
    yield from (alerts, transitions, failures, silences)
    yield from _silenced(snapshot, page)


def learned_families(
    snapshot: MetricsSnapshot, own: Mapping[Identity, str], page: ExpositionPage
) -> Iterator[FamilyText]:
    """Yield learned limits, starts and deadlines; ``own`` are those with series of their own.

    A limit of several pipelines together says nothing, so those without series have none. Their
    starts are shown as one.
    """
    alerting = snapshot.alerting or AlertingSnapshot()
    for shape, limits in (
        (families.DURATION_LIMIT, alerting.limits),
        (families.SUCCESS_AGE_LIMIT, alerting.cadences),
    ):
        family_text = page.family_text(shape)
        for identity, seconds in _seconds(limits):
            if identity in own:
                labels = (identity.workspace, identity.kind.value, own[identity])
                family_text.add(labels, seconds)
        yield family_text
    series_of = _Labels(snapshot, own)
    yield from _starts(alerting, series_of, page)
    yield from _deadlines(alerting, series_of, page)


def _add_alerts(alerting: AlertingSnapshot, family_text: FamilyText) -> None:
    counts = Counter((alert.name, alert.severity, alert.state) for alert in alerting.alerts)
    for name, severity in alerting.rules:
        for state in AlertState:
            counts[name, severity, state] += 0
    for labels, count in sorted(counts.items()):
        family_text.add(labels, count)


def _add_transitions(alerting: AlertingSnapshot, family_text: FamilyText) -> None:
    zeros = {(name, to): 0 for name, _ in alerting.rules for to in TRANSITIONS}
    for transition, count in sorted((zeros | alerting.transitions).items()):
        family_text.add(transition, count)


def _zeros(alerting: AlertingSnapshot) -> dict[str, int]:
    return dict.fromkeys((name for name, _ in alerting.rules), 0)


def _silences(silences: Iterable[Silence], now: datetime) -> Iterator[tuple[str, int]]:
    counts = Counter(
        _BEGINS_LATER if silence.starts_at > now else _AT_WORK
        for silence in silences
        if silence.ends_at > now
    )
    for state in (_AT_WORK, _BEGINS_LATER):
        yield state, counts[state]


def _silenced(snapshot: MetricsSnapshot, page: ExpositionPage) -> Iterator[FamilyText]:
    """Yield how many pipelines are known, and how many of them are silenced."""
    silenced = page.family_text(families.SILENCED_PIPELINES)
    known = page.family_text(families.KNOWN_PIPELINES)
    found = silenced_of(
        () if snapshot.alerting is None else snapshot.alerting.silences,
        workspaces=[status.workspace for status in snapshot.workspaces],
        pipelines=[
            (named.workspace, named.kind, named.id, named.label) for named in snapshot.pipelines
        ],
        now=snapshot.now,
    )
    for share in found.shares:
        silenced.add((share.workspace,), share.silenced)
        known.add((share.workspace,), share.pipelines)
    yield from (silenced, known)


def _seconds(limits: Iterable[LearnedLimit]) -> list[tuple[Identity, float]]:
    by_identity = {
        Identity(limit.workspace, limit.kind, limit.pipeline.id): limit.seconds for limit in limits
    }
    return sorted(by_identity.items())


class _Labels:
    """Finds the series that starts are shown under: a flow has one for all kinds of its runs."""

    def __init__(self, snapshot: MetricsSnapshot, own: Mapping[Identity, str]) -> None:
        self._times = {
            status.workspace: status.time_there(snapshot.now) for status in snapshot.workspaces
        }
        self._own: dict[PipelineId, str] = {
            pipeline_of(identity): label for identity, label in own.items()
        }

    def of(self, key: PipelineOfKind) -> Series | None:
        """Return the labels; None where the workspace is no longer configured."""
        workspace, kind, pipeline = key
        if workspace not in self._times:
            return None
        return workspace, self._own.get((workspace, kind_of_pipeline(kind), pipeline), OTHER_LABEL)

    def time_of(self, key: PipelineOfKind) -> datetime:
        """Return the time in the workspace of a series."""
        return self._times[key[0]]


def _starts(
    alerting: AlertingSnapshot, labels: _Labels, page: ExpositionPage
) -> Iterator[FamilyText]:
    # A flow and a plan of one name share a series, for the labels name no kind.
    expected: dict[Series, float] = {}
    missed: dict[Series, int] = {}
    for key in alerting.expected:
        if (series := labels.of(key)) is not None:
            missed.setdefault(series, 0)
            at = alerting.expected_start(key, now=labels.time_of(key))
            if at is not None:
                expected[series] = min(at.timestamp(), expected.get(series, at.timestamp()))
    for key, count in alerting.missed.items():
        if (series := labels.of(key)) is not None:
            missed[series] = missed.get(series, 0) + count
    for shape, values in (
        (families.EXPECTED_START, expected),
        (families.MISSED_RUNS, missed),
    ):
        family_text = page.family_text(shape)
        for series, value in sorted(values.items()):
            family_text.add(series, value)
        yield family_text


def _deadlines(
    alerting: AlertingSnapshot, labels: _Labels, page: ExpositionPage
) -> Iterator[FamilyText]:
    coming: dict[Series, float] = {}
    decided: Counter[tuple[str, str, str]] = Counter()
    for key, deadlines in alerting.deadlines.items():
        if (series := labels.of(key)) is None:
            continue
        for result, count in zip(DEADLINE_RESULTS, (deadlines.met, deadlines.missed), strict=True):
            decided[*series, result] += count
        if deadlines.next_at is not None:
            at = deadlines.next_at.timestamp()
            coming[series] = min(at, coming.get(series, at))
    next_deadline = page.family_text(families.DEADLINE)
    for series, value in sorted(coming.items()):
        next_deadline.add(series, value)
    counts = page.family_text(families.DEADLINES)
    for of, count in sorted(decided.items()):
        counts.add(of, count)
    yield from (next_deadline, counts)

"""What alerting holds, as families: alerts and silences, what was learned, what is expected."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

from monitor.model.alerts import (
    AlertingPicture,
    AlertState,
    LearnedLimit,
    PipelineOfKind,
    Silence,
)
from monitor.model.events import EventType
from monitor.outputs.metrics import families
from monitor.outputs.metrics.families import Family
from monitor.outputs.metrics.labels import OTHER_LABEL, PipelineId, kind_of_pipeline, pipeline_of
from monitor.outputs.metrics.picture import Picture
from monitor.outputs.metrics.rows import Identity
from monitor.outputs.metrics.sheets import Page, Sheet

_PREFIX = "alert."
TRANSITIONS = tuple(one.removeprefix(_PREFIX) for one in EventType if one.startswith(_PREFIX))
_BEGINS_LATER, _AT_WORK = "pending", "active"

Series = tuple[str, str]  # the labels workspace and pipeline


def alert_families(alerting: AlertingPicture, *, now: datetime) -> Iterator[Family]:
    """Yield how many alerts and silences there are, and what became of rules and alerts."""
    yield _alerts(alerting)
    names = [name for name, _ in alerting.rules]
    transitions = families.ALERT_TRANSITIONS.counter()
    told = {(name, to): 0 for name in names for to in TRANSITIONS} | alerting.transitions
    for (name, to), count in sorted(told.items()):
        transitions.add_metric([name, to], count)
    failures = families.RULE_FAILURES.counter()
    for name, count in sorted((dict.fromkeys(names, 0) | alerting.failures).items()):
        failures.add_metric([name], count)
    yield from (transitions, failures, _silences(alerting.silences, now))


def learned_families(picture: Picture, own: Mapping[Identity, str], page: Page) -> Iterator[Sheet]:
    """Yield learned limits and expected starts; ``own`` are those with series of their own.

    A limit of several pipelines together says nothing, so those without series have none. Their
    starts are shown as one.
    """
    alerting = picture.alerting or AlertingPicture()
    for shape, limits in (
        (families.DURATION_LIMIT, alerting.limits),
        (families.SUCCESS_AGE_LIMIT, alerting.cadences),
    ):
        sheet = page.sheet(shape)
        for identity, seconds in _seconds(limits):
            if identity in own:
                labels = (identity.workspace, identity.kind.value, own[identity])
                sheet.add(labels, seconds)
        yield sheet
    yield from _starts(alerting, _Labels(picture, own), page)


def _alerts(alerting: AlertingPicture) -> Family:
    counts = Counter((one.name, one.severity, one.state) for one in alerting.alerts)
    for name, severity in alerting.rules:
        for state in AlertState:
            counts[name, severity, state] += 0
    family = families.ALERTS.gauge()
    for labels, count in sorted(counts.items()):
        family.add_metric([*labels], count)
    return family


def _silences(silences: Iterable[Silence], now: datetime) -> Family:
    counts = Counter(
        _BEGINS_LATER if one.starts_at > now else _AT_WORK for one in silences if one.ends_at > now
    )
    family = families.SILENCES.gauge()
    for state in (_AT_WORK, _BEGINS_LATER):
        family.add_metric([state], counts[state])
    return family


def _seconds(limits: Iterable[LearnedLimit]) -> list[tuple[Identity, float]]:
    found = {Identity(one.workspace, one.kind, one.pipeline.id): one.seconds for one in limits}
    return sorted(found.items())


class _Labels:
    """Finds the series that starts are shown under: a flow has one for all kinds of its runs."""

    def __init__(self, picture: Picture, own: Mapping[Identity, str]) -> None:
        self._workspaces = {one.workspace for one in picture.workspaces}
        self._own: dict[PipelineId, str] = {pipeline_of(one): label for one, label in own.items()}

    def of(self, key: PipelineOfKind) -> Series | None:
        """Return the labels; None where the workspace is no longer configured."""
        workspace, kind, pipeline = key
        if workspace not in self._workspaces:
            return None
        return workspace, self._own.get((workspace, kind_of_pipeline(kind), pipeline), OTHER_LABEL)


def _starts(alerting: AlertingPicture, labels: _Labels, page: Page) -> Iterator[Sheet]:
    # A flow and a plan of one name share a series, for the labels tell no kind.
    expected: dict[Series, float] = {}
    missed: dict[Series, int] = {}
    for key, at in alerting.expected.items():
        if (series := labels.of(key)) is not None:
            expected[series] = min(at.timestamp(), expected.get(series, at.timestamp()))
            missed.setdefault(series, 0)
    for key, count in alerting.missed.items():
        if (series := labels.of(key)) is not None:
            missed[series] = missed.get(series, 0) + count
    for shape, values in (
        (families.EXPECTED_START, expected),
        (families.MISSED_RUNS, missed),
    ):
        sheet = page.sheet(shape)
        for series, value in sorted(values.items()):
            sheet.add(series, value)
        yield sheet

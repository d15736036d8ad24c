"""Runs, events and samples that the tests of the metrics share."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import msgspec
from prometheus_client.parser import text_string_to_metric_families

from monitor.model.events import STATUS_EVENTS, EventType, RunEvent, run_event_id
from monitor.model.runs import (
    JobCount,
    JobDetails,
    Pipeline,
    PipelineKind,
    RunKey,
    RunKind,
    RunState,
    Source,
    Status,
    Trigger,
)

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


def flow(number: int | str, name: str | None = None) -> Pipeline:
    return Pipeline(kind=PipelineKind.FLOW, id=str(number), name=name)


def plan(number: int | str, name: str | None = None) -> Pipeline:
    return Pipeline(kind=PipelineKind.PLAN, id=str(number), name=name)


def run(
    number: int,
    status: Status,
    *,
    kind: RunKind = RunKind.PLAN_RUN,
    pipeline: Pipeline | None = None,
    workspace: str = "one",
    seconds: float | None = 45.0,
    queued_seconds: float | None = 3.0,
    approximate: tuple[str, ...] = (),
    trigger: Trigger = Trigger.SCHEDULE,
    jobs: tuple[JobCount, ...] = (),
) -> RunState:
    """Return a run created at noon; without ``seconds`` its end has no time."""
    started_at = None if queued_seconds is None else NOON + timedelta(seconds=queued_seconds)
    begun_at = started_at or NOON
    return RunState(
        key=RunKey(workspace, kind, str(number)),
        status=status,
        created_at=NOON,
        started_at=started_at,
        finished_at=None if seconds is None else begun_at + timedelta(seconds=seconds),
        approximate=approximate,
        pipeline=pipeline,
        trigger=trigger,
        jobs=JobDetails(counts=jobs) if jobs else None,
        confirmed_at=NOON,
        confirmed_by=Source.POLL,
    )


def claimed(state: RunState) -> RunState:
    """Return the run as only a callback has reported its end."""
    return msgspec.structs.replace(state, unconfirmed_end=state.status)


def event(
    state: RunState, event_type: EventType | None = None, *, before: Status | None = None
) -> RunEvent:
    """Return the event of the run's status, or another event about the run."""
    type_ = event_type or STATUS_EVENTS[state.status]
    return RunEvent(
        id=run_event_id(state.key, type_),
        type=type_,
        run=state,
        before=before,
        occurred_at=NOON,
        recorded_at=NOON + timedelta(seconds=2),
        observed_by=Source.POLL,
    )


def history(state: RunState) -> tuple[RunEvent, ...]:
    """Return the three events that every run emits."""
    return (
        event(state, EventType.RUN_QUEUED),
        event(state, EventType.RUN_STARTED),
        event(state),
    )


Series = tuple[str, frozenset[tuple[str, str]]]


def samples(page: bytes) -> dict[Series, float]:
    """Parse a text page into series and their values; fail on a series that appears twice."""
    found: dict[Series, float] = {}
    for name, labels, value in _lines(page):
        series = (name, frozenset(labels.items()))
        assert series not in found, f"{series} is there twice"
        found[series] = value
    return found


def series(name: str, **labels: str) -> Series:
    return name, frozenset(labels.items())


def named(page: bytes, name: str) -> dict[frozenset[tuple[str, str]], float]:
    """Return the samples of one name by their labels."""
    return {labels: value for (sample, labels), value in samples(page).items() if sample == name}


def _lines(page: bytes) -> Iterator[tuple[str, dict[str, str], float]]:
    for family in text_string_to_metric_families(page.decode()):
        for sample in family.samples:
            yield sample.name, sample.labels, sample.value

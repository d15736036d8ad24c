"""An event that changes no alert is neither stored nor evaluated at once, without a difference."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from msgspec import Struct
from prometheus_client import CollectorRegistry

from monitor.alerting.alerts.instance import StepWord
from monitor.alerting.attribution.subjects import fingerprint_of, of_run
from monitor.alerting.rules.rule_settings import RuleKind
from monitor.alerting.rules.table import default_rule
from monitor.alerting.settings import AlertingSettings
from monitor.bus.sqlite import SqliteBus
from monitor.model.events import AlertEvent, EventType, RunEvent, run_event_id
from monitor.model.runs import (
    Parents,
    Pipeline,
    PipelineKind,
    Recipe,
    RunKey,
    RunKind,
    RunState,
    Source,
    Status,
    Trigger,
)
from tests.alerting.engine_life import Life
from tests.alerting.recorded_histories import BEGIN, Ran, recorded
from tests.alerting.run_samples import run_event
from tests.app.eventually import eventually
from tests.clocks import ManualClock

CONTAINERS_OF_A_PIPELINE = 25  # with what waits to be stored
_JOB_GROUP, _FLOW_RUN, _PLAN_RUN = RunKind.JOB_GROUP, RunKind.FLOW_RUN, RunKind.PLAN_RUN
_INSIDE = (
    *(8 * [(_JOB_GROUP,)]),
    *(2 * [(_FLOW_RUN,)]),
    (_PLAN_RUN,),
    (_FLOW_RUN, _JOB_GROUP),
    (_PLAN_RUN, _FLOW_RUN, _JOB_GROUP),
)
_OF_RUNS = (
    RuleKind.RUN_FAILED,
    RuleKind.FAILING_REPEATEDLY,
    RuleKind.RUN_LOST,
    RuleKind.CANCELED,
    RuleKind.SUCCESS_DOUBTED,
    RuleKind.RUN_OVERDUE,
    RuleKind.QUEUE_SLOW,
)
_THRESHOLDS = {RuleKind.FAILING_REPEATEDLY: (2.0, 0.5), RuleKind.RUN_OVERDUE: (100.0, 0.0)}


class Course(Struct, frozen=True):
    """What runs, by which rules; and how many events lie between cycles, and between processes."""

    runs: tuple[Ran, ...]
    rules: AlertingSettings
    taken: int
    evaluated: int
    restarted: int


def course_of(seed: int) -> Course:
    """Return any course: few pipelines, most runs by themselves and well, some rules."""
    any_of = Random(seed)  # noqa: S311 - no secret
    ends = [Status.SUCCEEDED] * any_of.choice((4, 20)) + [Status.FAILED, Status.CANCELED]
    runs = tuple(
        Ran(
            flow=any_of.choice((0, 0, 0, 1)),
            created=any_of.randrange(200),
            waits=0,
            lasts=any_of.choice((1, 2, 5)),
            ends=any_of.choice(ends),
            inside=any_of.choice(_INSIDE),
            trigger=any_of.choice((Trigger.MANUAL, Trigger.MANUAL, Trigger.SCHEDULE)),
            noticed=any_of.choice((2, 2, 2, 3, 900)),
            is_linked_late=any_of.random() < 0.5,
        )
        for _ in range(60)
    )
    # How far alerting is behind depends on when a step is stored.
    others = [kind for kind in RuleKind if kind is not RuleKind.MONITOR_DEGRADED]
    kinds = any_of.choice((_OF_RUNS, _OF_RUNS, others))
    rules = tuple(
        msgspec.structs.replace(
            default_rule(kind),
            threshold=any_of.choice(_THRESHOLDS.get(kind, (default_rule(kind).threshold,))),
            deadline="10:40",
        )
        for kind in kinds
    )
    return Course(
        runs=runs,
        rules=AlertingSettings(rules=rules, parents_wait_seconds=any_of.choice((0.0, 200.0))),
        taken=any_of.randint(1, 7),
        evaluated=any_of.choice((3, 20, 100)),
        restarted=any_of.choice((17, 50, 1_000)),
    )


class Seen(Struct):
    rows: dict[str, Any]
    alerts: list[AlertEvent]
    steps: int


async def lived(folder: Path, course: Course, *, is_eager: bool) -> Seen:
    """Return what is held and published in the end."""
    clock = ManualClock(BEGIN)
    store = folder / f"{is_eager}.db"
    bus = await SqliteBus.open(store, clock=clock, registry=CollectorRegistry())
    try:
        life = Life(bus, clock, course.rules, is_eager=is_eager)
        await life.restart()
        await life.evaluate()
        for number, event in enumerate(as_seen(course.runs), 1):
            await life.emit(event)
            if number % course.taken == 0:
                await life.take()
            if number % course.evaluated == 0:
                await life.evaluate()
            if number % course.restarted == 0:
                await life.restart()
                await life.evaluate()
        for _ in range(3):
            await clock.advance(61)
            await life.evaluate()
        return Seen(rows=await life.rows(), alerts=await life.alerts(), steps=len(life.bus.steps))
    finally:
        await bus.close()


def as_seen(runs: Sequence[Ran]) -> list[RunEvent]:
    """Return the events of these runs: parts, late ends, claims, ends without a sure time."""
    events = [row.event for row in recorded(list(runs))]
    found = [other for event in events if isinstance(event, RunEvent) for other in _reported(event)]
    return sorted(found, key=lambda event: event.recorded_at)


def _reported(event: RunEvent) -> Iterator[RunEvent]:
    """Yield the events by which a callback and polls report one of them."""
    run, number = event.run, int(event.run.key.id)
    if run.key.kind is RunKind.JOB_GROUP and run.parents == Parents() and number % 2:
        run = msgspec.structs.replace(run, recipe=Recipe(id="ab"[number % 4 // 2]))
    if run.status is not Status.SUCCEEDED or number % 3 == 0:
        yield msgspec.structs.replace(event, run=run)
        return
    claimed = msgspec.structs.replace(run, unconfirmed_end=Status.SUCCEEDED)
    yield msgspec.structs.replace(event, run=claimed)
    if number % 4 == 0:
        run = msgspec.structs.replace(run, approximate=("finished_at",))
    yield _later(event, run, EventType.RUN_CONFIRMED, seconds=5)
    detailed = msgspec.structs.replace(run, detailed=True)
    yield _later(event, detailed, EventType.RUN_DETAILED, seconds=9)


def _later(event: RunEvent, run: RunState, event_type: EventType, *, seconds: float) -> RunEvent:
    return msgspec.structs.replace(
        event,
        id=run_event_id(run.key, event_type),
        type=event_type,
        run=run,
        recorded_at=event.recorded_at + timedelta(seconds=seconds),
    )


@pytest.mark.parametrize(
    "seed", [*range(5), *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(5, 60))]
)
async def test_it_ends_as_if_nothing_waited(seed: int, tmp_path: Path) -> None:
    """Alerts and memories are those of an eager engine, whatever runs, also when it is killed."""
    course = course_of(seed)
    eager = await lived(tmp_path, course, is_eager=True)
    ours = await lived(tmp_path, course, is_eager=False)

    assert ours.alerts == eager.alerts
    assert ours.rows == eager.rows
    assert ours.steps <= eager.steps


def ended(number: int, flow: int, status: Status = Status.SUCCEEDED) -> RunEvent:
    """Return the event of a job group that ended so many seconds after the beginning.

    No schedule starts these flows: each start of one that is awaited changes what is awaited.
    """
    at = BEGIN + timedelta(seconds=number)
    run = RunState(
        key=RunKey("acme", RunKind.JOB_GROUP, str(number)),
        status=status,
        started_at=at - timedelta(seconds=30),
        finished_at=at,
        pipeline=Pipeline(kind=PipelineKind.FLOW, id=f"1{flow}", name=f"flow {flow}"),
        confirmed_at=at,
        confirmed_by=Source.POLL,
    )
    return msgspec.structs.replace(run_event(run), recorded_at=BEGIN)


@asynccontextmanager
async def succeeding(folder: Path, flows: int) -> AsyncIterator[Life]:
    """Yield an engine that has handled successes of so many flows, and has stored them."""
    clock = ManualClock(BEGIN)
    bus = await SqliteBus.open(folder / "state.db", clock=clock, registry=CollectorRegistry())
    try:
        life = Life(bus, clock, AlertingSettings())
        await life.restart()
        await life.evaluate()
        await life.emit(*(ended(flow, flow) for flow in range(flows)))
        await life.take()
        await clock.advance(2)
        await life.evaluate()
        life.bus.steps.clear()
        yield life
    finally:
        await bus.close()


async def test_a_pipeline_that_succeeds_leaves_little_to_search_for_garbage(tmp_path: Path) -> None:
    """Ten thousand of them are searched in one step of the loop, whatever that is about."""
    async with succeeding(tmp_path, flows=10) as life:
        gc.collect()
        before = len(gc.get_objects())
        await life.emit(*(ended(100 + flow, flow) for flow in range(10, 100)))
        await life.take()
        await life.emit(*(ended(200 + flow, flow) for flow in range(10, 100)))
        await life.take()
        gc.collect()
        assert (len(gc.get_objects()) - before) / 90 <= CONTAINERS_OF_A_PIPELINE


async def test_successes_of_one_second_are_one_step(tmp_path: Path) -> None:
    """However many end, each rule has one row for each pipeline, in one step with the position."""
    async with succeeding(tmp_path, flows=10) as life:
        for number in range(100, 300):
            await life.emit(ended(number, number % 10))
            await life.take()
        assert life.bus.steps == []

        await life.clock.advance(1)
        await life.emit(ended(300, 0))
        await life.take()
        (step,) = life.bus.steps
        # What run_failed, run_lost and failing_repeatedly remember, and what is learned.
        assert len(step.state) == 4 * 10
        assert step.position == life.engine.position


async def test_the_last_success_is_stored_though_nothing_follows(tmp_path: Path) -> None:
    """Within a second, also where the next evaluation is a minute away."""
    clock = ManualClock(BEGIN)
    bus = await SqliteBus.open(tmp_path / "state.db", clock=clock, registry=CollectorRegistry())
    rules = AlertingSettings(evaluation_interval_seconds=60.0)
    life = Life(bus, clock, rules)
    await life.restart()
    await life.emit(ended(0, 0))
    await life.evaluate()
    running = asyncio.create_task(life.engine.run())
    await life.emit(ended(1, 0))

    async def is_stored() -> bool:
        return {status.backlog for status in (await bus.status()).consumers} == {0}

    await eventually(is_stored, why="the position is not stored")
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await bus.close()


async def test_a_failure_waits_for_no_second(tmp_path: Path) -> None:
    """It is committed with its alert at once, and so is what successes before it have changed."""
    async with succeeding(tmp_path, flows=10) as life:
        await life.emit(ended(100, 1), ended(101, 2, Status.FAILED), ended(102, 3))
        await life.take()
        (step,) = life.bus.steps
        assert [event.type for event in step.events] == [EventType.ALERT_FIRED]
        rows = [key for key in step.state if key.startswith("m:run_lost")]
        assert [key.split(":")[5] for key in rows] == ["11", "12", "13"]


async def test_answers_of_rules_to_a_harmless_event_are_kept(tmp_path: Path) -> None:
    """The explanation of a run says of each rule that it found nothing wrong."""
    async with succeeding(tmp_path, flows=1) as life:
        event = ended(100, 0)
        await life.emit(event)
        await life.take()
        words = {}
        for rule in ("run_failed", "success_doubted", "not_fresh"):
            fingerprint = fingerprint_of(rule, of_run(event.run.key, event.run.pipeline))
            found = life.engine.history.of_events([event.id], fingerprint)
            words[rule] = None if found is None else found.word
        assert words == {
            "run_failed": StepWord.OK,
            "success_doubted": StepWord.NO_RESULT,
            "not_fresh": None,
        }

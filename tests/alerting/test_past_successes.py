"""What is usual is learned from historical runs too, which make no events: each run once."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from monitor.alerting.rules.baselines import (
    Learned,
    age_seconds,
    known_durations,
    learn,
    limit_seconds,
    with_past,
)
from monitor.alerting.rules.rule_settings import RuleKind
from monitor.bus.contract import Change
from monitor.model.alerts import LearnedLimit
from monitor.model.live_state import PipelineHealth
from monitor.model.runs import Parents, Pipeline, PipelineKind, RunKind, RunState, Status
from tests.alerting.engine_fixture import Fixture, engine_fixture
from tests.alerting.run_samples import FLOW, at, run_event, state
from tests.pipeline_healths import end_at, health_after, show

HOUR = 3_600.0


def success(number: int, *, historical: bool, seconds: float = 400.0) -> RunState:
    """Return a run that ended well at its hour."""
    finished_at = at(number * HOUR)
    run = state(number, Status.SUCCEEDED, finished_at=finished_at, seconds=seconds)
    return replace(run, created_at=run.started_at, historical=historical)


def past(*numbers: int, seconds: float = 400.0) -> list[RunState]:
    return [success(number, historical=True, seconds=seconds) for number in numbers]


async def store(fixture: Fixture, runs: Sequence[RunState]) -> None:
    """Let the workspace's first list show runs that ended before it was followed."""
    await fixture.bus.commit(Change(runs=tuple(runs)), timeout_seconds=5)
    health = PipelineHealth(workspace="acme", run_kind=RunKind.JOB_GROUP, pipeline=FLOW)
    fixture.live_state.pipeline_health["acme", RunKind.JOB_GROUP, FLOW.id, None] = health


def limits(fixture: Fixture) -> list[tuple[str, int, int]]:
    return [
        (limit.pipeline.id, limit.runs, round(limit.seconds))
        for limit in fixture.engine.snapshot().limits
    ]


async def test_the_first_cycle_has_limits_from_the_past(tmp_path: Path) -> None:
    """A run that lasts too long is overdue in the cycle that first knows all of its kind."""
    async with engine_fixture(tmp_path, RuleKind.RUN_OVERDUE) as fixture:
        await store(fixture, past(*range(10)))
        run = state(50, Status.RUNNING, started_at=at(20 * HOUR))
        (alert,) = await fixture.evaluate(20 * HOUR + 801, run)

        assert alert.starts_at == at(20 * HOUR + 800)
        assert limits(fixture) == [("7", 10, 800)]


async def test_before_all_of_a_kind_is_known_nothing_is_read(tmp_path: Path) -> None:
    """A list without some of its pages shows other runs than the newest."""
    async with engine_fixture(tmp_path, RuleKind.RUN_OVERDUE) as fixture:
        await store(fixture, past(*range(10)))
        await fixture.look_again()
        assert limits(fixture) == []
        await fixture.evaluate(20 * HOUR)
        assert len(limits(fixture)) == 1


async def test_events_and_the_past_make_one_limit(tmp_path: Path) -> None:
    """Six historical successes and four that came as events are ten, whichever came first."""
    async with engine_fixture(tmp_path, RuleKind.RUN_OVERDUE) as fixture:
        await store(fixture, past(*range(6)))
        await fixture.emit(success(6, historical=False))
        await fixture.emit(success(7, historical=False))
        await fixture.evaluate(8 * HOUR)
        assert limits(fixture) == []
        await fixture.emit(success(8, historical=False))
        await fixture.emit(success(9, historical=False))
        await fixture.look_again()
        assert limits(fixture) == [("7", 10, 800)]


async def test_a_restart_reads_the_past_again_and_adds_nothing(tmp_path: Path) -> None:
    """The past that is read replaces the past that was read before."""
    for _ in range(3):
        async with engine_fixture(tmp_path, RuleKind.RUN_OVERDUE) as fixture:
            await store(fixture, past(*range(11)))
            await fixture.evaluate(20 * HOUR)
            assert limits(fixture) == [("7", 11, 800)]


async def test_old_flow_runs_that_are_read_later_are_learned_within_the_hour(
    tmp_path: Path,
) -> None:
    """A workspace shows them one by one, long after its first list."""
    async with engine_fixture(tmp_path, RuleKind.RUN_OVERDUE) as fixture:
        await store(fixture, past(*range(4)))
        await fixture.evaluate(20 * HOUR)
        await store(fixture, past(*range(4, 12)))
        await fixture.look_again()
        assert limits(fixture) == []
        await fixture.clock.advance(61)
        await fixture.look_again()
        assert limits(fixture) == [("7", 12, 800)]


async def test_a_run_that_is_followed_counts_by_its_event_alone(tmp_path: Path) -> None:
    """Run memory holds it before its event is handled."""
    async with engine_fixture(tmp_path, RuleKind.RUN_OVERDUE) as fixture:
        followed = [success(number, historical=False) for number in range(10, 14)]
        await store(fixture, [*past(*range(8)), *followed])
        await fixture.evaluate(20 * HOUR)
        for run in followed:
            await fixture.emit(run)
        await fixture.look_again()
        assert limits(fixture) == [("7", 12, 800)]


async def test_only_successes_of_the_past_teach(tmp_path: Path) -> None:
    """A failure is quick, and a canceled run lasts as long as a person lets it."""
    async with engine_fixture(tmp_path, RuleKind.RUN_OVERDUE) as fixture:
        bad = [
            replace(run, status=status, key=replace(run.key, id=f"{status}{run.key.id}"))
            for run in past(*range(10), seconds=9_000)
            for status in (Status.FAILED, Status.CANCELED, Status.LOST)
        ]
        await store(fixture, [*past(*range(10)), *bad])
        await fixture.evaluate(20 * HOUR)
        (limit,) = limits(fixture)
        assert limit[2] == 800


async def test_no_cadence_is_learned_from_the_past(tmp_path: Path) -> None:
    """Of old runs some are read long before others: what seems to have stopped may run on."""
    async with engine_fixture(tmp_path, RuleKind.NOT_FRESH) as fixture:
        await store(fixture, past(*range(12)))
        show(fixture.live_state, health_after(end_at(at(11 * HOUR)), pipeline=FLOW))
        assert await fixture.evaluate(15 * HOUR) == []
        assert fixture.engine.snapshot().cadences == ()


def test_newer_runs_do_not_hide_what_the_past_has_shown() -> None:
    """A pipeline that fails for weeks keeps what is usual for it, also over restarts."""
    learned = with_past(None, past(*range(20)))
    assert with_past(learned, past(15, 16, 17)) is learned
    assert with_past(learned, past(*range(25))) is not learned


async def test_many_pipelines_are_read_some_with_each_cycle(tmp_path: Path) -> None:
    """No cycle holds up events for thousands of them, and none is left out."""
    pipelines = [Pipeline(kind=PipelineKind.FLOW, id=str(number)) for number in range(250)]
    async with engine_fixture(tmp_path, RuleKind.RUN_OVERDUE) as fixture:
        runs = [
            replace(run, pipeline=pipeline, key=replace(run.key, id=f"{pipeline.id}-{run.key.id}"))
            for pipeline in pipelines
            for run in past(*range(10))
        ]
        await fixture.bus.commit(Change(runs=tuple(runs)), timeout_seconds=30)
        for pipeline in pipelines:
            health = PipelineHealth(workspace="acme", run_kind=RunKind.JOB_GROUP, pipeline=pipeline)
            of = ("acme", RunKind.JOB_GROUP, pipeline.id, None)
            fixture.live_state.pipeline_health[of] = health
        counts = []
        for number in range(4):
            await fixture.evaluate(20 * HOUR + number)
            rows = await fixture.bus.consumer_state("alerting")
            counts.append(sum(key.startswith("b:") for key in rows))
        assert counts == [100, 200, 250, 250]
        for _ in range(12):
            await fixture.look_again()
        shown: tuple[LearnedLimit, ...] = fixture.engine.snapshot().limits
        assert len(shown) == 250


@given(
    old=st.integers(0, 40),
    followed=st.integers(0, 30),
    places=st.lists(st.integers(0, 19), min_size=1, max_size=4),
    chance=st.randoms(use_true_random=False),
)
def test_each_run_is_learned_once_in_any_order(
    old: int, followed: int, places: list[int], chance: random.Random
) -> None:
    """However events and readings of the past follow each other, also again, as after restarts."""
    events = [success(number, historical=False) for number in range(100, 100 + followed)]
    runs = [*past(*range(old)), *events]
    for disordered in (runs, events):
        chance.shuffle(disordered)
    learned: Learned | None = None
    for number in range(max(followed, *places) + 1):
        if number in places:
            learned = with_past(learned, runs)
        if number < followed:
            learned = learn(learned, run_event(events[number]))

    durations = known_durations(learned)
    assert (0 if durations is None else durations.count) == old + followed
    assert with_past(learned, runs) is learned


def test_inner_runs_show_how_long_they_take() -> None:
    """As of events."""
    inside = [replace(run, parents=Parents(flow_run="1")) for run in past(*range(12))]
    learned = with_past(None, inside)

    assert age_seconds(learned) is None
    assert limit_seconds(learned) == pytest.approx(800)


@given(events=st.lists(st.integers(1, 30), min_size=1, max_size=6), old=st.integers(0, 40))
def test_a_stored_row_keeps_the_past_while_it_is_added_to(events: list[int], old: int) -> None:
    """Encoded and decoded in between, it is what would be learned in memory."""
    learned = with_past(None, past(*range(old)))
    stored = None if learned is None else msgspec.json.encode(learned)
    number = 100
    for count in events:
        added = [run_event(success(number + n, historical=False)) for n in range(count)]
        number += count
        again = None if stored is None else msgspec.json.decode(stored, type=Learned)
        for event in added:
            again, learned = learn(again, event), learn(learned, event)
        stored = msgspec.json.encode(again)
        assert msgspec.json.decode(stored, type=Learned) == learned
    kept = known_durations(learned)
    assert kept is not None
    if number - 100 + old <= 80:
        assert kept.count == number - 100 + old

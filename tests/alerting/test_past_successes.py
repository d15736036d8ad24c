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
from monitor.model.live_state import HistoryRead, PipelineHealth
from monitor.model.runs import (
    Parents,
    Pipeline,
    PipelineKind,
    Recipe,
    RunKey,
    RunKind,
    RunState,
    Status,
)
from tests.alerting.engine_fixture import Fixture, engine_fixture
from tests.alerting.run_samples import FLOW, at, run_event, state
from tests.pipeline_healths import end_at, health_after, show

HOUR, DAY = 3_600.0, 86_400.0


def success(number: int, *, historical: bool, seconds: float = 400.0) -> RunState:
    """Return a run that ended well at its hour."""
    finished_at = at(number * HOUR)
    run = state(number, Status.SUCCEEDED, finished_at=finished_at, seconds=seconds)
    return replace(run, created_at=run.started_at, historical=historical)


def past(*numbers: int, seconds: float = 400.0) -> list[RunState]:
    return [success(number, historical=True, seconds=seconds) for number in numbers]


def daily(*days: int) -> list[RunState]:
    """Return historical runs that ended on these days."""
    return past(*(24 * day for day in days))


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


async def show_daily(fixture: Fixture, days: Sequence[int], *, reached: float | None) -> None:
    """Let run memory hold historical runs that ended on these days, all known since ``reached``."""
    await store(fixture, daily(*days))
    show(fixture.live_state, health_after(end_at(at(max(days) * DAY)), pipeline=FLOW))
    if reached is not None:
        fixture.live_state.update_workspace("acme", history=history(reached))


def history(reached: float, *, is_over: bool = False) -> HistoryRead:
    return HistoryRead(since=at(0), until=at(13 * DAY), reached=at(reached), is_over=is_over)


async def test_the_first_cycle_has_cadences_from_the_past(tmp_path: Path) -> None:
    """What ran daily and stopped before it was followed is not fresh on the first evening."""
    async with engine_fixture(tmp_path, RuleKind.NOT_FRESH) as fixture:
        await show_daily(fixture, range(12), reached=-DAY)
        (alert,) = await fixture.evaluate(15 * DAY)

        assert alert.starts_at == at(14 * DAY)
        assert [(limit.runs, limit.seconds) for limit in fixture.engine.snapshot().cadences] == [
            (11, 3 * DAY)
        ]


@pytest.mark.parametrize("reached", [None, 9 * DAY])
async def test_no_cadence_is_learned_of_runs_that_may_be_incomplete(
    tmp_path: Path, reached: float | None
) -> None:
    """Of old runs some are read long before others: what seems to have stopped may run on."""
    async with engine_fixture(tmp_path, RuleKind.NOT_FRESH) as fixture:
        await show_daily(fixture, range(12), reached=reached)
        assert await fixture.evaluate(15 * DAY) == []
        assert fixture.engine.snapshot().cadences == ()


async def test_history_that_is_read_over_hours_is_learned_as_it_comes(tmp_path: Path) -> None:
    """Every hour while it is read, and once when all of it was; a restart changes nothing."""
    learned = []
    for is_restarted in (False, True):
        folder = tmp_path / str(is_restarted)
        folder.mkdir()
        async with engine_fixture(folder, RuleKind.NOT_FRESH) as fixture:
            await show_daily(fixture, range(9, 12), reached=8.5 * DAY)
            await fixture.evaluate(13 * DAY)
            await fixture.clock.advance(3 * HOUR)
            await fixture.look_again()
            for first in (6, 2):
                await show_daily(fixture, range(first, 12), reached=(first - 0.5) * DAY)
                await fixture.clock.advance(HOUR + 1)
                await fixture.look_again()
                if is_restarted:
                    await fixture.engine.restore()
            assert [cadence.runs for cadence in fixture.engine.snapshot().cadences] == [9]
            await show_daily(fixture, range(12), reached=None)
            fixture.live_state.update_workspace("acme", history=history(-DAY, is_over=True))
            await fixture.look_again()
            assert [cadence.runs for cadence in fixture.engine.snapshot().cadences] == [11]
            rows = await fixture.bus.consumer_state("alerting")
            learned.append({key: row for key, row in rows.items() if key.startswith("b:")})
    assert learned[0] == learned[1] != {}


def test_the_longest_gap_of_the_past_allows_its_like() -> None:
    """A week shows its weekend once, which is as usual; also when events follow."""
    numbers = [24 * day + hour for day in (0, 1, 2, 5, 6, 7) for hour in (0, 6, 12, 18)]
    learned = with_past(None, past(*numbers), known_since=at(-DAY))
    weekend = (24 * 5 - 24 * 2 - 18) * HOUR
    assert age_seconds(learned) == pytest.approx(1.25 * weekend)
    for number in range(40):
        learned = learn(learned, run_event(success(24 * 20 + number, historical=False)))
    assert age_seconds(learned) == pytest.approx(1.25 * weekend)


def test_a_past_of_a_few_days_shows_no_cadence() -> None:
    """It may lack a weekend, and everything would be late on a Saturday."""
    runs = [success(number, historical=True) for number in range(0, 24 * 5, 6)]
    learned = with_past(None, runs, known_since=at(-DAY))
    assert age_seconds(learned) is None
    assert limit_seconds(learned) == pytest.approx(800)


def test_each_recipe_of_the_past_has_its_own_gaps() -> None:
    """They succeed side by side: the time between two of them is no rhythm."""
    runs = [
        replace(
            success(24 * day + number, historical=True),
            key=RunKey("acme", RunKind.JOB_GROUP, f"{day}-{number}"),
            recipe=Recipe(id=str(number)),
        )
        for day in range(8)
        for number in range(2)
    ]
    learned = with_past(None, runs, known_since=at(-DAY))
    assert learned is not None
    assert learned.past is not None
    assert learned.past.gaps == (DAY,) * 14


@given(
    count=st.integers(1, 40),
    pieces=st.lists(st.integers(1, 40), max_size=5),
    places=st.lists(st.integers(0, 30), max_size=3),
    followed=st.integers(0, 15),
)
def test_the_past_is_the_same_however_it_was_read(
    count: int, pieces: list[int], places: list[int], followed: int
) -> None:
    """In pieces, the newest first, again and again, between events, and encoded as in the store."""
    runs = daily(*range(count))
    events = [success(24 * (count + n), historical=False) for n in range(followed)]
    learned: Learned | None = None
    for number, size in enumerate([*sorted(pieces), 40]):
        newest = runs[-size:]
        for _ in range(1 + places.count(number)):
            learned = with_past(learned, newest, known_since=newest[0].created_at)
            row = msgspec.json.encode(learned)
            learned = msgspec.json.decode(row, type=Learned | None)
        if number == 0:
            for event in events:
                learned = learn(learned, run_event(event))
    expected = with_past(None, runs, known_since=runs[0].created_at)
    for event in events:
        expected = learn(expected, run_event(event))
    assert learned == expected


def test_newer_runs_do_not_hide_what_the_past_has_shown() -> None:
    """A pipeline that fails for weeks keeps what is usual for it, also over restarts."""
    learned = with_past(None, past(*range(20)), known_since=None)
    assert with_past(learned, past(15, 16, 17), known_since=None) is learned
    assert with_past(learned, past(*range(25)), known_since=None) is not learned


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
            learned = with_past(learned, runs, known_since=None)
        if number < followed:
            learned = learn(learned, run_event(events[number]))

    durations = known_durations(learned)
    assert (0 if durations is None else durations.count) == old + followed
    assert with_past(learned, runs, known_since=None) is learned


def test_inner_runs_show_how_long_they_take() -> None:
    """As of events."""
    inside = [replace(run, parents=Parents(flow_run="1")) for run in past(*range(12))]
    learned = with_past(None, inside, known_since=None)

    assert age_seconds(learned) is None
    assert limit_seconds(learned) == pytest.approx(800)


@given(events=st.lists(st.integers(1, 30), min_size=1, max_size=6), old=st.integers(0, 40))
def test_a_stored_row_keeps_the_past_while_it_is_added_to(events: list[int], old: int) -> None:
    """Encoded and decoded in between, it is what would be learned in memory."""
    learned = with_past(None, past(*range(old)), known_since=None)
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

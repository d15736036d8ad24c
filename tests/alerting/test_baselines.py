"""What is learned of a pipeline's runs: how long they take, and how far they lie apart."""

from __future__ import annotations

import random
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.alerting.rules.baselines import (
    Baseline,
    Learned,
    age_seconds,
    is_idle,
    learn,
    limit_seconds,
    quantile,
    with_value,
)
from monitor.model.runs import Parents, Status
from tests.alerting.run_samples import END, run_event, state

DURATIONS = st.floats(min_value=0.1, max_value=86_400.0)


def baseline(values: Iterable[float]) -> Baseline:
    learned_values = None
    for value in values:
        learned_values = with_value(learned_values, value)
    assert learned_values is not None
    return learned_values


def after_runs(seconds: Iterable[float], *, apart: float = 3_600.0, recipe: str = "") -> Learned:
    """Return what successes teach that took so long and ended so far apart."""
    learned = None
    for number, took in enumerate(seconds):
        at = END + timedelta(seconds=number * apart)
        run = state(number, Status.SUCCEEDED, finished_at=at, seconds=took, recipe=recipe or None)
        learned = learn(learned, run_event(run))
    assert learned is not None
    return learned


@given(st.lists(DURATIONS, min_size=1, max_size=300), st.sampled_from((0.5, 0.9, 0.95)))
def test_a_quantile_has_its_rank_among_the_values_kept(values: list[float], share: float) -> None:
    """Within three of a hundred places of where a sorted list would find it."""
    learned_values = baseline(values)
    kept = sorted(round(value, 3) for value in values[-learned_values.count :])
    estimate = quantile(learned_values, share)
    place = share * (len(kept) - 1)
    slack = max(1.0, 0.03 * len(kept))

    # The place of a value between two others is between theirs.
    assert bisect_left(kept, estimate - 0.001) - 1 - slack <= place
    assert place <= bisect_right(kept, estimate + 0.001) + slack


def test_usual_durations_are_met_closely() -> None:
    """For durations as they are, the 95th of a hundred is within a twentieth of the exact one."""
    chance = random.Random(5)  # noqa: S311 - a history, no secret
    values = [chance.gauss(600.0, 60.0) for _ in range(200)]
    exact = sorted(values)[189]

    assert quantile(baseline(values), 0.95) == pytest.approx(exact, rel=0.05)


def test_the_kept_baseline_stays_small() -> None:
    """Ten thousand different runs and rhythms take no more than 3 KB."""
    chance = random.Random(1)  # noqa: S311 - a history, no secret
    learned, at = None, END
    for number in range(10_000):
        at += timedelta(seconds=chance.lognormvariate(7, 2))
        run = state(number, Status.SUCCEEDED, finished_at=at, seconds=chance.lognormvariate(5, 2))
        learned = learn(learned, run_event(run))

    assert len(msgspec.json.encode(learned)) <= 3 * 1024


def test_a_limit_needs_ten_runs() -> None:
    """Nine say nothing; the tenth makes a limit of twice what is usual."""
    assert limit_seconds(None) is None
    assert limit_seconds(after_runs([400.0] * 9)) is None
    assert limit_seconds(after_runs([400.0] * 10)) == pytest.approx(800.0)


def test_quick_runs_have_five_minutes() -> None:
    """A second more than usual is no news where runs take a second."""
    assert limit_seconds(after_runs([1.0] * 20)) == 300.0


def test_a_limit_follows_what_has_changed() -> None:
    """After two hundred quicker runs nothing is left of the slow ones."""
    learned = after_runs([3_600.0] * 150 + [400.0] * 200)

    assert limit_seconds(learned) == pytest.approx(800.0)


def test_only_successes_teach() -> None:
    """A failure after a second does not show how long a run takes, nor does its start."""
    learned = after_runs([400.0] * 10)
    for status in (Status.RUNNING, Status.FAILED, Status.CANCELED, Status.LOST):
        assert learn(learned, run_event(state(99, status, seconds=1.0))) is learned


def test_a_baseline_survives_a_restart() -> None:
    """Stored and read back it is the same, and goes on alike."""
    learned = after_runs([float(number) for number in range(60)])
    read = msgspec.json.decode(msgspec.json.encode(learned), type=Learned)
    another = run_event(state(500, Status.SUCCEEDED, seconds=77.0))

    assert read == learned
    assert learn(read, another) == learn(learned, another)


def test_an_age_is_three_usual_gaps() -> None:
    """A pipeline that succeeds every two hours is old after six; nine successes say nothing yet."""
    assert age_seconds(after_runs([60.0] * 9, apart=7_200.0)) is None
    assert age_seconds(after_runs([60.0] * 10, apart=7_200.0)) == pytest.approx(21_600.0)
    assert age_seconds(after_runs([60.0] * 10, apart=60.0)) == 3_600.0


def test_recipes_side_by_side_each_have_their_rhythm() -> None:
    """Two recipes that succeed daily, a minute apart, make a day's gap and not a minute's."""
    learned = None
    for day in range(10):
        for minute, recipe in enumerate(("a", "b", "c")):
            at = END + timedelta(days=day, minutes=minute)
            run = state(10 * day + minute, Status.SUCCEEDED, finished_at=at, recipe=recipe)
            learned = learn(learned, run_event(run))

    assert age_seconds(learned) == pytest.approx(3 * 86_400.0)


def test_a_run_inside_another_run_has_no_rhythm() -> None:
    """Its duration is learned; how often a plan or a flow run has it run is no cadence of its."""
    learned = None
    for number in range(20):
        finished_at = END + timedelta(hours=number)
        for parents in (Parents(flow_run="1"), Parents(plan_run="2")):
            run = state(number, Status.SUCCEEDED, finished_at=finished_at, parents=parents)
            learned = learn(learned, run_event(run))

    assert learned is not None
    assert age_seconds(learned) is None
    assert limit_seconds(learned) == 300.0
    assert not is_idle(learned, END + timedelta(days=80))


def working_hours(weeks: int) -> list[datetime]:
    """Return each full hour from nine to five, Monday to Friday."""
    monday = datetime(2026, 11, 2, tzinfo=UTC)
    return [
        monday + timedelta(weeks=week, days=day, hours=hour)
        for week in range(weeks)
        for day in range(5)
        for hour in range(9, 18)
    ]


def test_a_weekend_is_no_lateness() -> None:
    """A pipeline of working hours may be silent from Friday to Monday once it was so twice."""
    learned = None
    for number, at in enumerate(working_hours(3)):
        learned = learn(learned, run_event(state(number, Status.SUCCEEDED, finished_at=at)))
    age = age_seconds(learned)

    assert age is not None
    assert age > 64 * 3_600  # Friday 17:00 to Monday 9:00


def test_one_outage_makes_no_long_silence_usual() -> None:
    """A week without success, once, does not let an hourly pipeline be silent for a week."""
    learned, at = None, END
    for number in range(60):
        at += timedelta(days=7) if number == 30 else timedelta(hours=1)
        learned = learn(learned, run_event(state(number, Status.SUCCEEDED, finished_at=at)))

    assert age_seconds(learned) == pytest.approx(3 * 3_600.0)


def test_a_late_success_makes_no_gap() -> None:
    """A success that is reported after a newer one leaves the rhythm alone."""
    learned = after_runs([60.0] * 10)
    late = state(77, Status.SUCCEEDED, finished_at=END + timedelta(minutes=90))

    assert (after := learn(learned, run_event(late))) is not None
    assert after.gaps == learned.gaps


def test_a_pipeline_that_no_longer_runs_is_idle() -> None:
    """After ninety days without a success it need not be kept."""
    learned = after_runs([60.0])

    assert not is_idle(learned, END + timedelta(days=89))
    assert is_idle(learned, END + timedelta(days=91))

"""What is to be evaluated again, and when."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from monitor.alerting.attribution.subjects import key_of, of_pipeline
from monitor.alerting.engine.timeline import DueTimes
from monitor.alerting.rules.contract import Subject
from monitor.model.runs import Pipeline, PipelineKind

BEGAN = datetime(2026, 11, 21, 10, tzinfo=UTC)


def flow(number: int) -> Subject:
    return of_pipeline("marketing", Pipeline(kind=PipelineKind.FLOW, id=str(number)))


def at(seconds: int) -> datetime:
    return BEGAN + timedelta(seconds=seconds)


def test_a_time_that_moves_on_and_on_takes_no_more_room() -> None:
    """Each success puts the time at which a flow grows too old further into the future."""
    due_times = DueTimes[Subject]()
    for second in range(10_000):
        for number in (1, 2, 3):
            due_times.put(key_of(flow(number)), flow(number), at(604_800 + second))

    assert len(due_times) < 100
    assert due_times.take_due(at(604_800 + 9_998)) == []
    assert {run.pipeline for run in due_times.take_due(at(604_800 + 9_999))} == {
        flow(number).pipeline for number in (1, 2, 3)
    }


@given(
    st.lists(
        st.tuples(st.integers(0, 4), st.one_of(st.none(), st.integers(0, 20))),
        min_size=150,
        max_size=300,
    )
)
def test_each_is_due_once_at_its_newest_time(puts: list[tuple[int, int | None]]) -> None:
    """However often times change, also back to a former one, or to none at all."""
    due_times, wanted = DueTimes[Subject](), dict[int, int | None]()
    for number, second in puts:
        due_times.put(key_of(flow(number)), flow(number), None if second is None else at(second))
        wanted[number] = second

    for second in range(21):
        due = [run.pipeline.id for run in due_times.take_due(at(second)) if run.pipeline]
        assert sorted(due) == sorted(str(item) for item, when in wanted.items() if when == second)
    assert len(due_times) == 0

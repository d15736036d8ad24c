"""What is to be evaluated again, and when."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from monitor.alerting.attribution.subjects import of_pipeline
from monitor.alerting.engine.subject_timers import SubjectTimers
from monitor.alerting.rules.contract import Subject
from monitor.model.runs import Pipeline, PipelineKind

DOMAIN = ("marketing", "job_group")
BEGAN = datetime(2026, 11, 21, 10, tzinfo=UTC)


def flow(number: int) -> Subject:
    return of_pipeline("marketing", Pipeline(kind=PipelineKind.FLOW, id=str(number)))


def at(seconds: int) -> datetime:
    return BEGAN + timedelta(seconds=seconds)


def test_a_time_that_moves_on_and_on_takes_no_more_room() -> None:
    """Each success puts the time at which a flow grows too old further into the future."""
    agenda = SubjectTimers()
    for second in range(10_000):
        for number in (1, 2, 3):
            agenda.put(DOMAIN, flow(number), at(604_800 + second))

    assert len(agenda) < 100
    assert agenda.take_due(DOMAIN, at(604_800 + 9_998)) == []
    assert {run.pipeline for run in agenda.take_due(DOMAIN, at(604_800 + 9_999))} == {
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
    agenda, wanted = SubjectTimers(), dict[int, int | None]()
    for number, second in puts:
        agenda.put(DOMAIN, flow(number), None if second is None else at(second))
        wanted[number] = second

    for second in range(21):
        due = [run.pipeline.id for run in agenda.take_due(DOMAIN, at(second)) if run.pipeline]
        assert sorted(due) == sorted(str(item) for item, when in wanted.items() if when == second)
    assert len(agenda) == 0

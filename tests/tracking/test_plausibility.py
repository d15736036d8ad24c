"""What a workspace reports and cannot be true is marked and shown, never repaired."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from monitor.model.events import EventType
from monitor.model.observations import Observation
from monitor.model.runs import (
    Implausible,
    JobCount,
    JobDetails,
    Parents,
    Pipeline,
    PipelineKind,
    Recipe,
    RunKey,
    RunKind,
    Source,
)
from monitor.tracking.observation_counts import ObservationCounts
from monitor.tracking.transitions import Boundary, advance
from tests.tracking.histories import START, World

GROUP = RunKey("acme", RunKind.JOB_GROUP, "9")
PLAN_RUN = RunKey("acme", RunKind.PLAN_RUN, "3")
FLOW_RUN = RunKey("acme", RunKind.FLOW_RUN, "4")
MINUTE = timedelta(minutes=1)
SYNCHRONOUS = Boundary(clock_skew_seconds=0.0)


def seen(word: str | None, key: RunKey = GROUP, /, **details: object) -> Observation:
    """Return what a poll showed ten minutes after the start."""
    observation = Observation(
        key=key, source=Source.POLL, observed_at=START + 10 * MINUTE, native_status=word
    )
    return msgspec.structs.replace(observation, **details)


def marks(*observations: Observation, boundary: Boundary = SYNCHRONOUS) -> tuple[Implausible, ...]:
    world = World(boundary=boundary)
    for observation in observations:
        world.observe(observation)
    return world.states[observations[0].key].implausible


def flow(number: int) -> Pipeline:
    return Pipeline(kind=PipelineKind.FLOW, id=str(number))


def records(*words: str) -> dict[str, object]:
    counts = tuple(JobCount(job_type="wrangle", status=word, count=1) for word in words)
    return {"jobs": JobDetails(counts=counts), "is_detail_final": True}


@pytest.mark.parametrize("finished_at", [START + 2 * MINUTE, START + 4 * MINUTE])
def test_an_end_before_the_start_is_marked(finished_at: object) -> None:
    """Both times stay as they were reported."""
    world = World()
    begun_at = START + 3 * MINUTE
    world.observe(seen("Failed", PLAN_RUN, started_at=begun_at, finished_at=finished_at))

    state = world.states[PLAN_RUN]
    assert (state.started_at, state.finished_at) == (begun_at, finished_at)
    is_before = finished_at == START + 2 * MINUTE
    assert state.implausible == ((Implausible.ENDS_BEFORE_START,) if is_before else ())
    assert world.log[-1].run.implausible == state.implausible


def test_a_stamp_cut_to_its_second_is_not_before_the_start() -> None:
    """A run of some milliseconds ends in the second in which it began."""
    begun_at = START + timedelta(milliseconds=900)
    assert marks(seen("Failed", PLAN_RUN, started_at=begun_at, finished_at=START)) == ()


def test_an_end_before_the_boundary_of_a_run_created_after_it_is_no_old_news() -> None:
    """An end that cannot be true must not silence the run."""
    world = World(boundary=Boundary(followed_since=START))
    world.observe(
        seen("Failed", PLAN_RUN, created_at=START + MINUTE, finished_at=START - 60 * MINUTE)
    )

    assert world.log[-1].type is EventType.RUN_FAILED
    assert world.log[-1].run.implausible == (Implausible.ENDS_BEFORE_START,)


@pytest.mark.parametrize("name", ["created_at", "started_at", "finished_at", "updated_at"])
def test_a_time_in_the_future_is_marked(name: str) -> None:
    """Later than the workspace's own clock, and than clocks may differ."""
    assert marks(seen("Complete", PLAN_RUN, **{name: START + 12 * MINUTE})) == (
        Implausible.IN_THE_FUTURE,
    )
    assert marks(seen("Complete", PLAN_RUN, **{name: START + 10 * MINUTE})) == ()


def test_the_future_is_judged_by_the_clock_of_the_workspace() -> None:
    """Where our clock is late nothing is marked; where the skew is unknown nothing is judged."""
    end = seen("Complete", PLAN_RUN, finished_at=START + 30 * MINUTE)

    assert marks(end, boundary=Boundary(clock_skew_seconds=1_200.0)) == ()
    assert marks(end, boundary=Boundary()) == ()


def test_a_run_that_changes_its_pipeline_or_recipe_keeps_the_first() -> None:
    """The workspace says so; a callback's word for it counts for nothing."""
    first = seen("InProgress", pipeline=flow(1), recipe=Recipe(id="5"))
    named = seen(None, pipeline=msgspec.structs.replace(flow(1), name="orders"))
    claimed = seen("InProgress", source=Source.CALLBACK, pipeline=flow(2))
    assert marks(first, named, claimed) == ()

    changed = seen("InProgress", pipeline=flow(2), recipe=Recipe(id="6"))
    world = World()
    world.observe(first)
    world.observe(changed)
    state = world.states[GROUP]
    assert state.implausible == (Implausible.PIPELINE_CHANGED, Implausible.RECIPE_CHANGED)
    assert state.pipeline == flow(1)


@pytest.mark.parametrize(
    "observation",
    [
        seen("InProgress", PLAN_RUN, parents=Parents(plan_run="3")),
        seen("InProgress", FLOW_RUN, parents=Parents(flow_run="4")),
    ],
)
def test_a_run_inside_itself_is_marked(observation: Observation) -> None:
    """Nothing is a part of itself; a job group may have the number of its flow run."""
    assert marks(observation) == (Implausible.CONTAINS_ITSELF,)
    assert marks(seen("InProgress", parents=Parents(flow_run="9", plan_run="9"))) == ()


def test_a_success_whose_jobs_failed_is_marked() -> None:
    """Not a failure, for which failed jobs are the reason; not a claim, for it may be corrected."""
    mark = (Implausible.COMPLETE_WITH_FAILED_JOBS,)

    assert marks(seen("Complete", **records("succeeded", "failed"))) == mark
    assert marks(seen("Complete", **records("succeeded", "canceled"))) == ()
    assert marks(seen("Failed", **records("succeeded", "failed"))) == ()
    claim = seen("Complete", source=Source.CALLBACK, **records("succeeded", "failed"))
    assert marks(seen("InProgress"), claim) == ()
    assert marks(seen("InProgress"), claim, seen("Complete")) == mark


def test_a_mark_that_comes_with_the_job_records_is_emitted() -> None:
    """`run.detailed` carries it, so that what hides a failure reaches the rules."""
    world = World()
    world.observe(seen("Complete"))
    assert not world.log[-1].run.implausible
    world.observe(seen("Complete", source=Source.DETAIL, **records("failed")))

    assert world.log[-1].type is EventType.RUN_DETAILED
    assert world.log[-1].run.implausible == (Implausible.COMPLETE_WITH_FAILED_JOBS,)


def test_a_mark_stays() -> None:
    """A later and plausible report takes no mark back."""
    future = seen("Complete", PLAN_RUN, updated_at=START + 90 * MINUTE)
    assert marks(future, seen("Complete", PLAN_RUN)) == (Implausible.IN_THE_FUTURE,)


def test_implausible_reports_are_counted_and_logged_once_a_run() -> None:
    """However often it is reported; each kind of it starts at 0."""
    registry = CollectorRegistry()
    counts = ObservationCounts(registry)
    counts.add_workspace("acme")
    end = seen("Complete", PLAN_RUN, finished_at=START + 90 * MINUTE)
    known = None
    with capture_logs() as logs:
        for _ in range(3):
            transition = advance(known, end, SYNCHRONOUS)
            counts.count(end, transition, is_clock_behind=False)
            known = transition.state

    values = {
        what: registry.get_sample_value(
            "dataprep_monitor_implausible_total", {"workspace": "acme", "what": what}
        )
        for what in Implausible
    }
    assert values == {**dict.fromkeys(Implausible, 0.0), Implausible.IN_THE_FUTURE: 1.0}
    (line,) = logs
    assert (line["run"], line["what"]) == (str(PLAN_RUN), "in_the_future")

"""The rules of transitions, one example each."""

from __future__ import annotations

from datetime import timedelta

import msgspec

from monitor.model.events import EventType
from monitor.model.observations import Observation, ObservationOutcome
from monitor.model.runs import RunKey, RunKind, Source, Status
from monitor.tracking.transitions import Boundary
from tests.tracking.histories import START, World

KEY = RunKey("acme", RunKind.JOB_GROUP, "9")


def observation_of(
    word: str | None, source: Source = Source.POLL, **details: object
) -> Observation:
    """Return an observation of the run that shows ``word``."""
    observation = Observation(key=KEY, source=source, observed_at=START, native_status=word)
    return msgspec.structs.replace(observation, **details)


def types(world: World) -> list[EventType]:
    return [event.type for event in world.log]


def test_a_run_first_observed_finished_emits_its_whole_way() -> None:
    """Skipped states are filled in, with the times that were reported and no others."""
    world = World()
    end = START + timedelta(minutes=5)
    world.observe(observation_of("Complete", created_at=START, updated_at=end))

    queued, started, succeeded = world.log
    assert types(world) == [
        EventType.RUN_QUEUED,
        EventType.RUN_STARTED,
        EventType.RUN_SUCCEEDED,
    ]
    assert (queued.occurred_at, started.occurred_at, succeeded.occurred_at) == (START, None, end)
    assert succeeded.run.approximate == ("finished_at",)
    assert succeeded.run.duration_seconds == 300
    assert queued.run.finished_at is None


def test_job_records_replace_the_approximate_end() -> None:
    """A reported end wins over the last write, and the mark goes away."""
    world = World()
    world.observe(
        observation_of("Complete", created_at=START, updated_at=START + timedelta(minutes=9))
    )
    exact = START + timedelta(minutes=4)
    outcome = world.observe(
        observation_of("Complete", Source.DETAIL, finished_at=exact, is_detail_final=True)
    )

    assert outcome is ObservationOutcome.ENRICHED
    assert world.states[KEY].finished_at == exact
    assert world.states[KEY].approximate == ()


def test_a_callback_alone_invents_no_run() -> None:
    """A callback for a run that the workspace has not shown waits and emits nothing."""
    world = World()

    assert (
        world.observe(observation_of("Failed", Source.CALLBACK)) is ObservationOutcome.UNCONFIRMED
    )
    assert world.log == []
    assert world.states == {}


def test_the_first_end_stands() -> None:
    """Another end reported later is stored once, as a contradiction, and changes nothing."""
    world = World()
    world.observe(observation_of("InProgress"))
    world.observe(observation_of("Complete", Source.CALLBACK))

    assert world.observe(observation_of("Failed")) is ObservationOutcome.CONTRADICTED
    assert world.observe(observation_of("Failed")) is ObservationOutcome.UNCHANGED
    assert world.states[KEY].status is Status.SUCCEEDED
    assert world.states[KEY].contradiction == "Failed"
    assert types(world)[-1] is EventType.RUN_SUCCEEDED


def test_a_late_observation_of_an_earlier_state_is_no_contradiction() -> None:
    """A stale read after the end changes nothing."""
    world = World()
    world.observe(observation_of("Complete"))

    assert world.observe(observation_of("InProgress")) is ObservationOutcome.UNCHANGED
    assert world.states[KEY].contradiction is None


def test_an_unknown_word_is_shown_and_moves_nothing() -> None:
    """An unknown status word counts as not finished."""
    world = World()
    world.observe(observation_of("InProgress"))
    world.observe(observation_of("Hibernating"))

    assert world.states[KEY].status is Status.RUNNING
    assert world.states[KEY].native_status == "Hibernating"


def test_a_deleted_run_is_lost_once() -> None:
    """A run that is gone ends as lost; being gone again adds nothing."""
    world = World()
    world.observe(observation_of("InProgress"))
    world.observe(observation_of(None, Source.RECONCILIATION, is_gone=True))

    assert (
        world.observe(observation_of(None, Source.RECONCILIATION, is_gone=True))
        is ObservationOutcome.UNCHANGED
    )
    assert types(world)[-1] is EventType.RUN_LOST


def test_a_lost_run_that_shows_up_again_is_a_contradiction() -> None:
    """A run that was thought to be gone stays lost; its return is stored."""
    world = World()
    world.observe(observation_of("InProgress"))
    world.observe(observation_of(None, Source.RECONCILIATION, is_gone=True))

    assert world.observe(observation_of("InProgress")) is ObservationOutcome.CONTRADICTED
    assert world.states[KEY].status is Status.LOST


def test_an_old_run_that_was_edited_needs_its_job_records() -> None:
    """Created before the boundary and written after it: only the job records know the end."""
    world = World(boundary=Boundary(followed_since=START))
    row = observation_of(
        "Complete",
        created_at=START - timedelta(days=2),
        updated_at=START + timedelta(minutes=1),
    )

    assert world.observe(row) is ObservationOutcome.NEEDS_DETAIL
    old_end = START - timedelta(days=2, minutes=-3)
    detail = msgspec.structs.replace(row, finished_at=old_end, is_detail_final=True)
    assert world.observe(detail) is ObservationOutcome.HISTORICAL
    assert world.log == []


def test_a_run_active_at_the_boundary_emits_its_end() -> None:
    """A run that began before we followed and ended after is no old news."""
    world = World(boundary=Boundary(followed_since=START))
    row = observation_of(
        "Complete",
        created_at=START - timedelta(minutes=2),
        updated_at=START + timedelta(minutes=1),
    )
    detail = msgspec.structs.replace(
        row, finished_at=START + timedelta(seconds=59), is_detail_final=True
    )

    assert world.observe(row) is ObservationOutcome.NEEDS_DETAIL
    assert world.observe(detail) is ObservationOutcome.CHANGED
    assert types(world)[-1] is EventType.RUN_SUCCEEDED


def test_a_heartbeat_alone_is_not_worth_a_commit() -> None:
    """A moving last write of an active run changes freshness and nothing else."""
    world = World()
    world.observe(observation_of("InProgress", updated_at=START))

    later = observation_of("InProgress", updated_at=START + timedelta(seconds=5))
    assert world.observe(later) is ObservationOutcome.UNCHANGED
    assert world.states[KEY].updated_at == START + timedelta(seconds=5)

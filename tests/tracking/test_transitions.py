"""The rules of transitions, one example each."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from itertools import permutations

import msgspec
import pytest

from monitor.model.ends import run_end
from monitor.model.events import EventType
from monitor.model.observations import Observation, ObservationOutcome
from monitor.model.runs import (
    EndBasis,
    FailedPart,
    JobDetails,
    RunKey,
    RunKind,
    Source,
    Status,
)
from monitor.tracking.transitions import Boundary
from tests.tracking.histories import START, World

KEY = RunKey("acme", RunKind.JOB_GROUP, "9")


def observation_of(
    word: str | None, source: Source = Source.POLL, **details: object
) -> Observation:
    """Return an observation of the run that shows ``word``."""
    observation = Observation(key=KEY, source=source, observed_at=START, native_status=word)
    return msgspec.structs.replace(observation, **details)


def end_of(details: Mapping[str, object]) -> Observation:
    """Return the observation that the run failed, with these details."""
    return msgspec.structs.replace(observation_of("Failed"), **details)


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
    """A reported end wins over the last write, the mark goes away, and consumers learn of it."""
    world = World()
    world.observe(
        observation_of("Complete", created_at=START, updated_at=START + timedelta(minutes=9))
    )
    exact = START + timedelta(minutes=4)
    outcome = world.observe(
        observation_of("Complete", Source.DETAIL, finished_at=exact, is_detail_final=True)
    )

    assert outcome is ObservationOutcome.CHANGED
    assert types(world)[-1] is EventType.RUN_DETAILED
    assert world.log[-1].run.finished_at == exact
    assert world.states[KEY].finished_by is EndBasis.REPORTED
    assert world.states[KEY].approximate == ()


def test_a_callback_alone_invents_no_run() -> None:
    """A callback for a run that the workspace has not shown waits and emits nothing."""
    world = World()

    assert (
        world.observe(observation_of("Failed", Source.CALLBACK)) is ObservationOutcome.UNCONFIRMED
    )
    assert world.log == []
    assert world.states == {}


def test_a_reported_end_stands_against_callbacks() -> None:
    """Another end that a callback names is stored once, and changes nothing."""
    world = World()
    world.observe(observation_of("InProgress"))
    world.observe(observation_of("Complete"))

    claim = observation_of("Failed", Source.CALLBACK)
    assert world.observe(claim) is ObservationOutcome.CONTRADICTED
    assert world.observe(claim) is ObservationOutcome.UNCHANGED
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


LAST_WRITE, DERIVED, REPORTED = (
    {"updated_at": START + timedelta(minutes=2)},
    {
        "finished_at": START + timedelta(minutes=4),
        "finished_by": EndBasis.DERIVED,
        "approximate": ("finished_at",),
    },
    {"finished_at": START + timedelta(minutes=6), "finished_by": EndBasis.REPORTED},
)


@pytest.mark.parametrize("order", list(permutations((LAST_WRITE, DERIVED, REPORTED))))
def test_the_best_basis_of_an_end_wins_in_any_order(order: tuple[dict[str, object], ...]) -> None:
    """A reported end before a derived one before the last write, however late it comes."""
    world = World()
    for details in order:
        world.observe(end_of(details))

    state = world.states[KEY]
    assert (state.finished_at, state.finished_by) == (
        REPORTED["finished_at"],
        EndBasis.REPORTED,
    )
    assert state.approximate == ()


def test_of_two_ends_of_one_basis_the_earlier_stands() -> None:
    """An edit after the end moves the last write, and the end stays where it was first seen."""
    world = World()
    for minutes in (3, 2, 9):
        world.observe(observation_of("Failed", updated_at=START + timedelta(minutes=minutes)))

    state = world.states[KEY]
    assert state.finished_at == START + timedelta(minutes=2)
    assert state.finished_by is EndBasis.LAST_WRITE
    assert state.approximate == ("finished_at",)


def test_job_records_derive_the_end_of_their_group() -> None:
    """The end of a job group that only its jobs show is marked approximate."""
    world = World()
    end = START + timedelta(minutes=4)
    world.observe(
        observation_of("Failed", finished_at=end, jobs=JobDetails(), is_detail_final=True)
    )

    state = world.states[KEY]
    assert (state.finished_by, state.approximate) == (EndBasis.DERIVED, ("finished_at",))


def seen(minutes: int, word: str | None, **details: object) -> Observation:
    """Return an observation that was made so many minutes after the start, by our clock."""
    at = START + timedelta(minutes=minutes)
    return msgspec.structs.replace(observation_of(word), observed_at=at, **details)


def test_an_end_without_a_time_lies_between_two_reads() -> None:
    """The last read before the end and the first after it bound it, in workspace time."""
    world = World(boundary=Boundary(clock_skew_seconds=-30.0))
    world.observe(seen(1, "InProgress"))
    world.observe(seen(3, "InProgress"))
    world.observe(seen(5, "Complete"))
    world.observe(seen(7, "Complete"))

    state = world.states[KEY]
    assert state.unfinished_at == START + timedelta(minutes=3, seconds=-30)
    assert state.end_seen_at == START + timedelta(minutes=5, seconds=-30)
    assert (world.log[-1].run.unfinished_at, world.log[-1].run.end_seen_at) == (
        state.unfinished_at,
        state.end_seen_at,
    )
    end = run_end(state)
    assert end is not None
    assert (end.earliest, end.latest) == (state.unfinished_at, state.end_seen_at)


@pytest.mark.parametrize(
    "observation",
    [
        seen(3, "InProgress", source=Source.CALLBACK),
        seen(3, "InProgress", may_have_ended=True),
        seen(3, "Created"),
        seen(3, None, source=Source.DETAIL, jobs=JobDetails()),
    ],
)
def test_only_a_read_of_the_run_shows_that_it_goes_on(observation: Observation) -> None:
    """No callback, no conclusion from its parts, no read that lags, no job records alone."""
    world = World()
    world.observe(seen(1, "InProgress"))
    world.observe(observation)

    assert world.states[KEY].unfinished_at == START + timedelta(minutes=1)


def test_steps_before_the_end_say_nothing_of_it() -> None:
    """The filled-in events of a run carry nothing that became known only at its end."""
    world = World()
    part = FailedPart(key=RunKey("acme", RunKind.JOB_GROUP, "1"))
    world.observe(seen(1, "Failed", failed_part=part, updated_at=START))

    for event in world.log[:-1]:
        assert event.run.end_seen_at is None
        assert event.run.finished_by is None
        assert event.run.failed_part is None
    assert world.log[-1].run.failed_part == part


PLAN_RUN = RunKey("acme", RunKind.PLAN_RUN, "3")


def part_of(number: int, minute: int | None = None, error: str | None = None) -> FailedPart:
    return FailedPart(
        key=RunKey("acme", RunKind.FLOW_RUN, str(number)),
        error=error,
        failed_at=None if minute is None else START + timedelta(minutes=minute),
    )


@pytest.mark.parametrize(
    "details",
    [
        {"error": "no such column"},
        {"failed_part": part_of(1, 2)},
        {"finished_at": START + timedelta(minutes=2)},
    ],
)
@pytest.mark.parametrize("is_in_two_reads", [False, True])
def test_late_details_of_a_plan_run_are_emitted_once(
    details: dict[str, object],
    is_in_two_reads: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    """A reason, or a better time, comes as one `run.detailed`, when nothing more can come."""
    world = World()
    world.observe(seen(2, "Failed", key=PLAN_RUN, updated_at=START + timedelta(minutes=9)))
    end = types(world)
    final = seen(4, "Failed", key=PLAN_RUN, is_detail_final=True)
    if is_in_two_reads:
        world.observe(seen(3, "Failed", key=PLAN_RUN, **details))
        assert types(world) == end
    else:
        final = msgspec.structs.replace(final, **details)
    world.observe(final)
    world.observe(final)

    assert types(world) == [*end, EventType.RUN_DETAILED]
    assert all(getattr(world.log[-1].run, name) == value for name, value in details.items())


def test_a_last_read_that_shows_nothing_new_is_silent() -> None:
    """Where the end has carried everything, no second event follows."""
    world = World()
    world.observe(seen(2, "Failed", key=PLAN_RUN, finished_at=START, error="no"))
    number = len(world.log)
    world.observe(seen(3, None, key=PLAN_RUN, source=Source.DETAIL, is_detail_final=True))

    assert world.states[PLAN_RUN].detailed
    assert len(world.log) == number


def test_a_bounded_success_that_cannot_improve_is_emitted() -> None:
    """It sorts at its latest instant from then on, so consumers must learn of it."""
    world = World()
    world.observe(seen(1, "InProgress"))
    world.observe(seen(5, "Complete"))
    world.observe(seen(6, "Complete", is_detail_final=True))

    assert types(world)[-1] is EventType.RUN_DETAILED
    assert world.log[-1].run.detailed


@pytest.mark.parametrize(
    "parts",
    list(permutations((part_of(1), part_of(2, 5), part_of(3, 4), part_of(3, 4, error="no")))),
)
def test_the_part_that_failed_first_is_the_reason(parts: tuple[FailedPart, ...]) -> None:
    """Whatever the order in which failed parts become known, and with all that is known of it."""
    world = World()
    for part in parts:
        world.observe(seen(2, "Failed", key=PLAN_RUN, failed_part=part))

    assert world.states[PLAN_RUN].failed_part == part_of(3, 4, error="no")


def test_our_clock_set_while_a_run_is_observed_moves_no_time() -> None:
    """An observation was read just now, whichever skew is of before and which of after.

    A callback may have waited, and comes not after now.
    """
    ours, later = START, START + timedelta(minutes=20, seconds=5)
    read = Observation(
        key=RunKey("acme", RunKind.JOB_GROUP, "9"), source=Source.POLL, observed_at=ours
    )
    called = msgspec.structs.replace(read, source=Source.CALLBACK)
    for skew, expected in ((1_201.0, ours + timedelta(seconds=1_201)), (0.0, ours), (9e3, later)):
        boundary = Boundary(clock_skew_seconds=skew, workspace_now=later)
        assert boundary.observed_at(read) == later
        assert boundary.observed_at(called) == expected
    assert Boundary().observed_at(read) is None

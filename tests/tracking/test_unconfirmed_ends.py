"""Ends that only a callback has reported: emitted at once, believed when the workspace agrees."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from monitor.model.events import EventType
from monitor.model.observations import Observation, ObservationOutcome
from monitor.model.runs import (
    EndBasis,
    JobCount,
    JobDetails,
    RunKey,
    RunKind,
    RunState,
    Source,
    Status,
)
from tests.tracking.histories import START, World

KEY = RunKey("acme", RunKind.JOB_GROUP, "9")


def seen(minute: int, word: str | None, **details: object) -> Observation:
    """Return what a poll showed so many minutes after the start."""
    observation = Observation(
        key=KEY,
        source=Source.POLL,
        observed_at=START + timedelta(minutes=minute),
        native_status=word,
    )
    return msgspec.structs.replace(observation, **details)


def called(minute: int, word: str, **details: object) -> Observation:
    """Return a callback that arrived so many minutes after the start."""
    return msgspec.structs.replace(seen(minute, word), source=Source.CALLBACK, **details)


def gone(minute: int) -> Observation:
    return seen(minute, None, source=Source.RECONCILIATION, is_gone=True)


def records(*words: str) -> dict[str, object]:
    """Return what the job records add to an observation of an end."""
    return {
        "jobs": JobDetails(
            counts=tuple(JobCount(job_type="wrangle", status=word, count=1) for word in words)
        ),
        "finished_at": START + timedelta(minutes=1),
        "finished_by": EndBasis.DERIVED,
        "error": "no such column",
        "is_detail_final": True,
    }


def observed(*observations: Observation) -> World:
    world = World()
    for observation in observations:
        world.observe(observation)
    return world


def types(world: World) -> list[EventType]:
    return [event.type for event in world.log]


BEGUN = [EventType.RUN_QUEUED, EventType.RUN_STARTED]


def test_a_claimed_end_is_emitted_and_the_run_goes_on() -> None:
    """The event carries the end as its status; the state keeps what the workspace reported."""
    world = observed(seen(0, "Created"), called(2, "Failed"))

    state, event = world.states[KEY], world.log[-1]
    assert (state.status, state.native_status) == (Status.PENDING, "Created")
    assert (state.unconfirmed_end, state.ended_by) == (Status.FAILED, None)
    assert types(world) == [*BEGUN, EventType.RUN_FAILED]
    assert (event.run.status, event.run.unconfirmed_end) == (Status.FAILED, Status.FAILED)
    assert (event.run.native_status, event.run.ended_by) == ("Failed", Source.CALLBACK)
    assert world.log[-2].run.unconfirmed_end is None


def test_a_claim_is_no_confirmation() -> None:
    """When the workspace last reported the run is not moved by a callback that claims an end."""
    state = observed(seen(0, "InProgress"), called(2, "Failed")).states[KEY]

    assert (state.confirmed_at, state.confirmed_by) == (START, Source.POLL)
    assert state.is_called_back


def test_agreement_ends_the_run_with_one_internal_event() -> None:
    """No second end; consumers inside learn that it is confirmed."""
    world = observed(seen(0, "InProgress"), called(2, "Failed"), seen(3, "Failed"))

    state = world.states[KEY]
    assert (state.status, state.unconfirmed_end) == (Status.FAILED, None)
    assert state.ended_by is Source.POLL
    assert types(world) == [*BEGUN, EventType.RUN_FAILED, EventType.RUN_CONFIRMED]
    assert world.log[-1].run == state
    assert world.observe(seen(4, "Failed")) is ObservationOutcome.UNCHANGED


def test_the_confirmation_goes_out_beside_details_that_come_with_it() -> None:
    """Consumers count on it for each end that a callback reported first."""
    world = observed(
        seen(0, "InProgress"), called(2, "Failed"), seen(3, "Failed", **records("Failed"))
    )

    ended = [EventType.RUN_FAILED, EventType.RUN_CONFIRMED, EventType.RUN_DETAILED]
    assert types(world) == [*BEGUN, *ended]
    assert world.log[-1].run.unconfirmed_end is None


def test_records_read_for_a_claim_are_kept_for_its_confirmation() -> None:
    """They go out once, with the confirmation, and need not be read again."""
    world = observed(seen(0, "InProgress"), called(2, "Failed", **records("Failed", "canceled")))
    assert world.states[KEY].detailed is False

    world = observed(seen(0, "InProgress"), called(2, "Failed", **records("failed", "canceled")))
    assert types(world) == [*BEGUN, EventType.RUN_FAILED]
    assert world.log[-1].run.unconfirmed_end is Status.FAILED
    assert world.states[KEY].detailed
    world.observe(seen(4, "Failed"))
    state = world.states[KEY]
    assert (state.detailed, state.error) == (True, "no such column")
    assert state.finished_at == START + timedelta(minutes=1)
    assert types(world)[-2:] == [EventType.RUN_CONFIRMED, EventType.RUN_DETAILED]


def test_records_read_for_a_claim_are_void_where_the_run_goes_on() -> None:
    """Between two jobs all records are over: they say nothing of an end that comes later."""
    world = observed(
        seen(0, "InProgress"),
        called(2, "Complete", **records("succeeded")),
        seen(5, "InProgress"),
        seen(60, "Failed"),
    )
    state = world.states[KEY]
    assert (state.status, state.detailed) == (Status.FAILED, False)
    assert state.finished_at is None or state.finished_at > START + timedelta(minutes=5)


def test_progress_of_a_claimed_run_is_still_taken() -> None:
    """Rules about runs that are stuck judge it by its newest job records, not by the claim's."""
    progress = JobDetails(percent_complete=70.0, read_at=START + timedelta(minutes=5))
    state = observed(
        seen(0, "InProgress"),
        called(2, "Failed", **records("failed")),
        seen(5, None, source=Source.DETAIL, jobs=progress),
    ).states[KEY]

    assert state.jobs == progress
    assert state.detailed


def test_records_of_a_run_that_goes_on_show_no_end() -> None:
    """A callback that lies makes no end out of the times of those jobs that are over."""
    world = observed(seen(0, "InProgress"), called(2, "Complete", **records("failed", "running")))

    state = world.states[KEY]
    assert (state.detailed, state.finished_at, state.error) == (False, None, None)
    world.observe(seen(9, "Failed", updated_at=START + timedelta(minutes=8)))
    assert world.states[KEY].finished_at == START + timedelta(minutes=8)


def test_another_end_corrects_the_claim_once() -> None:
    """The correction and the true end go out together; later claims only count."""
    world = observed(seen(0, "InProgress"), called(2, "Complete"))
    assert world.observe(seen(3, "Failed")) is ObservationOutcome.CHANGED

    corrected, failed = world.log[-2:]
    assert (corrected.type, failed.type) == (EventType.RUN_CORRECTED, EventType.RUN_FAILED)
    assert corrected.before is failed.before is Status.SUCCEEDED
    assert corrected.run == failed.run == world.states[KEY]
    assert world.states[KEY].unconfirmed_end is None
    number = len(world.log)
    assert world.observe(called(4, "Complete")) is ObservationOutcome.CONTRADICTED
    assert world.observe(called(5, "Canceled")) is ObservationOutcome.UNCHANGED
    assert (len(world.log), world.states[KEY].status) == (number, Status.FAILED)


def test_a_lagging_read_is_no_disagreement() -> None:
    """A read that still shows the run unfinished neither confirms nor corrects the claim."""
    world = observed(seen(0, "Created"), called(2, "Complete"), seen(3, "InProgress"))

    assert types(world) == [*BEGUN, EventType.RUN_SUCCEEDED]
    state = world.states[KEY]
    assert (state.status, state.unconfirmed_end) == (Status.RUNNING, Status.SUCCEEDED)


def test_a_second_claim_changes_nothing() -> None:
    """The same one is silent, another one is counted as a contradiction, once."""
    world = observed(seen(0, "InProgress"), called(2, "Complete"))
    number = len(world.log)

    assert world.observe(called(3, "Complete")) is ObservationOutcome.UNCHANGED
    assert world.observe(called(4, "Failed")) is ObservationOutcome.CONTRADICTED
    assert world.observe(called(5, "Failed")) is ObservationOutcome.UNCHANGED
    assert len(world.log) == number
    assert world.states[KEY].unconfirmed_end is Status.SUCCEEDED


def test_a_claim_stands_when_the_run_is_gone() -> None:
    """Nothing is emitted, and the end stays unconfirmed."""
    world = observed(seen(0, "InProgress"), called(2, "Failed"))
    number = len(world.log)
    assert world.observe(gone(3)) is ObservationOutcome.ENRICHED
    assert world.observe(gone(4)) is ObservationOutcome.UNCHANGED

    state = world.states[KEY]
    assert (state.status, state.unconfirmed_end) == (Status.FAILED, Status.FAILED)
    assert (state.ended_by, len(world.log)) == (Source.CALLBACK, number)


@pytest.mark.parametrize(
    ("word", "last"),
    [
        ("Failed", [EventType.RUN_FAILED, EventType.RUN_CONFIRMED]),
        ("Complete", [EventType.RUN_CORRECTED, EventType.RUN_SUCCEEDED]),
    ],
)
def test_a_run_that_was_gone_can_still_be_confirmed_or_corrected(
    word: str, last: list[EventType]
) -> None:
    """The workspace shows its end after all."""
    world = observed(seen(0, "InProgress"), called(2, "Failed"), gone(3), seen(4, word))

    assert types(world)[-2:] == last
    assert world.states[KEY].unconfirmed_end is None


def ends(*observations: Observation) -> tuple[object, object]:
    state: RunState = observed(*observations).states[KEY]
    return state.unfinished_at, state.end_seen_at


def test_a_claim_bounds_the_end_unless_the_workspace_refutes_it() -> None:
    """The first sight of the end is the claim, where no read has shown the run go on since."""
    at = [START + timedelta(minutes=minute) for minute in range(9)]

    assert ends(seen(1, "InProgress"), called(3, "Failed"), seen(5, "Failed")) == (at[1], at[3])
    lying = (seen(1, "InProgress"), called(3, "Failed"), seen(4, "InProgress"))
    assert ends(*lying, seen(5, "Failed")) == (at[4], at[5])
    assert ends(seen(1, "InProgress"), called(3, "Complete"), seen(5, "Failed")) == (at[1], at[5])

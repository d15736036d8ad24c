"""Ends that the workspace changes after it has reported them: its last word is what is known."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from monitor.model.events import STATUS_EVENTS
from monitor.model.observations import Observation, ObservationOutcome
from monitor.model.runs import (
    EndBasis,
    FailedPart,
    JobCount,
    JobDetails,
    RunKey,
    RunKind,
    Source,
    Status,
    status_of,
)
from monitor.outputs.metrics.counter_rows import JobCounts, QueueCounts
from monitor.outputs.metrics.counting import CountingLimits, PendingCounts
from monitor.tracking.transitions import Boundary
from tests.tracking.histories import START, World, remaining

KEY = RunKey("acme", RunKind.JOB_GROUP, "9")
BEGUN = ["queued", "started"]
WORDS = ("Complete", "Failed", "Canceled")


def shown(minute: float, word: str | None, **details: object) -> Observation:
    """Return what a poll showed so many minutes after the start."""
    observation = Observation(
        key=KEY,
        source=Source.POLL,
        observed_at=START + timedelta(minutes=minute),
        native_status=word,
    )
    return msgspec.structs.replace(observation, **details)


def written(read: float, word: str, at: float, **details: object) -> Observation:
    """Return what was read at one minute of a record that was last written at another."""
    return shown(read, word, updated_at=START + timedelta(minutes=at), **details)


def called(minute: float, word: str) -> Observation:
    return shown(minute, word, source=Source.CALLBACK)


def ended(minute: float, word: str) -> Observation:
    """Return an end that the workspace reports with its time."""
    return written(minute, word, minute, finished_at=START + timedelta(minutes=minute))


def recorded(minute: float, word: str, source: Source) -> Observation:
    """Return an end with job records that were read at that minute, when the last of them ended."""
    at, status = START + timedelta(minutes=minute), status_of(word)
    assert status is not None
    counts = (JobCount(job_type="wrangle", status=status.value, count=1),)
    return shown(
        minute,
        word,
        source=source,
        finished_at=at,
        finished_by=EndBasis.DERIVED,
        approximate=("finished_at",),
        jobs=JobDetails(counts=counts, read_at=at),
        is_detail_final=True,
    )


def observed(*observations: Observation, boundary: Boundary | None = None) -> World:
    world = World(boundary=boundary or Boundary())
    for observation in observations:
        world.observe(observation)
    return world


def words(world: World) -> list[str]:
    """Return what the ids of the events say after the run."""
    return [event.id.removeprefix(f"{KEY}:") for event in world.log]


def test_each_change_of_an_end_is_a_correction_with_its_own_end() -> None:
    """Complete, Failed and back: each change is published under ids that repeat nothing."""
    world = observed(shown(1, "Complete"), shown(2, "Failed"), shown(3, "Complete"))

    changes = ["corrected:1", "failed:1", "corrected:2", "succeeded:2"]
    assert words(world) == [*BEGUN, "succeeded", *changes]
    before = [event.before for event in world.log[3:]]
    assert before == [Status.SUCCEEDED, Status.SUCCEEDED, Status.FAILED, Status.FAILED]
    assert world.log[-1].run == world.log[-2].run == world.states[KEY]
    assert (world.states[KEY].status, world.states[KEY].corrections) == (Status.SUCCEEDED, 2)


def test_the_same_end_again_changes_nothing() -> None:
    """A change is news once, however often it is read."""
    world = observed(shown(1, "Complete"), shown(2, "Failed"))

    assert world.observe(shown(3, "Failed")) is ObservationOutcome.UNCHANGED
    assert world.observe(shown(4, "InProgress")) is ObservationOutcome.UNCHANGED
    assert world.states[KEY].status is Status.FAILED


@pytest.mark.parametrize("source", [Source.CALLBACK, Source.DETAIL, Source.PARTS])
def test_only_the_workspace_changes_what_it_has_reported(source: Source) -> None:
    """A sender with the secret must not hide a failure, nor make one."""
    world = observed(shown(1, "Failed"), shown(2, "Complete", source=source))

    assert world.states[KEY].status is Status.FAILED
    assert words(world) == [*BEGUN, "failed"]


def test_a_claim_that_its_records_refute_is_not_refuted_under_the_same_ids() -> None:
    """A callback says Failed, job records that it is complete, the workspace that it failed."""
    world = observed(
        shown(0, "InProgress"),
        called(1, "Failed"),
        recorded(2, "Complete", Source.PARTS),
        shown(3, "Failed"),
        shown(4, "Complete"),
    )

    refuted = ["failed", "corrected", "succeeded", "detailed"]
    changes = ["corrected:1", "failed:1", "corrected:2", "succeeded:2"]
    assert words(world) == [*BEGUN, *refuted, *changes]


def test_a_corrected_claim_can_still_be_changed() -> None:
    """An end that a callback claimed is corrected without a number: it was not reported before."""
    world = observed(
        shown(0, "InProgress"), called(1, "Complete"), shown(2, "Failed"), shown(3, "Complete")
    )

    changes = ["corrected", "failed", "corrected:1", "succeeded:1"]
    assert words(world) == [*BEGUN, "succeeded", *changes]


def test_a_lost_run_that_shows_an_end_is_corrected() -> None:
    """It was denied for a while; the end that it shows then is the last word."""
    gone = shown(1, None, source=Source.RECONCILIATION, is_gone=True)
    world = observed(shown(0, "InProgress"), gone, shown(2, "Complete"))

    assert words(world) == [*BEGUN, "lost", "corrected:1", "succeeded:1"]


JOBS = JobDetails(counts=(JobCount(job_type="wrangle", status="succeeded", count=2),))


@pytest.mark.parametrize("read_after", [{0}, {1}, {2}, {0, 1}, {0, 2}, {1, 2}, {0, 1, 2}])
def test_jobs_are_counted_once_whichever_end_they_are_read_for(read_after: set[int]) -> None:
    """Their records may be read before the first change of the end, or not before the last one."""
    world = World()
    for number, word in enumerate(("Complete", "Failed", "Complete")):
        world.observe(shown(4 * number, word, created_at=START, started_at=START))
        if number in read_after:
            records = {"source": Source.DETAIL, "jobs": JOBS, "is_detail_final": True}
            world.observe(shown(4 * number + 1, word, started_at=START, **records))
    pending = PendingCounts({}, limits=CountingLimits(places=100, forget_seconds=86_400))
    for event in world.log:
        pending.take(event)

    rows = pending.changed.values()
    assert [row.ended for row in rows if isinstance(row, JobCounts)] == [{Status.SUCCEEDED: 2}]
    assert [sum(row.waits.counts) for row in rows if isinstance(row, QueueCounts)] == [1]


def test_details_of_a_corrected_end_go_with_it() -> None:
    """A success carries no reason of the failure that it was, and its records are read again."""
    failure = shown(
        1,
        "Failed",
        error="no such column",
        is_detail_final=True,
        failed_part=FailedPart(key=RunKey("acme", RunKind.JOB_GROUP, "1")),
    )
    world = observed(failure, shown(2, "Complete"))

    run = world.states[KEY]
    assert (run.error, run.failed_part, run.detailed) == (None, None, False)
    details = shown(3, None, source=Source.DETAIL, is_detail_final=True, error="late")
    assert world.observe(details) is not ObservationOutcome.CONTRADICTED
    assert len(set(words(world))) == len(words(world))


def test_job_records_of_the_end_before_do_not_stay() -> None:
    """They neither explain the other end nor speak against it, nor keep its own from being read."""
    failed, complete = recorded(2, "Failed", Source.DETAIL), recorded(5, "Complete", Source.DETAIL)
    world = observed(shown(1, "Failed"), failed, shown(4, "Complete"))
    run = world.states[KEY]
    assert (run.jobs, run.detailed, run.implausible) == (None, False, ())

    world.observe(complete)
    run = world.states[KEY]
    assert (run.jobs, run.detailed, run.implausible) == (complete.jobs, True, ())
    assert words(world)[-1] == "detailed:1"


def test_an_end_that_comes_with_its_job_records_has_those() -> None:
    """A success whose records were read becomes a failure; its own records come with it."""
    complete, failed = recorded(2, "Complete", Source.DETAIL), recorded(4, "Failed", Source.POLL)
    world = observed(shown(1, "Complete"), complete, failed)

    run = world.states[KEY]
    assert (run.jobs, run.detailed) == (failed.jobs, True)
    assert words(world)[-3:] == ["corrected:1", "failed:1", "detailed:1"]


@pytest.mark.parametrize("word", ["Complete", "Failed"])
@pytest.mark.parametrize("left", [None, "2"])
def test_a_part_that_has_not_failed_after_all_is_taken_back_by_name(
    word: str, left: str | None
) -> None:
    """The end is published again with what explains it now, and counts once."""

    def explained(minute: float, said: str | None, part: str | None) -> Observation:
        failed = FailedPart(key=RunKey("acme", RunKind.JOB_GROUP, part)) if part else None
        source = Source.DETAIL if said is None else Source.POLL
        end = shown(minute, said, source=source, failed_part=failed, is_detail_final=True)
        return msgspec.structs.replace(end, are_parts_known=True)

    world = observed(explained(1, word, "1"), explained(2, None, "1"))
    number = len(world.log)
    world.observe(explained(3, None, left))

    run = world.states[KEY]
    name = STATUS_EVENTS[run.status].removeprefix("run.")
    assert words(world)[number:] == ["corrected:1", f"{name}:1"]
    assert (None if run.failed_part is None else run.failed_part.key.id) == left
    assert run.detailed
    assert world.log[-1].run == run
    assert remaining(world) == {run.status: 1}


def test_an_edit_after_the_end_moves_no_end() -> None:
    """A run that had ended did not end again: its last write is no time of its other end."""
    world = observed(written(1, "Complete", 1), written(60, "Failed", 60))

    run = world.states[KEY]
    assert run.finished_at == START + timedelta(minutes=1)
    assert run.end_seen_at == START + timedelta(minutes=60)


def test_the_other_end_has_its_own_time() -> None:
    """A failure after the success of another run is not hidden by it."""
    world = observed(ended(1, "Complete"), ended(30, "Failed"))

    run = world.states[KEY]
    assert run.finished_at == START + timedelta(minutes=30)
    assert (run.finished_by, run.approximate) == (EndBasis.REPORTED, ())
    assert world.log[-1].occurred_at == run.finished_at


@pytest.mark.parametrize("first", [ended(1, "Complete"), recorded(1, "Complete", Source.POLL)])
def test_job_records_of_the_other_end_show_its_time(first: Observation) -> None:
    """The time of the end before, however it was known, does not stand against theirs."""
    world = observed(
        first, written(31, "Failed", 30, created_at=START), recorded(30, "Failed", Source.DETAIL)
    )

    run = world.states[KEY]
    assert (run.finished_at, run.finished_by) == (START + timedelta(minutes=30), EndBasis.DERIVED)


@pytest.mark.parametrize("read", [1.5, 20])
def test_an_answer_that_lags_changes_nothing(read: float) -> None:
    """The record as it was before its last write is held back, and counted once."""
    world = observed(written(1, "Complete", 0), written(1.2, "Failed", 1))
    number = len(world.log)

    assert world.observe(written(read, "Complete", 0)) is ObservationOutcome.CONTRADICTED
    assert (len(world.log), world.states[KEY].status) == (number, Status.FAILED)
    assert world.states[KEY].contradiction == "Complete"
    assert world.observe(written(read + 0.1, "Failed", 1)) is ObservationOutcome.UNCHANGED
    assert world.observe(written(read + 0.2, "Canceled", 2)) is ObservationOutcome.CHANGED
    assert world.states[KEY].contradiction is None


def test_a_read_that_began_before_the_end_was_seen_changes_nothing() -> None:
    """It may show what the run was before; without a time of the last write nothing else tells."""
    slow = shown(3, "Complete", requested_at=START + timedelta(minutes=1))
    world = observed(shown(2, "Failed"), slow)

    assert world.states[KEY].status is Status.FAILED
    world.observe(shown(3.1, "Complete", requested_at=START + timedelta(minutes=3)))
    assert world.states[KEY].status is Status.SUCCEEDED


@pytest.mark.parametrize("minutes", [31, -31])
def test_an_end_that_is_still_reported_after_half_an_hour_counts(minutes: int) -> None:
    """The clock of the workspace may have been set back, and ours as well: nothing waits longer."""
    world = observed(written(1, "Complete", 60), written(2, "Failed", 0))
    assert world.states[KEY].status is Status.SUCCEEDED

    world.observe(written(1 + minutes, "Failed", 0))
    assert world.states[KEY].status is Status.FAILED


def test_answers_that_alternate_do_not_flood() -> None:
    """Three changes are believed at once, each further one half an hour after the last."""
    answers = [shown(1 + second / 60, WORDS[second % 2]) for second in range(600)]
    world = observed(*answers)
    assert words(world).count("corrected:3") == 1
    assert world.states[KEY].corrections == 3
    assert world.states[KEY].status is Status.FAILED
    assert world.observe(shown(30, "Complete")) is ObservationOutcome.CONTRADICTED
    assert world.observe(shown(31, "Complete")) is ObservationOutcome.CONTRADICTED

    world.observe(shown(32, "Complete"))
    assert (world.states[KEY].status, world.states[KEY].corrections) == (Status.SUCCEEDED, 4)


def test_an_end_before_we_followed_is_changed_in_silence() -> None:
    """Its state follows; what was never published is not corrected."""
    late = START + timedelta(days=1)
    old = written(1, "Failed", 0, finished_at=START)
    world = observed(old, shown(2, "Complete"), boundary=Boundary(followed_since=late))

    assert (world.log, world.states[KEY].status) == ([], Status.SUCCEEDED)

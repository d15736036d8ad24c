"""What the last runs of a pipeline were like, also when ends arrive out of order."""

from __future__ import annotations

from datetime import timedelta

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from monitor.model.ends import newest_success, open_failures, run_end
from monitor.model.live_state import PipelineHealth
from monitor.model.runs import (
    Implausible,
    Pipeline,
    PipelineKind,
    Recipe,
    RunKey,
    RunKind,
    RunState,
    Source,
    Status,
)
from monitor.tracking.live_state import LiveState
from monitor.tracking.pipeline_health import PipelineHealthTracker, fold, show_health
from tests.tracking.histories import START

ENDS = (Status.SUCCEEDED, Status.FAILED, Status.CANCELED, Status.LOST)


def ended(number: int, status: Status, *, minute: int) -> RunState:
    """Return a run of the flow that ended so many minutes after the start."""
    at = START + timedelta(minutes=minute)
    return RunState(
        key=RunKey("acme", RunKind.FLOW_RUN, str(number)),
        status=status,
        created_at=at - timedelta(minutes=1),
        finished_at=at,
        pipeline=Pipeline(kind=PipelineKind.FLOW, id="11"),
        confirmed_at=at,
        confirmed_by=Source.POLL,
    )


def after(*runs: RunState) -> PipelineHealth:
    """Return the health after these ends arrived in this order."""
    health: PipelineHealth | None = None
    for run in runs:
        health = fold(health, run, None)
    assert health is not None
    return health


def test_failures_count_until_a_success() -> None:
    """Each failure adds one, a cancellation nothing, a success clears."""
    failed = [ended(number, Status.FAILED, minute=number) for number in range(3)]
    canceled = ended(3, Status.CANCELED, minute=3)

    assert after(*failed, canceled).consecutive_failures == 3
    cleared = after(*failed, canceled, ended(4, Status.SUCCEEDED, minute=4))
    assert cleared.consecutive_failures == 0
    assert cleared.last_success_at == START + timedelta(minutes=4)


def test_a_late_old_end_does_not_replace_the_newest() -> None:
    """An end that arrives late is older news; the last result stays."""
    health = after(
        ended(2, Status.SUCCEEDED, minute=9),
        ended(1, Status.FAILED, minute=3),
    )

    assert (health.last_status, health.last_run_id) == (Status.SUCCEEDED, "2")
    assert health.consecutive_failures == 0


def test_an_end_known_better_later_counts_once() -> None:
    """Job records that correct the end of a run do not count its failure again."""
    first = ended(1, Status.FAILED, minute=3)
    better = ended(1, Status.FAILED, minute=2)
    health = fold(fold(None, first, None), better, first)

    assert health is not None
    assert health.consecutive_failures == 1
    assert health.last_finished_at == START + timedelta(minutes=2)


@given(st.permutations(list(range(6))))
def test_the_newest_end_is_the_same_in_any_order(order: list[int]) -> None:
    """Last end, last result and last success do not depend on the order of arrival."""
    results = [Status.FAILED, Status.SUCCEEDED, Status.CANCELED] * 2
    runs = [ended(number, results[number], minute=number) for number in range(6)]
    health = after(*(runs[number] for number in order))

    assert health.last_finished_at == START + timedelta(minutes=5)
    assert health.last_status is Status.CANCELED
    assert health.last_success_at == START + timedelta(minutes=4)


@given(st.permutations(list(range(7))))
def test_failures_since_the_last_success_are_the_same_in_any_order(order: list[int]) -> None:
    """A success that arrives late takes back the failures before it, and only those."""
    results = [
        Status.FAILED,
        Status.SUCCEEDED,
        Status.FAILED,
        Status.FAILED,
        Status.SUCCEEDED,
        Status.FAILED,
        Status.FAILED,
    ]
    runs = [ended(number, results[number], minute=number) for number in range(7)]

    assert after(*(runs[number] for number in order)).consecutive_failures == 2


def test_more_failures_are_counted_than_ends_are_kept() -> None:
    """A weekend of failures is counted in full, and what is kept of it is bounded."""
    runs = [ended(number, Status.FAILED, minute=number) for number in range(300)]
    health = after(*runs)

    assert health.consecutive_failures == 300
    assert len(health.open_failures) <= 50
    assert after(*runs, ended(300, Status.SUCCEEDED, minute=300)).consecutive_failures == 0


def test_a_failure_that_turns_out_to_be_older_than_the_success_no_longer_counts() -> None:
    """An approximate end that the job records move in front of a success is taken back."""
    approximate = ended(1, Status.FAILED, minute=9)
    success = ended(2, Status.SUCCEEDED, minute=5)
    better = ended(1, Status.FAILED, minute=3)
    health = fold(after(approximate, success), better, approximate)

    assert health is not None
    assert health.consecutive_failures == 0


def test_a_recipe_that_is_known_late_counts_its_failure() -> None:
    """A job group whose recipe becomes known after its end counts there, where nothing was."""
    without_recipe = msgspec.structs.replace(
        ended(1, Status.FAILED, minute=3), key=RunKey("acme", RunKind.JOB_GROUP, "1")
    )
    with_recipe = msgspec.structs.replace(without_recipe, recipe=Recipe(id="7"))
    health = fold(None, with_recipe, without_recipe)

    assert health is not None
    assert (health.recipe_id, health.consecutive_failures) == ("7", 1)


@given(
    st.lists(
        st.tuples(st.sampled_from(list(ENDS)), st.integers(0, 3), st.integers(0, 3)),
        min_size=1,
        max_size=7,
    ),
    st.data(),
)
def test_health_follows_the_order_of_ends_however_they_are_seen(
    drawn: list[tuple[Status, int, int]], data: st.DataObject
) -> None:
    """Ends seen in any order, each first with a late time and then with the true one."""
    firsts = [
        ended(number, status, minute=minute + late)
        for number, (status, minute, late) in enumerate(drawn)
    ]
    betters = [
        ended(number, status, minute=minute) for number, (status, minute, _) in enumerate(drawn)
    ]
    health: PipelineHealth | None = None
    seen: set[int] = set()
    numbers = list(range(len(drawn)))
    for number in data.draw(st.permutations(numbers * 2)):
        run = betters[number] if number in seen else firsts[number]
        health = fold(health, run, firsts[number] if number in seen else None)
        seen.add(number)

    ends = sorted((end for run in betters if (end := run_end(run))), key=lambda end: end.order)
    assert health is not None
    assert (health.last_run_id, health.last_status) == (ends[-1].run_id, ends[-1].status)
    assert health.last_finished_at == ends[-1].at
    assert health.consecutive_failures == len(open_failures(ends))
    assert health.open_failures == open_failures(ends)
    success = newest_success(ends)
    assert health.last_success_at == (None if success is None else success.at)


def test_two_ends_of_one_second_do_not_swap_when_details_arrive() -> None:
    """A failure and a success of one second: the failure is last, whichever is refined last."""
    failed, succeeded = ended(2, Status.FAILED, minute=3), ended(1, Status.SUCCEEDED, minute=3)
    detailed = msgspec.structs.replace(succeeded, detailed=True, error="a warning")
    health = fold(after(failed, succeeded), detailed, succeeded)

    assert health is not None
    assert (health.last_run_id, health.consecutive_failures) == ("2", 1)


def test_the_last_run_is_found_again_when_it_turns_out_to_be_older() -> None:
    """The end of the last run moves before another one: that one is the last then."""
    late = ended(1, Status.FAILED, minute=9)
    other = ended(2, Status.CANCELED, minute=5)
    better = ended(1, Status.FAILED, minute=3)
    health = fold(after(late, other), better, late)

    assert health is not None
    assert (health.last_run_id, health.last_status) == ("2", Status.CANCELED)
    assert health.last_finished_at == START + timedelta(minutes=5)


def test_a_success_that_turns_out_to_be_older_gives_its_failures_back() -> None:
    """A failure between the true end of a success and the one first assumed still counts."""
    success = ended(1, Status.SUCCEEDED, minute=9)
    failed = ended(2, Status.FAILED, minute=5)
    better = ended(1, Status.SUCCEEDED, minute=3)
    health = fold(after(success, failed), better, success)

    assert health is not None
    assert health.consecutive_failures == 1
    assert health.last_success_at == START + timedelta(minutes=3)
    assert health.last_run_id == "2"


def test_kept_ends_of_a_weekend_of_failures_are_bounded_and_have_the_last_success() -> None:
    """The newest success is kept after any number of later ends."""
    success = ended(0, Status.SUCCEEDED, minute=0)
    runs = [ended(number, Status.FAILED, minute=number) for number in range(1, 200)]
    health = after(success, *runs)

    assert len(health.ends) <= 50
    assert (health.last_success_at, health.consecutive_failures) == (START, 199)


def test_a_late_success_before_all_that_is_kept_clears_nothing() -> None:
    """Failures that are counted and no longer kept may lie after it."""
    runs = [ended(number, Status.FAILED, minute=number) for number in range(1, 200)]
    health = after(*runs, ended(0, Status.SUCCEEDED, minute=0))

    assert (health.last_success_at, health.consecutive_failures) == (START, 199)


def test_health_stored_with_what_follows_from_its_ends_opens() -> None:
    """Earlier versions stored last end, last success and failures beside the ends."""
    stored = (
        b'{"workspace":"acme","run_kind":"flow_run","pipeline":{"kind":"flow","id":"11","name":null}'
        b',"last_started_at":"2026-11-21T10:01:00Z","last_finished_at":"2026-11-21T10:02:00Z"'
        b',"last_success_at":"2026-11-21T10:01:00Z","last_status":"failed"'
        b',"last_duration_seconds":60.0,"last_run_id":"2"'
        b',"last_run_started_at":"2026-11-21T10:01:00Z","consecutive_failures":1'
        b',"failed_at":["2026-11-21T10:02:00Z"],"ends":[{"run_id":"1","status":"succeeded"'
        b',"earliest":"2026-11-21T10:01:00Z","latest":"2026-11-21T10:01:00Z"'
        b',"began_at":"2026-11-21T10:00:00Z","duration_seconds":60.0},{"run_id":"2"'
        b',"status":"failed","earliest":"2026-11-21T10:02:00Z","latest":"2026-11-21T10:02:00Z"'
        b',"began_at":"2026-11-21T10:01:00Z","duration_seconds":60.0}]}'
    )
    live_state = LiveState(["acme"])
    show_health(live_state, {"flow_run/11/": stored})
    (health,) = live_state.view.pipeline_health()

    assert health == after(ended(1, Status.SUCCEEDED, minute=1), ended(2, Status.FAILED, minute=2))
    assert (health.last_run_id, health.consecutive_failures) == ("2", 1)
    assert health.last_success_at == START + timedelta(minutes=1)


def test_a_job_group_whose_recipe_is_known_late_counts_once() -> None:
    """Its end leaves what was kept where no recipe was known."""
    live_state = LiveState(["acme"])
    tracker = PipelineHealthTracker(live_state)
    without = msgspec.structs.replace(
        ended(1, Status.FAILED, minute=3), key=RunKey("acme", RunKind.JOB_GROUP, "1")
    )
    tracker.learn([without], {})
    with_recipe = msgspec.structs.replace(without, recipe=Recipe(id="7"))
    tracker.learn([with_recipe], {without.key: without})

    counted = {
        health.recipe_id: health.consecutive_failures
        for health in live_state.view.pipeline_health()
    }
    assert counted == {None: 0, "7": 1}


def test_a_start_in_the_future_is_when_the_run_was_first_seen() -> None:
    """It must not stand for all starts until its time comes, and does not move on."""
    run = msgspec.structs.replace(
        ended(1, Status.RUNNING, minute=90),
        finished_at=None,
        unfinished_at=START + timedelta(minutes=2),
        implausible=(Implausible.IN_THE_FUTURE,),
    )
    health = fold(None, run, None)
    assert health is not None
    assert health.last_started_at == START + timedelta(minutes=2)

    later = msgspec.structs.replace(run, unfinished_at=START + timedelta(minutes=7))
    assert fold(health, later, run) == health

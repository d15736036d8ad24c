"""What the last runs of a pipeline were like, also when ends arrive out of order."""

from __future__ import annotations

from datetime import timedelta

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from monitor.model.live_state import PipelineHealth
from monitor.model.runs import (
    Pipeline,
    PipelineKind,
    Recipe,
    RunKey,
    RunKind,
    RunState,
    Source,
    Status,
)
from monitor.tracking.pipeline_health import fold
from tests.tracking.histories import START


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
    assert len(health.failed_at) <= 50
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

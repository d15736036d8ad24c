"""What an event adds to the counters."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

import msgspec
import pytest

from monitor.model.events import Event, EventType, WorkspaceEvent
from monitor.model.runs import JobCount, RunKind, Status, Trigger
from monitor.outputs.metrics.counter_rows import (
    OTHER,
    UNKNOWN,
    AwaitedDurations,
    CounterRow,
    Identity,
    JobCounts,
    QueueCounts,
    RunCounts,
    decode_row,
    with_present_bounds,
)
from monitor.outputs.metrics.counting import CountingLimits, PendingCounts
from tests.outputs.metrics_examples import NOON, event, flow, history, plan, run

ROOMY = CountingLimits(places=100, forget_seconds=86_400)
DAILY = Identity("one", RunKind.PLAN_RUN, "7")


def folded(
    events: Iterable[Event],
    rows: dict[str, CounterRow] | None = None,
    *,
    limits: CountingLimits = ROOMY,
) -> dict[str, CounterRow]:
    """Count events one batch each, as if each had been committed."""
    counted = dict(rows or {})
    for next_event in events:
        pending = PendingCounts(counted, limits=limits)
        pending.take(next_event)
        counted = {
            key: row for key, row in {**counted, **pending.changed}.items() if row is not None
        }
    return counted


def counts(rows: dict[str, CounterRow], identity: Identity) -> RunCounts:
    row = rows[identity.key]
    assert isinstance(row, RunCounts)
    return row


def test_a_run_counts_its_start_its_end_and_its_duration() -> None:
    """The three events of a run add one start, one end and one duration."""
    rows = folded(history(run(1, Status.FAILED, pipeline=plan(7, "daily"))))
    row = counts(rows, DAILY)
    assert row.started == {Trigger.SCHEDULE: 1}
    assert row.ended == {Status.FAILED: 1}
    assert (row.durations.counts[2], sum(row.durations.counts)) == (1, 1)
    assert row.durations.sum == 45.0
    assert row.name == "daily"


def test_a_bound_belongs_to_its_bucket() -> None:
    """A run of exactly 60 seconds lies in the bucket le="60"."""
    rows = folded([event(run(1, Status.SUCCEEDED, pipeline=plan(7), seconds=60.0))])
    assert counts(rows, DAILY).durations.counts[2] == 1


def test_an_end_without_times_has_no_duration() -> None:
    """A run whose end has no time is counted, and adds nothing to the histogram."""
    rows = folded([event(run(1, Status.LOST, pipeline=plan(7), seconds=None))])
    assert counts(rows, DAILY).ended == {Status.LOST: 1}
    assert sum(counts(rows, DAILY).durations.counts) == 0


def test_a_run_without_a_pipeline_is_unknown() -> None:
    """A run without a pipeline is counted under ``unknown``."""
    rows = folded([event(run(1, Status.SUCCEEDED))])
    assert counts(rows, Identity("one", RunKind.PLAN_RUN, UNKNOWN)).ended == {Status.SUCCEEDED: 1}


@pytest.mark.parametrize(
    ("queued_seconds", "approximate", "expected"),
    [(3.0, (), 1), (None, (), 0), (3.0, ("started_at",), 0)],
)
def test_a_wait_in_the_queue_needs_two_exact_times(
    queued_seconds: float | None, approximate: tuple[str, ...], expected: int
) -> None:
    """An unknown or approximate start does not measure the queue."""
    state = run(
        1,
        Status.SUCCEEDED,
        pipeline=plan(7),
        queued_seconds=queued_seconds,
        approximate=approximate,
    )
    waits = [row for row in folded(history(state)).values() if isinstance(row, QueueCounts)]
    assert sum(sum(row.waits.counts) for row in waits) == expected


def test_a_job_group_waits_once_although_its_start_is_reported_twice() -> None:
    """The end and the job records both have the start; the queue is measured once."""
    state = run(1, Status.SUCCEEDED, kind=RunKind.JOB_GROUP, pipeline=flow(3))
    rows = folded([*history(state), event(state, EventType.RUN_DETAILED)])
    waits = [row for row in rows.values() if isinstance(row, QueueCounts)]
    assert [sum(row.waits.counts) for row in waits] == [1]


def test_the_duration_of_a_callbacks_end_follows_from_the_job_records() -> None:
    """An end without times is measured when the job records are read, and only once."""
    succeeded = run(1, Status.SUCCEEDED, kind=RunKind.JOB_GROUP, pipeline=flow(3), seconds=None)
    detailed = msgspec.structs.replace(succeeded, finished_at=NOON + timedelta(seconds=33))
    identity = Identity("one", RunKind.JOB_GROUP, "3")
    rows = folded(history(succeeded))
    assert sum(counts(rows, identity).durations.counts) == 0
    rows = folded([event(detailed, EventType.RUN_DETAILED)], rows)
    assert counts(rows, identity).durations.sum == 30.0
    assert rows[AwaitedDurations().key] == AwaitedDurations(runs=())
    rows = folded([event(detailed, EventType.RUN_DETAILED)], rows)
    assert sum(counts(rows, identity).durations.counts) == 1


def test_runs_that_never_get_job_records_do_not_pile_up() -> None:
    """The list of ends without a duration has a bound; the oldest is dropped."""
    ends = [
        event(run(number, Status.SUCCEEDED, kind=RunKind.JOB_GROUP, seconds=None))
        for number in range(1_005)
    ]
    pending = PendingCounts({}, limits=ROOMY)
    for end in ends:
        pending.take(end)
    waiting = pending.changed[AwaitedDurations().key]
    assert isinstance(waiting, AwaitedDurations)
    assert len(waiting.runs) == 1_000
    assert waiting.runs[-1].id == "1004"


def test_only_ended_jobs_count_and_in_our_words() -> None:
    """Job records count by our names, whatever their spelling; unfinished ones do not."""
    state = run(
        1,
        Status.FAILED,
        kind=RunKind.JOB_GROUP,
        pipeline=flow(3),
        jobs=(
            JobCount(job_type="wrangle", status="Complete", count=2),
            JobCount(job_type="wrangle", status="failed", count=1),
            JobCount(job_type="profile", status="Cancelled", count=1),
            JobCount(job_type="profile", status="succeeded", count=4),
            JobCount(job_type="publish", status="InProgress", count=1),
            JobCount(job_type="publish", status="Brewing", count=1),
        ),
    )
    rows = folded([event(state, EventType.RUN_DETAILED)])
    jobs = {row.job_type: row.ended for row in rows.values() if isinstance(row, JobCounts)}
    assert jobs == {
        "wrangle": {Status.SUCCEEDED: 2, Status.FAILED: 1},
        "profile": {Status.CANCELED: 1, Status.SUCCEEDED: 4},
    }


def test_job_types_have_a_bound() -> None:
    """A workspace that invents job types fills one more row, not one each."""
    ended = [
        event(
            run(
                number,
                Status.SUCCEEDED,
                kind=RunKind.JOB_GROUP,
                jobs=(JobCount(job_type=f"type-{number}", status="Complete", count=1),),
            ),
            EventType.RUN_DETAILED,
        )
        for number in range(130)
    ]
    jobs = [row for row in folded(ended).values() if isinstance(row, JobCounts)]
    assert len(jobs) == 101
    assert sum(sum(row.ended.values()) for row in jobs) == 130


def test_a_full_budget_counts_all_later_pipelines_together() -> None:
    """Runs counted under "other" stay there, also when other pipelines are counted meanwhile."""
    limits = CountingLimits(places=1, forget_seconds=86_400)
    first, second = (
        run(1, Status.SUCCEEDED, pipeline=plan(7)),
        run(2, Status.SUCCEEDED, pipeline=plan(8)),
    )
    rows = folded([*history(first), *history(second), *history(first)], limits=limits)
    assert counts(rows, DAILY).ended == {Status.SUCCEEDED: 2}
    other = counts(rows, Identity("one", RunKind.PLAN_RUN, OTHER))
    assert other.ended == {Status.SUCCEEDED: 1}
    assert other.name is None
    assert Identity("one", RunKind.PLAN_RUN, "8").key not in rows


def test_a_forgotten_pipeline_releases_its_series() -> None:
    """A pipeline without events for the configured time makes room for one that runs."""
    limits = CountingLimits(places=1, forget_seconds=3_600)
    later = msgspec.structs.replace(
        event(run(2, Status.SUCCEEDED, pipeline=plan(8))), recorded_at=NOON + timedelta(hours=2)
    )
    rows = folded([event(run(1, Status.FAILED, pipeline=plan(7))), later], limits=limits)
    assert DAILY.key not in rows
    assert counts(rows, Identity("one", RunKind.PLAN_RUN, "8")).ended == {Status.SUCCEEDED: 1}


def test_a_smaller_budget_puts_rows_together_without_losing_a_count() -> None:
    """Shrinking moves the counts of the idlest pipelines to "other"; the sums stay."""
    events = [
        msgspec.structs.replace(history_event, recorded_at=NOON + timedelta(minutes=number))
        for number in range(5)
        for history_event in history(run(number, Status.SUCCEEDED, pipeline=plan(number)))
    ]
    rows = folded(events)
    pending = PendingCounts(rows, limits=CountingLimits(places=2, forget_seconds=86_400))
    pending.shrink()
    left = {key: row for key, row in {**rows, **pending.changed}.items() if row is not None}
    pipelines = {row.identity.pipeline for row in left.values() if isinstance(row, RunCounts)}
    assert pipelines == {"3", "4", OTHER}
    other = counts(left, Identity("one", RunKind.PLAN_RUN, OTHER))
    assert (other.ended[Status.SUCCEEDED], other.started[Trigger.SCHEDULE]) == (3, 3)
    assert (sum(other.durations.counts), other.durations.sum) == (3, 135.0)


def test_events_of_a_workspace_itself_count_no_run() -> None:
    """A change of the edition adds to no counter of runs."""
    changed = WorkspaceEvent(
        id="one:edition:1",
        type=EventType.WORKSPACE_CHANGED,
        workspace="one",
        what="edition",
        number=1,
        before=None,
        after="RL",
        occurred_at=None,
        recorded_at=NOON,
    )
    assert folded([changed]) == {}


def test_every_row_survives_the_store() -> None:
    """A row that is encoded and decoded again is the same row, under the same key."""
    state = run(
        1,
        Status.SUCCEEDED,
        kind=RunKind.JOB_GROUP,
        pipeline=flow(3, 'a "quoted" name'),
        jobs=(JobCount(job_type="wrangle", status="Complete", count=1),),
    )
    unmeasured = run(2, Status.SUCCEEDED, kind=RunKind.JOB_GROUP, seconds=None)
    rows = folded([*history(state), event(state, EventType.RUN_DETAILED), *history(unmeasured)])
    assert len({type(row) for row in rows.values()}) == 4
    assert {key: decode_row(msgspec.json.encode(row)) for key, row in rows.items()} == rows


@pytest.mark.parametrize("value", [b"", b"[]", b'{"type":"nonsense"}', b'{"type":"queue"}'])
def test_a_damaged_row_is_an_error(value: bytes) -> None:
    """Bytes that are no row raise an error."""
    with pytest.raises(msgspec.MsgspecError):
        decode_row(value)


def test_a_row_with_other_buckets_has_an_empty_histogram() -> None:
    """Stored buckets of other bounds, or of none, are dropped; the rest of the row is kept."""
    value = (
        b'{"type":"queue","workspace":"one","kind":"plan_run","waits":{"counts":[1,2],"sum":3.0}}'
    )
    expected = QueueCounts(workspace="one", kind=RunKind.PLAN_RUN)
    assert with_present_bounds(decode_row(value)) == expected
    assert with_present_bounds(expected) is expected


def test_an_overlong_run_id_is_no_exemplar() -> None:
    """An exemplar that OpenMetrics does not allow is left out; the run still counts."""
    state = run(1, Status.SUCCEEDED, pipeline=plan(7))
    long = msgspec.structs.replace(state, key=msgspec.structs.replace(state.key, id="9" * 200))
    pending = PendingCounts({}, limits=ROOMY)
    pending.take(event(long))
    assert pending.seen == {}
    assert pending.changed

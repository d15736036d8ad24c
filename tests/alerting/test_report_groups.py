"""Whatever runs ended: each failure stands in one group of a report, and every run is counted."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from monitor.alerting.reports.report_lines import WorkspaceLines
from monitor.alerting.reports.run_groups import (
    BAD,
    MOST_ROWS,
    RunGroups,
    Stretch,
    Usual,
    parents_of,
)
from monitor.model.ends import run_end
from monitor.model.runs import Parents, Recipe, RunKind, RunState, Status
from monitor.tracking.live_state import LiveState
from tests.alerting.engine_scenario import WORKSPACE
from tests.alerting.report_scenario import ended_run

BEGIN = datetime(2026, 11, 20, 18, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
STRETCH = Stretch(BEGIN, BEGIN + 60 * MINUTE)
_ENDS = (Status.FAILED, Status.SUCCEEDED, Status.FAILED, Status.CANCELED, Status.LOST)


class Drawn(Struct, frozen=True):
    """One run; ``ends`` is in minutes from the begin of the stretch."""

    ends: int
    status: Status
    kind: RunKind
    flow: int
    recipe: int
    minutes: int
    noticed: int  # minutes after its end
    is_inside: bool
    has_time: bool
    historical: bool


RUNS = st.lists(
    st.builds(
        Drawn,
        ends=st.integers(-20, 80),
        status=st.sampled_from(_ENDS),
        # Few parts, so that failures and successes of one follow each other.
        kind=st.sampled_from((RunKind.FLOW_RUN, RunKind.JOB_GROUP)),
        flow=st.sampled_from((1, 1, 1, 2)),
        recipe=st.sampled_from((0, 0, 0, 1)),
        minutes=st.sampled_from((0, 1, 5, 40)),
        noticed=st.sampled_from((0, 1, 30)),
        is_inside=st.booleans(),
        has_time=st.booleans(),
        historical=st.booleans(),
    ),
    min_size=1,
    max_size=16,
)


def runs_of(drawn: list[Drawn]) -> list[RunState]:
    """Return the runs, newest creation first; some are parts of the flow run with the first id."""
    made = []
    for number, each in enumerate(drawn):
        ended_at = BEGIN + each.ends * MINUTE
        run = ended_run(
            number,
            ended_at,
            each.status,
            kind=each.kind,
            flow=each.flow,
            seconds=each.minutes * 60,
            parents=Parents(flow_run="0") if each.is_inside and number else Parents(),
            recipe=Recipe(id=str(each.recipe)) if each.recipe else None,
            historical=each.historical,
            end_seen_at=ended_at + each.noticed * MINUTE,
            finished_at=ended_at if each.has_time else None,
            unfinished_at=ended_at - MINUTE,
        )
        made.append(run)
    return sorted(made, key=lambda run: (run.created_at, run.key), reverse=True)


def is_of_stretch(run: RunState) -> bool:
    end = run_end(run)
    assert end is not None
    is_late = end.at < STRETCH.since and STRETCH.holds(run.end_seen_at or end.at)
    return STRETCH.holds(end.at) or (is_late and not run.historical)


@given(drawn=RUNS)
async def test_each_run_is_in_exactly_one_group(drawn: list[Drawn]) -> None:
    """A failure goes on, is over, was over when seen, or is a part of one that is listed."""
    runs = runs_of(drawn)
    groups = RunGroups(STRETCH, usual=lambda _: Usual(seconds=60, slow_from=120))
    for run in runs:
        groups.add(run)
    lines = WorkspaceLines(LiveState([WORKSPACE]).view, WORKSPACE)

    found = await lines.of_failures(groups)
    rows = [
        *found["failed_and_still_failing"],
        *found["failed_and_recovered"],
        *found["over_when_seen"],
    ]
    listed = Counter((row.kind, run_id) for row in rows for run_id in row.run_ids)
    slow = Counter((row.kind, row.run_id) for row in await lines.of_slow(groups))
    expected = {(run.key.kind, run.key.id): run for run in runs if is_of_stretch(run)}
    bad = {key: run for key, run in expected.items() if run.status in BAD}
    parts = {
        key
        for key, run in bad.items()
        if any((parent.kind, parent.id) in bad for parent in parents_of(run))
    }

    assert listed == Counter(bad.keys() - parts)
    assert sum(row.failures for row in rows) == len(bad) - len(parts)
    assert set(slow.values()) <= {1}
    assert all(expected[key].status is Status.SUCCEEDED for key in slow)
    assert sum(count.count for count in lines.of_counts(groups)) == len(expected)


@given(drawn=RUNS)
async def test_what_goes_on_has_no_later_success(drawn: list[Drawn]) -> None:
    """And what is over has one, whose time is not before the failure's place."""
    runs = runs_of(drawn)
    groups = RunGroups(STRETCH, usual=lambda _: None)
    for run in runs:
        groups.add(run)
    lines = await WorkspaceLines(LiveState([WORKSPACE]).view, WORKSPACE).of_failures(groups)
    by_key = {(run.key.kind, run.key.id): run for run in runs}

    over = (*lines["failed_and_recovered"], *lines["over_when_seen"])
    for rows, is_over in ((lines["failed_and_still_failing"], False), (over, True)):
        for row in rows:
            failed = by_key[row.kind, row.run_ids[0]]
            end = run_end(failed)
            assert end is not None
            later = [
                success
                for run in runs
                if run.status is Status.SUCCEEDED
                and (run.key.kind, run.pipeline, run.recipe)
                == (failed.key.kind, failed.pipeline, failed.recipe)
                and (success := run_end(run)) is not None
                and success.order > end.order
            ]
            assert bool(later) == is_over
            if later:
                assert row.recovered_at in {success.at for success in later}


async def test_the_slowest_runs_are_listed_and_the_others_counted() -> None:
    """A line for each of thousands would be of no help."""
    groups = RunGroups(STRETCH, usual=lambda _: Usual(seconds=60, slow_from=120))
    for number in range(MOST_ROWS + 3):
        ended_at = BEGIN + MINUTE
        groups.add(ended_run(number, ended_at, Status.SUCCEEDED, seconds=(number + 2) * 60))
    lines = WorkspaceLines(LiveState([WORKSPACE]).view, WORKSPACE)

    slow = await lines.of_slow(groups)

    assert {row.run_id for row in slow} == {str(number + 3) for number in range(MOST_ROWS)}
    assert list(lines.left_out()) == [f"{WORKSPACE}: 3 lines of slower than usual left out"]

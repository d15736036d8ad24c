"""What ends that only a callback has reported add to the counters."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec
import pytest

from monitor.model.events import Event, EventType
from monitor.model.runs import RunKind, RunState, Status
from monitor.outputs.metrics.counter_rows import CounterRow, Identity, RunCounts, decode_row
from monitor.outputs.metrics.counting import CountingLimits, PendingCounts
from tests.outputs.metrics_daemon import a_daemon
from tests.outputs.metrics_examples import claimed, event, flow, history, named, run

ROOMY = CountingLimits(places=100, forget_seconds=86_400)
ORDERS = Identity("one", RunKind.FLOW_RUN, "7")
CORRECTED = "dataprep_runs_corrected_total"


def flow_run(number: int, status: Status) -> RunState:
    return run(number, status, kind=RunKind.FLOW_RUN, pipeline=flow(7, "orders"))


def corrected(claim: Status, true: Status, number: int = 1) -> tuple[Event, ...]:
    """Return the events of a run whose claimed end the workspace corrects."""
    state = flow_run(number, true)
    return (
        *history(claimed(flow_run(number, claim))),
        event(state, EventType.RUN_CORRECTED, before=claim),
        event(state, before=claim),
    )


def counted(events: Iterable[Event]) -> RunCounts:
    """Count events one batch each, as the store keeps them, and return the row of the flow."""
    rows: dict[str, CounterRow] = {}
    for next_event in events:
        pending = PendingCounts(rows, limits=ROOMY)
        pending.take(next_event)
        for key, row in pending.changed.items():
            assert row is not None
            rows[key] = decode_row(msgspec.json.encode(row))
    row = rows[ORDERS.key]
    assert isinstance(row, RunCounts)
    return row


def test_both_ends_of_a_corrected_run_count_and_the_correction_says_what_to_subtract() -> None:
    """Counters never go down; what was counted wrongly is counted as such."""
    row = counted(corrected(Status.SUCCEEDED, Status.FAILED))

    assert row.ended == {Status.SUCCEEDED: 1, Status.FAILED: 1}
    assert row.corrected == {Status.SUCCEEDED: {Status.FAILED: 1, Status.CANCELED: 0}}
    assert sum(row.durations.counts) == 1


def test_a_claimed_end_opens_its_corrections_at_zero() -> None:
    """The first correction is an increase, not the first value of a new series."""
    row = counted(history(claimed(flow_run(1, Status.FAILED))))

    assert row.corrected == {Status.FAILED: {Status.SUCCEEDED: 0, Status.CANCELED: 0}}


@pytest.mark.parametrize("last", [EventType.RUN_CONFIRMED, EventType.RUN_DETAILED])
def test_a_claimed_run_has_its_duration_once_it_is_confirmed(last: EventType) -> None:
    """Not before, for the run may go on; and once, by whichever event confirms it."""
    state = flow_run(1, Status.FAILED)
    events = (*history(claimed(state)), event(claimed(state), EventType.RUN_DETAILED))
    assert sum(counted(events).durations.counts) == 0

    row = counted((*events, event(state, last), event(state, last)))
    assert sum(row.durations.counts) == 1
    assert row.ended == {Status.FAILED: 1}


async def test_the_page_shows_corrections_only_where_callbacks_report_ends(tmp_path: Path) -> None:
    """No series for a pipeline that is only polled; from 0 for one whose end was claimed."""
    async with a_daemon(tmp_path / "state.db") as daemon:
        daemon.reachable()
        await daemon.emit(*history(flow_run(1, Status.SUCCEEDED)))
        assert named(await daemon.page(), CORRECTED) == {}

        await daemon.emit(*corrected(Status.SUCCEEDED, Status.FAILED, 2))
        series = {
            (dict(labels)["from"], dict(labels)["to"]): value
            for labels, value in named(await daemon.page(), CORRECTED).items()
        }
        assert series == {("succeeded", "failed"): 1, ("succeeded", "canceled"): 0}

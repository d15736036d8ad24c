"""What is sent again after a failure, and what is given up. No I/O and no clock."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from monitor.model.runs import Pipeline, PipelineKind, Status
from monitor.outputs.delivery_window import SINGLY_AFTER, DeliveryWindow, EntryState, WindowEntry
from tests.outputs.histories import run_event

OTHER_FLOW = Pipeline(kind=PipelineKind.FLOW, id="8", name="returns")
ATTEMPTS = 3


def window_of(*runs: tuple[str, Pipeline | None]) -> DeliveryWindow:
    """Return a window with one event per (run, pipeline)."""
    window = DeliveryWindow()
    for position, (run_id, pipeline) in enumerate(runs, start=1):
        window.append(position, run_event(run_id, Status.RUNNING, pipeline=pipeline))
    return window


def send_all(window: DeliveryWindow) -> list[WindowEntry]:
    """Send all events that may be sent."""
    sent = list(window.waiting())
    for entry in sent:
        window.mark_sent(entry, at=0.0)
    return sent


def positions(window: DeliveryWindow) -> list[int]:
    """Return the positions of the events that may be sent now."""
    return [entry.position for entry in window.waiting()]


FLOW = Pipeline(kind=PipelineKind.FLOW, id="7", name="orders")


def test_only_the_unbroken_prefix_is_processed() -> None:
    """An event acknowledged early waits for those before it."""
    window = window_of(("1", FLOW), ("2", FLOW), ("3", FLOW))
    first, second, third = send_all(window)
    window.mark_processed(second, reason=None)
    assert window.take_processed() == []
    window.mark_processed(first, reason=None)
    assert window.take_processed() == [first, second]
    window.mark_processed(third, reason=None)
    assert [recorded.position for recorded in window.take_processed()] == [3]


def test_a_pipeline_is_sent_again_from_its_first_failure_on() -> None:
    """Events acknowledged after the failure are sent again; other pipelines are not."""
    window = window_of(("1", FLOW), ("2", OTHER_FLOW), ("3", FLOW), ("4", OTHER_FLOW))
    first, second, third, fourth = send_all(window)
    window.mark_failed(first, is_connection_lost=True)
    for entry in (second, third):
        window.mark_processed(entry, reason=None)
    window.mark_failed(fourth, is_connection_lost=True)
    window.rewind(attempts=ATTEMPTS)
    assert positions(window) == [1, 3, 4]


def test_a_run_stays_in_order_when_its_pipeline_becomes_known() -> None:
    """Events of a run stay together although the first one had no pipeline."""
    window = window_of(("1", None), ("1", FLOW), ("2", FLOW))
    first, second, third = send_all(window)
    window.mark_failed(first, is_connection_lost=True)
    window.mark_processed(second, reason=None)
    window.mark_processed(third, reason=None)
    window.rewind(attempts=ATTEMPTS)
    assert positions(window) == [1, 2, 3]


def test_an_event_that_later_events_overtake_is_given_up() -> None:
    """A receiver that accepts later events is alive, so the event itself is the cause."""
    window = window_of(("1", FLOW), *[("2", OTHER_FLOW)] * ATTEMPTS)
    entries = list(window.waiting())
    for later in entries[1:]:
        window.mark_sent(entries[0], at=0.0)
        window.mark_sent(later, at=0.0)
        window.mark_failed(entries[0], is_connection_lost=False)
        window.mark_processed(later, reason=None)
        window.rewind(attempts=ATTEMPTS)
    assert entries[0].state is EntryState.PROCESSED
    assert entries[0].reason == f"failed {ATTEMPTS} times while others were taken"


def test_a_receiver_that_accepts_nothing_costs_no_event() -> None:
    """However long the receiver is away, no event is given up."""
    window = window_of(("1", FLOW), ("2", FLOW))
    for _ in range(50):
        for entry in send_all(window):
            window.mark_failed(entry, is_connection_lost=False)
        window.rewind(attempts=ATTEMPTS)
    assert positions(window) == [1, 2]


def test_an_event_that_breaks_the_connection_is_found_by_sending_it_alone() -> None:
    """After repeated breaks only the oldest event is tried; if it breaks again it is given up."""
    window = window_of(("1", FLOW), ("2", OTHER_FLOW))
    for _ in range(SINGLY_AFTER):
        for entry in send_all(window):
            window.mark_failed(entry, is_connection_lost=True)
        window.rewind(attempts=ATTEMPTS)
    for _ in range(ATTEMPTS):
        (alone,) = send_all(window)
        assert alone.position == 1
        window.mark_failed(alone, is_connection_lost=True)
        window.rewind(attempts=ATTEMPTS)
    assert [recorded.position for recorded in window.take_processed()] == [1]
    assert positions(window) == [2]


def test_a_gap_passes_by_itself() -> None:
    """Positions that retention removed need no answer."""
    window = DeliveryWindow()
    window.append(9, None)
    assert [recorded.position for recorded in window.take_processed()] == [9]


CYCLES = st.lists(
    st.lists(st.sampled_from(["processed", "refused", "skipped", "failed", "broken"]), min_size=12),
    max_size=8,
)


@given(cycles=CYCLES)
def test_the_count_of_unprocessed_events_is_right(cycles: list[list[str]]) -> None:
    """Whatever is answered, sent again or given up, the window's room stays the same."""
    flows = (FLOW, OTHER_FLOW, None)
    window = window_of(*[(str(number % 5), flows[number % 3]) for number in range(12)])
    for answers in cycles:
        for entry, answer in zip(send_all(window), answers, strict=False):
            if answer == "skipped":
                window.mark_skipped(entry)
            elif answer in ("processed", "refused"):
                window.mark_processed(entry, reason=None if answer == "processed" else answer)
            else:
                window.mark_failed(entry, is_connection_lost=answer == "broken")
        window.take_processed()
        window.rewind(attempts=ATTEMPTS)
        left = [entry for entry in window._entries if entry.state is not EntryState.PROCESSED]
        assert window.unprocessed == len(left)
        assert window.sent == 0

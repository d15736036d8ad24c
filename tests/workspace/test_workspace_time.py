"""The workspace's clock as its answers show it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.workspace.answer_headers import ClockSet, WorkspaceTime, parse_http_date
from monitor.workspace.client import Priority
from tests.clocks import ManualClock
from tests.workspace.scripted import SkippingClock, answer, client_of, serving

DATE = "Sat, 21 Nov 2026 09:00:00 GMT"
AT = datetime(2026, 11, 21, 9, tzinfo=UTC)


def test_before_the_first_answer_the_time_is_unknown() -> None:
    """No answer, no time and no skew; an unreadable date changes nothing."""
    time = WorkspaceTime(ManualClock())
    time.learn(None, began=0, answered=0)
    time.learn("yesterday", began=0, answered=0)
    assert time.now() is None
    assert time.skew_seconds() is None


async def test_the_date_is_carried_on_our_monotonic_clock() -> None:
    """Time advances between answers, also when our wall clock is set."""
    clock = ManualClock()
    time = WorkspaceTime(clock)
    time.learn(DATE, began=0, answered=0)
    await clock.advance(60)
    clock.set_wall(datetime(2030, 1, 1, tzinfo=UTC))
    now = time.now()
    assert now is not None
    assert timedelta(0) <= AT + timedelta(seconds=60) - now < timedelta(seconds=0.1)


async def test_the_begin_of_a_slow_request_is_never_too_late() -> None:
    """Whenever within a slow exchange the stamp was written, the begin is a lower bound."""
    clock = ManualClock()
    time = WorkspaceTime(clock)
    time.learn(DATE, began=10, answered=22)
    began_at = time.at(10)
    assert began_at is not None
    assert timedelta(0) <= AT - timedelta(seconds=12) - began_at < timedelta(seconds=0.01)


def test_equal_clocks_have_no_skew() -> None:
    """As long as the resolution of one second explains the difference, the skew is 0."""
    clock = ManualClock(AT + timedelta(seconds=0.9))
    time = WorkspaceTime(clock)
    time.learn(DATE, began=0, answered=0)
    assert time.skew_seconds() == 0


def test_skew_is_workspace_minus_ours() -> None:
    """A workspace that is an hour late has a negative skew of an hour."""
    time = WorkspaceTime(ManualClock(AT + timedelta(hours=1)))
    time.learn(DATE, began=0, answered=0)
    assert time.skew_seconds() == -3599


def http_date(seconds: float, *, ahead: timedelta = timedelta()) -> str:
    """Return the ``Date`` that the workspace sends so long after the first answer."""
    return format_datetime(AT + timedelta(seconds=seconds) + ahead, usegmt=True)


def off_by(time: WorkspaceTime, seconds: float) -> float:
    """Return how far ahead of the workspace's first clock the time at a mark is."""
    at = time.at(seconds)
    assert at is not None
    return (at - AT - timedelta(seconds=seconds)).total_seconds()


@pytest.mark.parametrize("ahead", [timedelta(hours=1), timedelta(days=-40)])
def test_a_clock_that_was_set_is_accepted_after_a_minute(ahead: timedelta) -> None:
    """Dates that contradict the earlier ones replace them when several have agreed for so long."""
    time = WorkspaceTime(ManualClock())
    time.learn(DATE, began=0, answered=0)
    for second in range(10, 70, 10):
        time.learn(http_date(second, ahead=ahead), began=second, answered=second)
        assert off_by(time, second) == pytest.approx(0, abs=0.1)
        assert time.last_set is None
    time.learn(http_date(70, ahead=ahead), began=70, answered=70)

    assert off_by(time, 70) == pytest.approx(ahead.total_seconds(), abs=0.1)
    assert time.last_set == ClockSet(after=0, noticed=70)


@pytest.mark.parametrize("ahead", [timedelta(hours=1), timedelta(days=40), timedelta(hours=-1)])
def test_a_round_of_wrong_answers_sets_no_clock(ahead: timedelta) -> None:
    """A dozen of them at once, and one a minute later; right ones between restart the minute."""
    time = WorkspaceTime(ManualClock())
    time.learn(DATE, began=0, answered=0)
    for second in (*range(20, 32), 300, 361):
        time.learn(http_date(second, ahead=ahead), began=second, answered=second)
        if second == 31:
            time.learn(http_date(32), began=32, answered=32)

    assert off_by(time, 361) == pytest.approx(0, abs=0.1)
    assert time.last_set is None


def test_wrong_answers_that_contradict_each_other_set_no_clock() -> None:
    """The old ``Date`` that a proxy repeats for an hour agrees with no other, not even itself."""
    time = WorkspaceTime(ManualClock())
    for second in range(0, 3_600, 10):
        time.learn(DATE, began=second, answered=second)
        assert off_by(time, second) == pytest.approx(0, abs=0.5)


def test_until_then_it_may_be_ahead() -> None:
    """By as much as the answers say that are not believed yet; never where they are late."""
    time = WorkspaceTime(ManualClock())
    time.learn(DATE, began=0, answered=0)
    assert time.may_be_ahead_seconds() == 0
    time.learn(http_date(10, ahead=timedelta(hours=-1)), began=10, answered=10)
    assert time.may_be_ahead_seconds() == 0
    time.learn(http_date(20, ahead=timedelta(hours=1)), began=20, answered=20)
    assert time.may_be_ahead_seconds() == pytest.approx(3_600, abs=2)
    time.learn(http_date(30), began=30, answered=30)
    assert time.may_be_ahead_seconds() == 0


def test_an_answer_that_fits_both_decides_nothing() -> None:
    """It was under way for longer than the clock was set by."""
    time = WorkspaceTime(ManualClock())
    time.learn(DATE, began=0, answered=0)
    behind = timedelta(seconds=-5)
    for second in (10, 20, 71):
        time.learn(http_date(second, ahead=behind), began=second, answered=second)
        time.learn(http_date(second, ahead=behind), began=second - 9, answered=second)

    assert off_by(time, 71) == pytest.approx(-5, abs=0.1)


@given(
    start=st.floats(0, 1),
    exchanges=st.lists(
        st.tuples(st.floats(0, 60), st.floats(0, 5), st.floats(0, 1)), min_size=1, max_size=20
    ),
)
def test_the_returned_time_is_never_ahead(
    start: float, exchanges: list[tuple[float, float, float]]
) -> None:
    """For any sequence of answers the reported time is never ahead of the workspace's."""
    time = WorkspaceTime(ManualClock())
    mark = 0.0
    for pause, lasts, share in exchanges:
        began, mark = mark + pause, mark + pause + lasts
        stamped = AT + timedelta(seconds=start + began + share * lasts)
        date = format_datetime(stamped.replace(microsecond=0), usegmt=True)
        time.learn(date, began=began, answered=mark)
        reported = time.at(mark)
        assert reported is not None
        behind = (AT + timedelta(seconds=start + mark) - reported).total_seconds()
        assert -1e-5 <= behind <= 1 + 5 + 0.1


@given(st.text(max_size=60))
def test_any_text_is_a_date_or_none(text: str) -> None:
    """An unreadable date is none, never an exception."""
    found = parse_http_date(text)
    assert found is None or found.tzinfo is UTC


async def test_the_client_knows_the_workspace_time() -> None:
    """Every answer, also a list page, carries when it began by the workspace's clock."""
    clock = SkippingClock()
    async with (
        serving(answer({"data": [{"id": 1}]}, headers={"Date": DATE})) as workspace,
        client_of(workspace.url, clock=clock) as client,
    ):
        assert client.workspace_now() is None
        pages = [page async for page in client.runs.job_library(priority=Priority.CHANGES)]
        assert client.workspace_now() == AT
        assert client.requester.time.skew_seconds() == -3599
    assert [(page.number, page.began_at) for page in pages] == [(1, AT)]

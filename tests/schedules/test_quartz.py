"""What a Quartz expression means, against an oracle that checks every minute."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from monitor.model.triggers import CronTrigger
from monitor.schedules import BadTriggerError, check, next_after, times_between
from tests.schedules.minutes import NIGHTS, times_by_minutes


def subsets(lowest: int, highest: int) -> SearchStrategy[frozenset[int]]:
    everything = st.just(frozenset(range(lowest, highest + 1)))
    some = st.frozensets(st.integers(lowest, highest), min_size=1, max_size=6)
    return st.one_of(everything, some)


@st.composite
def fields(draw: DrawFn) -> tuple[str, dict[str, frozenset[int]]]:
    """An expression at second 0, and the numbers that each of its fields stands for."""
    meant = {
        "minute": draw(subsets(0, 59)),
        "hour": draw(subsets(0, 23)),
        "day": draw(subsets(1, 31)),
        "month": draw(subsets(1, 12)),
        "weekday": draw(subsets(1, 7)),
    }
    spans = {"minute": 60, "hour": 24, "day": 31, "month": 12, "weekday": 7}
    text = {
        name: "*" if len(numbers) == spans[name] else ",".join(map(str, sorted(numbers)))
        for name, numbers in meant.items()
    }
    if draw(st.booleans()):
        text["day"], meant["day"] = "?", frozenset(range(1, 32))
    else:
        text["weekday"], meant["weekday"] = "?", frozenset(range(1, 8))
    return (
        f"0 {text['minute']} {text['hour']} {text['day']} {text['month']} {text['weekday']}",
        meant,
    )


def fits(wall: datetime, meant: dict[str, frozenset[int]]) -> bool:
    sunday_first = wall.isoweekday() % 7 + 1
    return (
        wall.minute in meant["minute"]
        and wall.hour in meant["hour"]
        and wall.day in meant["day"]
        and wall.month in meant["month"]
        and sunday_first in meant["weekday"]
    )


@given(fields(), st.sampled_from(NIGHTS), st.integers(-720, 60))
def test_every_minute_agrees_with_the_oracle(
    drawn: tuple[str, dict[str, frozenset[int]]],
    night: tuple[str, datetime],
    minutes_before: int,
) -> None:
    """Around every kind of clock change the times are those of a check of each minute."""
    expression, meant = drawn
    name, change = night
    begin = change + timedelta(minutes=minutes_before)
    end = begin + timedelta(days=1)
    trigger = CronTrigger(expression=expression, timezone=name)

    times = times_between([trigger], begin, end, limit=2_000)

    assert times == times_by_minutes(
        lambda wall: fits(wall, meant),
        zone=ZoneInfo(name),
        begin=begin,
        end=end,
        is_every_hour=len(meant["hour"]) == 24,
    )


@pytest.mark.parametrize(
    ("expression", "after", "expected"),
    [
        ("0 0 12 ? * 1", "2026-11-21", "2026-11-22T12:00"),  # 1 is Sunday
        ("0 0 12 ? * 2-6", "2026-11-21", "2026-11-23T12:00"),  # Monday to Friday
        ("0 0 12 ? * MON-FRI", "2026-11-21", "2026-11-23T12:00"),
        ("0 0 12 ? * fri-mon", "2026-11-17", "2026-11-20T12:00"),  # wraps around the week
        ("0 0 22-2/2 * * ?", "2026-11-21T23:00", "2026-11-22T00:00"),  # wraps around midnight
        ("0 0 12 ? NOV-JAN SAT", "2026-12-31", "2027-01-02T12:00"),
        ("0 0 12 ? * 6#3", "2026-11-01", "2026-11-20T12:00"),  # third Friday
        ("0 0 12 ? * MON#5", "2026-12-01", "2027-03-29T12:00"),
        ("0 0 12 ? * 6L", "2026-11-01", "2026-11-27T12:00"),  # last Friday
        ("0 0 12 ? * SUNL", "2026-11-01", "2026-11-29T12:00"),
        ("0 0 12 ? * L", "2026-11-15", "2026-11-21T12:00"),  # Saturday
        ("0 0 12 L * ?", "2028-02-01", "2028-02-29T12:00"),
        ("0 0 12 LW * ?", "2026-05-01", "2026-05-29T12:00"),  # the 31st is a Sunday
        ("0 0 12 L-3 * ?", "2026-02-01", "2026-02-25T12:00"),
        ("0 0 12 15W * ?", "2026-11-01", "2026-11-16T12:00"),  # the 15th is a Sunday
        ("0 0 12 15W * ?", "2026-08-01", "2026-08-14T12:00"),  # the 15th is a Saturday
        ("0 0 12 1W * ?", "2026-07-15", "2026-08-03T12:00"),  # never back into July
        ("0 0 12 31W * ?", "2026-05-02", "2026-05-29T12:00"),  # never on into June
        ("0 0 12 31W * ?", "2026-06-01", "2026-07-31T12:00"),  # June has no 31st
        ("0 0/20 8 * * ?", "2026-11-21T08:05", "2026-11-21T08:20"),
        ("0 /20 8 * * ?", "2026-11-21T08:05", "2026-11-21T08:20"),
        ("15/20 * * * * ?", "2026-11-21T08:05:16", "2026-11-21T08:05:35"),
        ("0 0 0 1 1 ? 2030", "2026-11-21", "2030-01-01T00:00"),
        ("0 0 0 1 1 ? 2020,2031-2033", "2026-11-21", "2031-01-01T00:00"),
        ("0 0 0 29 2 ? */2", "2026-11-21", "2028-02-29T00:00"),
        ("0 0 12 * * *", "2026-11-21", "2026-11-21T12:00"),  # tolerated: both mean "any day"
    ],
)
def test_the_dialect_is_that_of_quartz(expression: str, after: str, expected: str) -> None:
    """Names, wrapped ranges, steps, L, W, # and years mean what Quartz means by them."""
    instant = datetime.fromisoformat(after).replace(tzinfo=UTC)
    expected_instant = datetime.fromisoformat(expected).replace(tzinfo=UTC)
    assert next_after(CronTrigger(expression=expression), instant) == expected_instant


@pytest.mark.parametrize(
    "expression",
    ["0 0 0 30 2 ?", "0 0 0 31 4,6 ?", "0 0 0 1 1 ? 2020", "0 0 0 31W 6 ?", "0 0 0 L-30 2 ?"],
)
def test_a_readable_expression_may_never_fire(expression: str) -> None:
    """A day that does not come is no error: there is just no time."""
    trigger = CronTrigger(expression=expression, timezone="Europe/Berlin")
    check(trigger)
    assert next_after(trigger, datetime(2026, 11, 21, tzinfo=UTC)) is None


@pytest.mark.parametrize(
    ("expression", "named"),
    [
        ("", "0 fields"),
        ("0 12 * * *", "5 fields"),  # the dialect of the page, not of the API
        ("0 0 12 * * ? 2026 7", "8 fields"),
        ("60 0 12 * * ?", "second"),
        ("0 60 12 * * ?", "minute"),
        ("0 0 24 * * ?", "hour"),
        ("0 0 12 32 * ?", "day-of-month"),
        ("0 0 12 0 * ?", "day-of-month"),
        ("0 0 12 C * ?", "day-of-month"),
        ("0 0 12 0W * ?", "day-of-month"),
        ("0 0 12 L-31 * ?", "day-of-month"),
        ("0 0 12 * 13 ?", "month"),
        ("0 0 12 * FOO ?", "month"),
        ("0 0 12 ? * 0", "day-of-week"),  # 0 = Sunday belongs to the page's dialect
        ("0 0 12 ? * 8", "day-of-week"),
        ("0 0 12 ? * 2#6", "day-of-week"),
        ("0 0 12 ? * XL", "day-of-week"),
        ("0 0 12 1 * 2", "must be"),
        ("0 0 12 ? * ?", "only one"),
        ("? 0 12 * * ?", "second"),
        ("0 0 12 * * ? 1969", "year"),
        ("0 */0 * * * ?", "step"),
        ("0 */61 * * * ?", "step"),
        ("0 1/ * * * ?", "step"),
        ("0 1-2-3 * * * ?", "minute"),
        ("0 ,1 * * * ?", "minute"),
        ("0 ٣ * * * ?", "minute"),  # digits of another script
        ("0 " + "1," * 600 + "1 * * * ?", "longer"),
    ],
)
def test_a_wrong_field_is_named(expression: str, named: str) -> None:
    """A bad expression raises one kind of ValueError that names the field."""
    with pytest.raises(BadTriggerError, match=named) as caught:
        check(CronTrigger(expression=expression))
    assert isinstance(caught.value, ValueError)


@given(
    st.lists(
        st.text(alphabet="0123456789*?/,-LW#CMONFRIJAN ", min_size=1, max_size=6),
        min_size=5,
        max_size=8,
    ).map(" ".join)
)
@example("0 0 0 L-0W 2 ?")
@example("0 0 0 ? 2 6#5,1L")
def test_no_text_does_anything_but_answer_or_be_refused(expression: str) -> None:
    """Any typed text gives a time, no time, or the one error."""
    instant = datetime(2026, 11, 21, tzinfo=UTC)
    trigger = CronTrigger(expression=expression, timezone="Europe/Berlin")
    try:
        check(trigger)
    except BadTriggerError:
        return
    found = next_after(trigger, instant)
    assert found is None or found > instant

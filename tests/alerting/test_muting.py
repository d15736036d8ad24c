"""Mute times of the week and of holidays: how they are read, and whether the wall clock decides."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.model.days_off import DaysOff
from monitor.model.errors import ConfigurationError
from monitor.model.mute_windows import DAYS, MINUTES_OF_DAY, is_muted, parse_mute_window

# Zone, and the two nights of a year in which its clocks were changed; Nepal knows none.
NIGHTS = {
    "Europe/Berlin": ("2026-03-29", "2026-10-25"),
    "America/New_York": ("2026-03-08", "2026-11-01"),
    "Australia/Lord_Howe": ("2026-04-05", "2026-10-04"),
    "America/Sao_Paulo": ("2018-02-18", "2018-11-04"),
    "Asia/Kathmandu": ("2026-03-29", "2026-10-25"),
}
TEXTS = ("Sat 22:00-02:30", "Sun 01:45-03:15", "Sat,Sun", "Mon-Fri 23:30-06:00", "02:00-03:00")


def shown_minutes(days_and_times: str) -> set[str]:
    """Return every "Sat 22:15" of a week that the text means, found by walking along it."""
    words = days_and_times.split()
    times = words.pop() if ":" in words[-1] else "00:00-24:00"
    named = words[0] if words else "Mon-Sun"
    days: list[str] = []
    for part in named.split(","):
        first, _, last = part.partition("-")
        days.append(first)
        while days[-1] != (last or first):
            days.append(DAYS[(DAYS.index(days[-1]) + 1) % 7])
    start, end = times.split("-")
    minutes: set[str] = set()
    for day in days:
        place, clock = DAYS.index(day), start
        while True:
            minutes.add(f"{DAYS[place % 7]} {clock}")
            hour, minute = int(clock[:2]), int(clock[3:]) + 1
            clock = f"{hour + minute // 60:02d}:{minute % 60:02d}"
            if clock == end:
                break
            if clock == "24:00":
                clock, place = "00:00", place + 1
                if clock == end:
                    break
    return minutes


@pytest.mark.parametrize("zone", NIGHTS)
@pytest.mark.parametrize("text", TEXTS)
def test_the_clock_on_the_wall_decides(zone: str, text: str) -> None:
    """On both nights of a change of clocks every minute is muted that the wall clock says is."""
    window = parse_mute_window(f"{text} {zone}")
    wanted = shown_minutes(text)
    wrong: list[str] = []
    muted = 0
    for night in NIGHTS[zone]:
        begins = datetime.fromisoformat(f"{night}T00:00:00Z") - timedelta(hours=30)
        for minute in range(60 * 60):
            at = begins + timedelta(minutes=minute, seconds=59)
            shown = at.astimezone(ZoneInfo(zone)).strftime("%a %H:%M")
            muted += shown in wanted
            if is_muted((window,), at) is not (shown in wanted):
                wrong.append(f"{at} {shown}")
    assert wrong == []
    assert muted > 0


BRANDENBURG = DaysOff(region="DE-BB")
EASTER, REFORMATION = date(2024, 3, 31), date(2027, 10, 31)  # and nights on which clocks change


def is_wanted(text: str, shown: datetime, holidays: set[date]) -> bool:
    """Return whether a time of the wall clock is muted, as a reader of the text would say."""
    day, clock = shown.date(), f"{shown:%H:%M}"
    before = day - timedelta(days=1)
    match text:
        case "holidays":
            return day in holidays
        case "Sat,holidays":
            return day in holidays or day.weekday() == 5
        case "!holidays":
            return day not in holidays
        case "holidays 22:00-02:30":
            return (day in holidays and clock >= "22:00") or (
                before in holidays and clock < "02:30"
            )
        case "Fri-Sun,!holidays 22:00-02:30":
            return (day.weekday() >= 4 and day not in holidays and clock >= "22:00") or (
                before.weekday() >= 4 and before not in holidays and clock < "02:30"
            )
    raise AssertionError(text)


@pytest.mark.parametrize(
    "text",
    [
        "holidays",
        "Sat,holidays",
        "!holidays",
        "holidays 22:00-02:30",
        "Fri-Sun,!holidays 22:00-02:30",
    ],
)
@pytest.mark.parametrize("holiday", [EASTER, REFORMATION])
def test_holidays_begin_and_end_at_midnight_of_the_wall_clock(text: str, holiday: date) -> None:
    """Also where clocks change on the holiday itself; a night belongs to the day it begins on."""
    own = holiday + timedelta(days=2)
    days_off = DaysOff(region=BRANDENBURG.region, dates=(own.isoformat(),))
    holidays = {own, holiday, holiday - timedelta(days=2)}  # Good Friday
    if holiday == EASTER:
        holidays.add(holiday + timedelta(days=1))
    else:
        holidays.remove(holiday - timedelta(days=2))
    window = parse_mute_window(f"{text} Europe/Berlin", days_off)
    begins = datetime(holiday.year, holiday.month, holiday.day, tzinfo=UTC) - timedelta(days=3)
    instants = [begins + timedelta(minutes=5 * number) for number in range(7 * 24 * 12)]
    wanted = [
        is_wanted(text, at.astimezone(ZoneInfo("Europe/Berlin")), holidays) for at in instants
    ]
    assert [is_muted((window,), at) for at in instants] == wanted
    assert 0 < sum(wanted) < len(wanted)


def test_holidays_are_those_of_the_zone_of_the_window() -> None:
    """At one instant it is a holiday in Tokyo and not yet one in Berlin."""
    new_year = DaysOff(dates=("2027-01-01",))
    at = datetime(2026, 12, 31, 20, tzinfo=UTC)
    muted = [
        is_muted((parse_mute_window(f"holidays {zone}", new_year),), at)
        for zone in ("Asia/Tokyo", "Europe/Berlin")
    ]
    assert muted == [True, False]


@pytest.mark.parametrize(
    ("text", "days", "start", "end"),
    [
        ("Mon-Fri 22:00-06:00 Europe/Berlin", {0, 1, 2, 3, 4}, 1_320, 360),
        ("Sat,Sun Europe/Berlin", {5, 6}, 0, MINUTES_OF_DAY),
        ("Fri-Mon UTC", {4, 5, 6, 0}, 0, MINUTES_OF_DAY),
        ("mon,wed-thu 00:00-24:00 Asia/Kathmandu", {0, 2, 3}, 0, MINUTES_OF_DAY),
        ("09:15-09:16 America/New_York", set(range(7)), 555, 556),
        ("holidays UTC", set(), 0, MINUTES_OF_DAY),
        ("Sat,Sun,holidays UTC", {5, 6}, 0, MINUTES_OF_DAY),
        ("!holidays 09:15-09:16 UTC", set(range(7)), 555, 556),
        ("Mon,!holidays UTC", {0}, 0, MINUTES_OF_DAY),
    ],
)
def test_mute_times_are_read_as_written(text: str, days: set[int], start: int, end: int) -> None:
    """Days, ranges over the weekend, and times over midnight are read as one would read them."""
    window = parse_mute_window(text)
    assert (set(window.days), window.start, window.end) == (days, start, end)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "a time zone"),
        ("Mon-Fri 22:00-06:00", "'22:00-06:00' is no time zone"),
        ("Mon", "a time zone"),
        ("Mon 22:00-06:00 Europe/Berln", "did you mean Europe/Berlin?"),
        ("Mon 22:00-06:00 Mars/Base", "such as Europe/Berlin or UTC"),
        ("Mn 22:00-06:00 UTC", "'Mn' is no day; did you mean Mon?"),
        ("Mon-Xyz UTC", "'Xyz' is no day: write Mon, Tue"),
        ("Mon 22-06 UTC", "write it as 22:00-06:00"),
        ("Mon 22:00-24:01 UTC", "from 00:00 to 24:00"),
        ("Mon 24:00-06:00 UTC", "from 00:00 to 24:00"),
        ("Mon 06:00-06:00 UTC", "leave the times out"),
        ("Mon 06:00-07:00 UTC please", "a time zone"),
        ("holiday UTC", "'holiday' is no day; did you mean holidays?"),
        ("Mon,!holiday UTC", "'!holiday' is no day; did you mean !holidays?"),
        ("holidays,!holidays UTC", "exclude each other; remove one"),
    ],
)
def test_a_problem_shows_the_right_form(text: str, told: str) -> None:
    """An unreadable mute time is refused with one sentence that names the right form."""
    with pytest.raises(ConfigurationError) as refused:
        parse_mute_window(text)
    assert told in str(refused.value)
    assert len(refused.value.problems) == 1


@given(st.text(max_size=60))
def test_no_text_does_harm(text: str) -> None:
    """Whatever is written is either read or refused, and never anything else."""
    told = ""
    try:
        window = parse_mute_window(text)
        is_read = bool(window.days) or window.has_holidays
    except ConfigurationError as refused:
        is_read, told = False, str(refused)
    assert is_read is not bool(told)


def test_the_night_belongs_to_the_day_it_begins_on() -> None:
    """Friday's night ends on Saturday morning, and Saturday's own night is not muted."""
    window = parse_mute_window("Fri 22:00-06:00 UTC")
    friday = datetime(2026, 11, 20, 21, 59, 59, tzinfo=UTC)
    shown = [
        is_muted((window,), friday + timedelta(seconds=seconds))
        for seconds in (0, 1, 8 * 3_600, 8 * 3_600 + 1, 24 * 3_600 + 1)
    ]
    assert shown == [False, True, True, False, False]

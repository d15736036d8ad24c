"""Weekly mute times: how they are read, and that they follow the clock on the wall."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

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


@pytest.mark.parametrize(
    ("text", "days", "start", "end"),
    [
        ("Mon-Fri 22:00-06:00 Europe/Berlin", {0, 1, 2, 3, 4}, 1_320, 360),
        ("Sat,Sun Europe/Berlin", {5, 6}, 0, MINUTES_OF_DAY),
        ("Fri-Mon UTC", {4, 5, 6, 0}, 0, MINUTES_OF_DAY),
        ("mon,wed-thu 00:00-24:00 Asia/Kathmandu", {0, 2, 3}, 0, MINUTES_OF_DAY),
        ("09:15-09:16 America/New_York", set(range(7)), 555, 556),
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
        days = parse_mute_window(text).days
    except ConfigurationError as refused:
        days, told = frozenset(), str(refused)
    assert bool(days) is not bool(told)


def test_the_night_belongs_to_the_day_it_begins_on() -> None:
    """Friday's night ends on Saturday morning, and Saturday's own night is not muted."""
    window = parse_mute_window("Fri 22:00-06:00 UTC")
    friday = datetime(2026, 11, 20, 21, 59, 59, tzinfo=UTC)
    shown = [
        is_muted((window,), friday + timedelta(seconds=seconds))
        for seconds in (0, 1, 8 * 3_600, 8 * 3_600 + 1, 24 * 3_600 + 1)
    ]
    assert shown == [False, True, True, False, False]

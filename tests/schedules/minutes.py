"""An oracle of schedules that computes nothing: it looks at every minute."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

# Nights of the clock change: an hour, half an hour, midnight itself; and zones without any.
NIGHTS = [
    ("Europe/Berlin", datetime(2026, 3, 29, 1, tzinfo=UTC)),
    ("Europe/Berlin", datetime(2026, 10, 25, 1, tzinfo=UTC)),
    ("America/New_York", datetime(2026, 3, 8, 7, tzinfo=UTC)),
    ("America/New_York", datetime(2026, 11, 1, 6, tzinfo=UTC)),
    ("Australia/Lord_Howe", datetime(2026, 4, 4, 15, tzinfo=UTC)),
    ("Australia/Lord_Howe", datetime(2026, 10, 3, 15, 30, tzinfo=UTC)),
    ("America/Sao_Paulo", datetime(2018, 11, 4, 3, tzinfo=UTC)),
    ("America/Sao_Paulo", datetime(2018, 2, 18, 2, tzinfo=UTC)),
    ("Asia/Kathmandu", datetime(2026, 6, 1, tzinfo=UTC)),
    ("UTC", datetime(2026, 1, 31, 12, tzinfo=UTC)),
    ("UTC", datetime(2028, 2, 29, 12, tzinfo=UTC)),
]


def times_by_minutes(
    fits: Callable[[datetime], bool],
    *,
    zone: ZoneInfo,
    begin: datetime,
    end: datetime,
    is_every_hour: bool = False,
) -> list[datetime]:
    """Return the times of one or two days at most.

    Looks at every real minute, and at every minute of the wall where not every hour fits.
    """
    minute = timedelta(minutes=1)
    # A day around the stretch, so that a wall time's first pass is always seen.
    grid = [begin - timedelta(days=1) + minute * one for one in range(4 * 1440)]
    walls = [one.astimezone(zone).replace(tzinfo=None) for one in grid]
    found: set[datetime] = set()
    if is_every_hour:
        found = {one for one, wall in zip(grid, walls, strict=True) if fits(wall)}
    else:
        first_pass: dict[datetime, datetime] = {}
        for one, wall in zip(grid, walls, strict=True):
            first_pass.setdefault(wall, one)
        wall = walls[0]
        while wall < walls[-1]:
            if fits(wall):
                after_gap = wall
                while after_gap not in first_pass:
                    after_gap += minute
                found.add(first_pass[after_gap])
            wall += minute
    return sorted(one for one in found if begin < one <= end)

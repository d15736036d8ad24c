"""An oracle of schedules that computes nothing: it checks every minute."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

_MINUTE = timedelta(minutes=1)

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


class Minutes:
    """Every minute from ``begin`` to ``end``, and what the wall shows in it."""

    def __init__(self, zone: ZoneInfo, begin: datetime, end: datetime) -> None:
        self._begin, self._end = begin, end
        # A day around the stretch, so that a wall time's first pass is always observed.
        around = timedelta(days=1)
        count = (end - begin + 2 * around) // _MINUTE
        self._real = [begin - around + _MINUTE * number for number in range(count)]
        self._walls = [instant.astimezone(zone).replace(tzinfo=None) for instant in self._real]
        self._first_pass: dict[datetime, datetime] = {}
        for real, wall in zip(self._real, self._walls, strict=True):
            self._first_pass.setdefault(wall, real)

    def times(
        self, fits: Callable[[datetime], bool], *, is_every_hour: bool = False
    ) -> list[datetime]:
        """Return when the wall fits: each real minute, or each minute of the wall once."""
        if is_every_hour:
            pairs = zip(self._real, self._walls, strict=True)
            fitting = {pair for pair, wall in pairs if fits(wall)}
        else:
            fitting = {self._passed(wall) for wall in self._wall_minutes() if fits(wall)}
        return sorted(instant for instant in fitting if self._begin < instant <= self._end)

    def _wall_minutes(self) -> Iterator[datetime]:
        wall = self._walls[0]
        while wall < self._walls[-1]:
            yield wall
            wall += _MINUTE

    def _passed(self, wall: datetime) -> datetime:
        while wall not in self._first_pass:
            wall += _MINUTE
        return self._first_pass[wall]


def times_by_minutes(
    fits: Callable[[datetime], bool],
    *,
    zone: ZoneInfo,
    begin: datetime,
    end: datetime,
    is_every_hour: bool = False,
) -> list[datetime]:
    """Return the times of a day or so: see `Minutes`."""
    return Minutes(zone, begin, end).times(fits, is_every_hour=is_every_hour)

"""The time by which retention judges what is old. No I/O.

A clock that is set ahead makes everything old at once. So ages are judged by the earliest that the
clock has shown within a day in which a daemon ran, carried on a clock that is never set. It goes on
over restarts; a time in which none ran looks like a clock that was set, and counts as one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Self

from msgspec import Struct

DAY_SECONDS = 86_400.0
STEP_SECONDS = 3_600.0
_BEGINNING = datetime.fromtimestamp(0, UTC)


class JudgedTime(Struct, frozen=True, kw_only=True):
    """The time by which ages are judged; after ``waits_seconds`` of running, ``next_at`` is."""

    at: datetime
    next_at: datetime
    waits_seconds: float

    @classmethod
    def first(cls, at: datetime) -> Self:
        """Return it where ages were never judged; ``at`` is of what was stored last."""
        return cls(at=at, next_at=at, waits_seconds=DAY_SECONDS)


class TrustedTime:
    """Belongs to one store and one process. ``elapsed`` goes on while the machine sleeps.

    ``step_seconds`` is by how much more than an hour the clock was set before it was judged last.
    """

    def __init__(self, elapsed: Callable[[], float]) -> None:
        self.step_seconds: float | None = None
        self._elapsed = elapsed
        self._shown: float | None = None  # clock minus elapsed, as what follows
        self._least = math.inf
        self._least_before = math.inf  # on the day before
        self._day_ends = 0.0

    def judge(self, shown: datetime, *, before: JudgedTime | None) -> JudgedTime:
        """Return the time of now.

        ``shown`` is what the clock shows, ``before`` where an earlier daemon has left off.
        """
        elapsed = self._elapsed()
        offset = shown.timestamp() - elapsed
        if self._shown is None:
            self._shown = offset
            self._day_ends = elapsed + DAY_SECONDS
            if before is not None:
                self._least_before = before.at.timestamp() - elapsed
                self._least = min(self._least, before.next_at.timestamp() - elapsed)
                self._day_ends = elapsed + before.waits_seconds
        step = offset - self._shown
        self.step_seconds = step if abs(step) > STEP_SECONDS else None
        self._shown = offset
        if elapsed >= self._day_ends:
            self._least_before, self._least = self._least, offset
            self._day_ends = elapsed + DAY_SECONDS
        self._least = min(self._least, offset)
        self._least_before = min(self._least_before, self._least)
        return JudgedTime(
            at=_BEGINNING + timedelta(seconds=self._least_before + elapsed),
            next_at=_BEGINNING + timedelta(seconds=self._least + elapsed),
            waits_seconds=self._day_ends - elapsed,
        )

    def observe(self, shown: datetime) -> None:
        """Learn what the clock shows between two judgements: what is stored then has its times."""
        self._least = min(self._least, shown.timestamp() - self._elapsed())

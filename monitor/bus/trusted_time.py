"""The time by which retention judges what is old. No I/O.

A clock that is set ahead makes everything old at once. So ages are judged by the earliest that the
clock has shown within a day, carried on a clock that nobody sets; and a step of more than an hour,
either way, stops deletion by age until the clock has gone on for a day. A daemon that starts
compares the clock with the time until which the store has judged ages before.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from msgspec import Struct

SETTLED_SECONDS = 86_400.0
_STEP_SECONDS = 3_600.0
_BEGINNING = datetime.fromtimestamp(0, UTC)


class UntrustedClockStep(Struct, frozen=True, kw_only=True):
    """The clock showed ``seconds`` more, or less, than had passed.

    ``at_start``: since an earlier daemon; nothing may have been wrong but that none was running.
    """

    seconds: float
    at_start: bool
    waits_seconds: float  # until ages are judged again


class TrustedTime:
    """Belongs to one store and one process. ``elapsed`` goes on while the machine sleeps."""

    def __init__(self, elapsed: Callable[[], float]) -> None:
        self._elapsed = elapsed
        self._shown: float | None = None  # clock minus elapsed, as what follows
        self._least = 0.0
        self._least_before = 0.0  # on the day before
        self._day_began = 0.0
        self._step: tuple[float, float, bool] | None = None  # seconds, when, at the start

    def judge(self, shown: datetime, *, judged_at: datetime | None) -> datetime | None:
        """Return the time of now; None while nothing may be deleted by its age.

        ``shown`` is what the clock shows, ``judged_at`` what an earlier daemon has judged by last.
        """
        elapsed = self._elapsed()
        offset = shown.timestamp() - elapsed
        at_start = self._shown is None
        if self._shown is None:
            self._shown = offset if judged_at is None else judged_at.timestamp() - elapsed
            self._begin(offset, elapsed)
        if abs(offset - self._shown) > _STEP_SECONDS:
            self._step = (offset - self._shown, elapsed, at_start)
            self._begin(offset, elapsed)
        self._shown = offset
        if elapsed - self._day_began >= SETTLED_SECONDS:
            self._least_before, self._least, self._day_began = self._least, offset, elapsed
        self._least = min(self._least, offset)
        if self.step is not None:
            return None
        return _BEGINNING + timedelta(seconds=min(self._least, self._least_before) + elapsed)

    def clock_was_set(self, seconds: float) -> None:
        """Learn that the clock was set, by so much: it may be right again at the next judgement."""
        if abs(seconds) > _STEP_SECONDS:
            self._step = (seconds, self._elapsed(), False)

    @property
    def step(self) -> UntrustedClockStep | None:
        """The step for which deletion by age waits."""
        if self._step is None:
            return None
        seconds, at, at_start = self._step
        waits = at + SETTLED_SECONDS - self._elapsed()
        if waits <= 0:
            return None
        return UntrustedClockStep(seconds=seconds, at_start=at_start, waits_seconds=waits)

    def _begin(self, offset: float, elapsed: float) -> None:
        self._least = self._least_before = offset
        self._day_began = elapsed

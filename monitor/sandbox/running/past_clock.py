"""A clock for what happens all at once: nobody waits, time jumps from one step to the next."""

from __future__ import annotations

from collections.abc import Generator
from datetime import datetime


class Pause:
    """What work hands to whoever drives it: go on with me so many seconds later."""

    __slots__ = ("seconds",)

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __await__(self) -> Generator[Pause, None, None]:
        yield self


class PastClock:
    """Shows the instant that it was set to. Only `Tasks.live_through` can serve its sleepers."""

    def __init__(self, at: datetime) -> None:
        self.at = at

    def now(self) -> datetime:
        return self.at

    def monotonic(self) -> float:
        return self.at.timestamp()

    async def sleep(self, seconds: float) -> None:
        await Pause(max(0.0, seconds))

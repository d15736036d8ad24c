"""Delays senders of wrong credentials, counts them, and logs them in sum."""

from __future__ import annotations

from monitor.listening.refusals import RefusalReason, Refusals
from monitor.model.clock import Clock

# No more wait at once: they hold connections that others need. The secrets are too long
# to be guessed at any speed; the delay keeps the guesses from costing us much.
_DELAYED_AT_ONCE = 32


class InvalidCredentials:
    """Delays the answers to wrong credentials of one listener."""

    def __init__(self, refusals: Refusals, *, clock: Clock, delay_seconds: float) -> None:
        self._refusals = refusals
        self._clock = clock
        self._delay_seconds = delay_seconds
        self._delayed = 0

    def refuse(self, source: str) -> None:
        """Count credentials that were not looked at, because too many before were wrong."""
        self._refusals.add(RefusalReason.TOO_MANY_GUESSES, source)

    async def delay(self, source: str) -> None:
        """Count the refusal, and return when its answer may be sent."""
        self._refusals.add(RefusalReason.WRONG_CREDENTIALS, source)
        if self._delayed >= _DELAYED_AT_ONCE:
            return
        self._delayed += 1
        try:
            await self._clock.sleep(self._delay_seconds)
        finally:
            self._delayed -= 1

"""Sends events of the log to an output again, beside its own work; its position does not move."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import datetime

import structlog
from msgspec import Struct

from monitor.bus.contract import EventBus
from monitor.model.clock import Clock
from monitor.model.errors import OutputUnavailableError
from monitor.outputs.delivery import Output
from monitor.outputs.sending_again import AT_ONCE, SendingAgain, Sent

log = structlog.get_logger()

# What the output itself sent during a replay is sent again, so that no alert ends with old news.
_PASSES = 3


class Replayed(Struct, frozen=True, kw_only=True):
    """What became of the events of a replay.

    ``reason`` says why it ended early; None where all was sent. ``skipped`` are those that
    are nothing for the output.
    """

    output: str
    sent: int
    skipped: int
    refused: int
    reason: str | None = None


class Replays:
    """The outputs that can be replayed to now, by name; one replay at a time for each.

    ``outputs`` changes with the settings. A replay goes on with the output that has its name then.
    """

    def __init__(self, outputs: Mapping[str, Output], *, bus: EventBus, clock: Clock) -> None:
        self._outputs = outputs
        self._bus = bus
        self._clock = clock
        self._under_way: set[str] = set()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._outputs)

    async def replay(self, name: str, since: datetime) -> Replayed:
        """Send again what was recorded from ``since`` until now, in its order, with the same ids.

        Raises:
            KeyError: there is no such output.
            OutputUnavailableError: a replay to it is under way.
            BusUnavailableError: the log cannot be read.
        """
        if name not in self._outputs:
            raise KeyError(name)
        if name in self._under_way:
            raise OutputUnavailableError(f"a replay to {name} is under way")
        self._under_way.add(name)
        try:
            replayed = await self._replay(name, since)
        finally:
            self._under_way.discard(name)
        log.info(
            "replayed", **{name: getattr(replayed, name) for name in Replayed.__struct_fields__}
        )
        return replayed

    async def _replay(self, name: str, since: datetime) -> Replayed:
        # Counts as it goes, so that one that ends early reports how far it came.
        count: Counter[Sent] = Counter()
        sending = SendingAgain(
            name,
            self._outputs,
            clock=self._clock,
            on_sent=lambda _recorded, sent, _reason: count.update([sent]),
        )
        reason: str | None = None
        after = await self._bus.events_since(since)
        for _ in range(_PASSES):
            until = (await self._bus.status()).newest_position
            while after < until and reason is None:
                some = await self._bus.events(after=after, limit=min(AT_ONCE, until - after))
                if not some:
                    break
                reason = await sending.send(some)
                after = some[-1].position
        return Replayed(
            output=name,
            sent=count[Sent.ACCEPTED],
            skipped=count[Sent.SKIPPED],
            refused=count[Sent.REFUSED],
            reason=reason,
        )

"""Sends events of the log to an output again, beside its own work; its position does not move."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import datetime

import structlog
from msgspec import Struct

from monitor.bus.contract import EventBus, Recorded
from monitor.model.clock import Clock
from monitor.model.errors import OutputRefusedError, OutputUnavailableError
from monitor.model.waits import backoff_seconds, happens_within
from monitor.outputs.delivery import Output

log = structlog.get_logger()

_AT_ONCE = 50  # events on their way; what happens meanwhile waits for them at the receiver
# What the output itself sent during a replay is sent again, so that no alert ends with old news.
_PASSES = 3
_ATTEMPTS = 5
_READY_SECONDS = 10.0  # for an output that waits for its receiver
_FIRST_WAIT_SECONDS = 1.0  # doubled with each further attempt
_LONGEST_WAIT_SECONDS = 8.0
_CHECK_SECONDS = 1.0  # how soon a replay sees that other settings have replaced its output


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
            replay = _Replay(name, self._outputs, bus=self._bus, clock=self._clock)
            replayed = await replay.run(since)
        finally:
            self._under_way.discard(name)
        log.info(
            "replayed", **{name: getattr(replayed, name) for name in Replayed.__struct_fields__}
        )
        return replayed


class _Replay:
    """One replay. Counts as it goes, so that one that ends early reports how far it came."""

    def __init__(
        self, name: str, outputs: Mapping[str, Output], *, bus: EventBus, clock: Clock
    ) -> None:
        self._name = name
        self._outputs = outputs
        self._bus = bus
        self._clock = clock
        self._sent = self._skipped = self._refused = 0

    async def run(self, since: datetime) -> Replayed:
        """Send what was recorded from ``since`` on."""
        reason: str | None = None
        after = await self._bus.events_since(since)
        for _ in range(_PASSES):
            until = (await self._bus.status()).newest_position
            while after < until and reason is None:
                some = await self._bus.events(after=after, limit=min(_AT_ONCE, until - after))
                if not some:
                    break
                reason = await self._send(some)
                after = some[-1].position
        return Replayed(
            output=self._name,
            sent=self._sent,
            skipped=self._skipped,
            refused=self._refused,
            reason=reason,
        )

    async def _send(self, some: list[Recorded]) -> str | None:
        """Send some until each is accepted or refused; return why the output accepts no more."""
        reason = ""
        for attempt in range(_ATTEMPTS):
            if attempt:
                seconds = backoff_seconds(
                    attempt, base_seconds=_FIRST_WAIT_SECONDS, cap_seconds=_LONGEST_WAIT_SECONDS
                )
                await self._clock.sleep(seconds)
            output = self._outputs.get(self._name)
            if output is None:
                return "no longer configured"
            if not await self._is_ready(output):
                return reason or "cannot be reached"
            taken, reason = await self._send_once(output, some)
            # All after the first that failed goes again: order matters more than repetition.
            some = some[taken:]
            if not some:
                return None
        return reason

    async def _is_ready(self, output: Output) -> bool:
        return await happens_within(
            output.ready(),
            clock=self._clock,
            seconds=_READY_SECONDS,
            name=f"{self._name}: ready for a replay",
        )

    async def _send_once(self, output: Output, some: list[Recorded]) -> tuple[int, str]:
        """Send each once; return how many from the front are processed, and why the next is not."""
        answers = [output.send(recorded) for recorded in some]
        await self._answered(output, {answer for answer in answers if answer is not None})
        # Also of those after the first that failed, so that no failure is reported as unseen.
        failures = [
            None if answer is None or answer.cancelled() else answer.exception()
            for answer in answers
        ]
        for number, (answer, failure) in enumerate(zip(answers, failures, strict=True)):
            if answer is None:
                self._skipped += 1
            elif answer.cancelled() or isinstance(failure, OutputUnavailableError):
                return number, "given up by the output" if failure is None else str(failure)
            elif failure is None:
                self._sent += 1
            elif isinstance(failure, OutputRefusedError):
                self._refused += 1
            else:
                raise failure
        return len(some), ""

    async def _answered(self, output: Output, owed: set[asyncio.Future[None]]) -> None:
        """Return when each has ended; an output ends them in time, unless it was replaced."""
        while owed:
            _, owed = await asyncio.wait(owed, timeout=_CHECK_SECONDS)
            if self._outputs.get(self._name) is not output:
                for answer in owed:
                    answer.cancel()
                break

"""Sends recorded events to an output again, beside its own work; its position does not move."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from enum import Enum, auto

from monitor.bus.contract import Recorded
from monitor.model.clock import Clock
from monitor.model.errors import OutputRefusedError, OutputUnavailableError
from monitor.model.waits import backoff_seconds, happens_within
from monitor.outputs.delivery import Output

AT_ONCE = 50  # events on their way; what happens meanwhile waits for them at the receiver

_ATTEMPTS = 5
_READY_SECONDS = 10.0  # for an output that waits for its receiver
_FIRST_WAIT_SECONDS = 1.0  # doubled with each further attempt
_LONGEST_WAIT_SECONDS = 8.0
_CHECK_SECONDS = 1.0  # how soon it is seen that other settings have replaced the output


class Sent(Enum):
    """What became of one event."""

    ACCEPTED = auto()
    SKIPPED = auto()  # nothing for the output
    REFUSED = auto()  # for good


# Gets each event once, with what became of it and why it was refused.
OnSent = Callable[[Recorded, Sent, str], None]


class SendingAgain:
    """Sends events to the output that has a name, also to one that replaces it meanwhile."""

    def __init__(
        self, name: str, outputs: Mapping[str, Output], *, clock: Clock, on_sent: OnSent
    ) -> None:
        self._name = name
        self._outputs = outputs
        self._clock = clock
        self._on_sent = on_sent

    async def send(self, some: Sequence[Recorded]) -> str | None:
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
            name=f"{self._name}: ready to be sent to again",
        )

    async def _send_once(self, output: Output, some: Sequence[Recorded]) -> tuple[int, str]:
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
                self._on_sent(some[number], Sent.SKIPPED, "")
            elif answer.cancelled() or isinstance(failure, OutputUnavailableError):
                return number, "given up by the output" if failure is None else str(failure)
            elif failure is None:
                self._on_sent(some[number], Sent.ACCEPTED, "")
            elif isinstance(failure, OutputRefusedError):
                self._on_sent(some[number], Sent.REFUSED, str(failure))
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

"""One question about the set-up or the daemon, and its answer in lines.

Asked by ``doctor``, readiness, the page of the daemon and the start of ``run``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from enum import StrEnum

from msgspec import Struct

from monitor.model.errors import MonitorError

CHECK_SECONDS = 20.0
# After the hint of a failed check that others rest on: what follows from it gets no line.
FIRST = ", then run doctor again: the other checks need this"


class CheckOutcome(StrEnum):
    """The result of a check. Only ``failed`` makes the command fail, or a daemon not ready."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


class CheckLine(Struct, frozen=True, kw_only=True):
    """One result. ``hint`` is None where there is nothing to do, and of a daemon's own state."""

    outcome: CheckOutcome
    subject: str
    found: str
    hint: str | None = None

    @property
    def is_well(self) -> bool:
        return self.outcome is not CheckOutcome.FAILED


def ok(subject: str, found: str) -> CheckLine:
    return CheckLine(outcome=CheckOutcome.OK, subject=subject, found=found)


def warning(subject: str, found: str, hint: str) -> CheckLine:
    return CheckLine(outcome=CheckOutcome.WARNING, subject=subject, found=found, hint=hint)


def failed(subject: str, found: str, hint: str | None = None) -> CheckLine:
    return CheckLine(outcome=CheckOutcome.FAILED, subject=subject, found=found, hint=hint)


def is_failed(lines: Iterable[CheckLine]) -> bool:
    """True where one of the lines has failed."""
    return not all(line.is_well for line in lines)


def worst(lines: Iterable[CheckLine]) -> dict[str, CheckLine]:
    """Return one line for each subject; of several, one that has failed."""
    found: dict[str, CheckLine] = {}
    for line in lines:
        if line.subject not in found or (found[line.subject].is_well and not line.is_well):
            found[line.subject] = line
    return found


class Check(Struct, frozen=True):
    """What is asked about ``subject``, and for how long an answer is waited for."""

    subject: str
    ask: Callable[[], Awaitable[Sequence[CheckLine]]]
    seconds: float = CHECK_SECONDS

    async def lines(self) -> Sequence[CheckLine]:
        """Return the lines of the answer; a check that takes too long or breaks has failed."""
        try:
            async with asyncio.timeout(self.seconds):
                return await self.ask()
        except TimeoutError:
            found = f"no answer within {self.seconds:.0f} s"
            hint = "see whether the other side hangs, or a firewall or proxy drops the answer"
        except (MonitorError, OSError) as exc:
            found, hint = f"could not be checked: {exc}", "fix that, then run doctor again"
        return [failed(self.subject, found, hint)]


async def ask_all(checks: Iterable[Check]) -> list[Sequence[CheckLine]]:
    """Ask at once, each as a task named for its subject; return the answers in order."""
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(check.lines(), name=f"check: {check.subject}") for check in checks
        ]
    return [task.result() for task in tasks]

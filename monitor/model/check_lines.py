"""The result of a check: one line, with a hint where something is wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine, Mapping, Sequence
from enum import StrEnum
from typing import Any, TypeVar

from msgspec import Struct

from monitor.model.errors import MonitorError

T = TypeVar("T")

CHECK_SECONDS = 20.0
# After the hint of a failed check that others rest on: what follows from it gets no line.
FIRST = ", then run doctor again: the other checks need this"


class CheckOutcome(StrEnum):
    """The result of a check. Only ``failed`` makes the command fail."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


class CheckLine(Struct, frozen=True, kw_only=True):
    """One result. ``hint`` is None only where there is nothing to do."""

    outcome: CheckOutcome
    subject: str
    found: str
    hint: str | None = None


def ok(subject: str, found: str) -> CheckLine:
    return CheckLine(outcome=CheckOutcome.OK, subject=subject, found=found)


def warning(subject: str, found: str, hint: str) -> CheckLine:
    return CheckLine(outcome=CheckOutcome.WARNING, subject=subject, found=found, hint=hint)


def failed(subject: str, found: str, hint: str) -> CheckLine:
    return CheckLine(outcome=CheckOutcome.FAILED, subject=subject, found=found, hint=hint)


def is_failed(lines: Sequence[CheckLine]) -> bool:
    """True where one of the lines has failed."""
    return any(line.outcome is CheckOutcome.FAILED for line in lines)


async def bounded(
    subject: str, check: Awaitable[list[CheckLine]], *, seconds: float = CHECK_SECONDS
) -> list[CheckLine]:
    """Return the lines of a check; one that takes too long or breaks has failed."""
    try:
        async with asyncio.timeout(seconds):
            return await check
    except TimeoutError:
        return [
            failed(
                subject,
                f"no answer within {seconds:.0f} s",
                "see whether the other side hangs, or a firewall or proxy drops the answer",
            )
        ]
    except (MonitorError, OSError) as exc:
        return [failed(subject, f"could not be checked: {exc}", "fix that, then run doctor again")]


async def together(checks: Mapping[str, Coroutine[Any, Any, T]]) -> list[T]:
    """Run checks at once, each as a task named for its subject; return their results in order."""
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(check, name=f"doctor: {subject}") for subject, check in checks.items()
        ]
    return [task.result() for task in tasks]

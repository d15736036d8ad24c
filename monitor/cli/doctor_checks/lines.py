"""The result of a check: one line, with a hint where something is wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine, Mapping
from enum import StrEnum
from typing import Any, TypeVar

from msgspec import Struct

from monitor.model.errors import MonitorError

T = TypeVar("T")

CHECK_SECONDS = 20.0
_SEE_ABOVE = "fix the failed checks above, then run doctor again"


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


def not_checked(subject: str, why: str) -> CheckLine:
    """Return the line of a check that depends on another one, which failed."""
    return warning(subject, f"not checked, because {why}", _SEE_ABOVE)


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

"""What a check says: one line, with the way out where something is wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from enum import StrEnum

from msgspec import Struct

from monitor.model.errors import MonitorError

CHECK_SECONDS = 20.0
_SEE_ABOVE = "mend what is told above, then ask again"


class CheckOutcome(StrEnum):
    """How bad it is. ``failed`` alone makes the command fail."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


class CheckLine(Struct, frozen=True, kw_only=True):
    """One finding. ``hint`` is there unless all is well."""

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
    """Return the line of a check that rests on another one, which failed."""
    return warning(subject, f"not checked, because {why}", _SEE_ABOVE)


async def bounded(
    subject: str, check: Awaitable[list[CheckLine]], *, seconds: float = CHECK_SECONDS
) -> list[CheckLine]:
    """Return what the check says, within its time; a check that cannot end says so itself."""
    try:
        async with asyncio.timeout(seconds):
            return await check
    except TimeoutError:
        return [
            failed(
                subject,
                f"no answer within {seconds:.0f} s",
                "see whether the other side hangs or something between holds the answer back",
            )
        ]
    except (MonitorError, OSError) as exc:
        return [failed(subject, f"could not be found out: {exc}", "mend that, then ask again")]

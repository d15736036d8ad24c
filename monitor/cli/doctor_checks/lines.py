"""What a check says: one line, with the way out where something is wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from enum import StrEnum

from msgspec import Struct

from monitor.model.errors import MonitorError

CHECK_SECONDS = 20.0
_SEE_ABOVE = "mend what is told above, then ask again"


class Verdict(StrEnum):
    """How bad it is. ``failed`` alone makes the command fail."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


class Line(Struct, frozen=True, kw_only=True):
    """One finding. ``way_out`` is there unless all is well."""

    verdict: Verdict
    subject: str
    found: str
    way_out: str | None = None


def ok(subject: str, found: str) -> Line:
    return Line(verdict=Verdict.OK, subject=subject, found=found)


def warning(subject: str, found: str, way_out: str) -> Line:
    return Line(verdict=Verdict.WARNING, subject=subject, found=found, way_out=way_out)


def failed(subject: str, found: str, way_out: str) -> Line:
    return Line(verdict=Verdict.FAILED, subject=subject, found=found, way_out=way_out)


def not_checked(subject: str, why: str) -> Line:
    """Return the line of a check that rests on another one, which failed."""
    return warning(subject, f"not checked, because {why}", _SEE_ABOVE)


async def bounded(
    subject: str, check: Awaitable[list[Line]], *, seconds: float = CHECK_SECONDS
) -> list[Line]:
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

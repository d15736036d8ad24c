"""Health of the daemon: liveness, and readiness by named checks."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from msgspec import Struct

Check = Callable[[], Awaitable["HealthFinding"]]

_CHECK_SECONDS = 5.0


class HealthFinding(Struct, frozen=True, kw_only=True):
    """The result of one check; ``detail`` is one sentence for an operator."""

    ok: bool
    detail: str


class Readiness(Struct, frozen=True, kw_only=True):
    """All findings by name. Ready means that every check passed."""

    ready: bool
    checks: dict[str, HealthFinding]


async def readiness(checks: Mapping[str, Check]) -> Readiness:
    """Run all checks at once, each within its time limit."""
    findings = await asyncio.gather(*(_bounded(check) for check in checks.values()))
    by_name = dict(zip(checks, findings, strict=True))
    return Readiness(ready=all(finding.ok for finding in findings), checks=by_name)


async def _bounded(check: Check) -> HealthFinding:
    try:
        async with asyncio.timeout(_CHECK_SECONDS):
            return await check()
    except TimeoutError:
        return HealthFinding(ok=False, detail=f"no answer within {_CHECK_SECONDS:.0f} s")

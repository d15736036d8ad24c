"""The status of the daemon itself, as `app` fills it in, and its readiness by named checks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime

from msgspec import Struct

from monitor.alerting.reports.settings import ReportSettings
from monitor.bus.contract import Retention
from monitor.model.checks import Check, ask_all
from monitor.model.clock import Clock

ReadChecks = Callable[[], Sequence[Check]]  # a reload changes them

STARTING = "starting"  # the check that fails until the first shards have started

READINESS_SECONDS = 5.0  # of each check
_RECENT_SECONDS = 5.0
_WAIT_SECONDS, _FIRST_WAIT_SECONDS = 0.25, 2.0  # the first: nothing recent is known
# Of a check that hangs, the finding is as old as its time limit.
_OLDEST_SECONDS = _RECENT_SECONDS + 2 * READINESS_SECONDS


class DaemonStatus(Struct, frozen=True, kw_only=True):
    """This daemon, and its configuration in force."""

    started_at: datetime
    config_hash: str
    store_schema: int
    retention: Retention
    longest_silence_seconds: float
    reports: tuple[ReportSettings, ...] = ()


class HealthFinding(Struct, frozen=True, kw_only=True):
    """The result of one check; ``detail`` is one sentence for an operator."""

    ok: bool
    detail: str


class ClusterProblems(Struct, frozen=True, kw_only=True):
    """What needs people where daemons share a store, each as a part of a sentence."""

    words: tuple[str, ...] = ()
    is_store_away: bool = False  # all that is known is from before


class Readiness(Struct, frozen=True, kw_only=True):
    """All findings by name. Ready means that every check passed."""

    ready: bool
    checks: dict[str, HealthFinding]


async def readiness(checks: Sequence[Check]) -> Readiness:
    """Ask all checks at once, each within its time limit."""
    findings = {
        line.subject: HealthFinding(ok=line.is_well, detail=line.found)
        for lines in await ask_all(checks)
        for line in lines
    }
    return Readiness(ready=all(finding.ok for finding in findings.values()), checks=findings)


class RecentReadiness:
    """The readiness of the last seconds, for callers that ask often and cannot wait for a check."""

    def __init__(self, checks: ReadChecks, *, clock: Clock) -> None:
        self._checks = checks
        self._clock = clock
        self._begun_at = float("-inf")  # monotonic; of the newest run of the checks
        self._running: asyncio.Task[Readiness] | None = None
        self._known: tuple[float, Readiness] | None = None  # begun at, found

    async def get(self) -> Readiness | None:
        """Return findings of the last seconds; None where the checks have not answered yet."""
        now = self._clock.monotonic()
        self._collect()
        if self._running is None and now - self._begun_at >= _RECENT_SECONDS:
            self._begun_at = now
            self._running = asyncio.create_task(readiness(self._checks()), name="recent readiness")
        is_known = self._known is not None and now - self._known[0] <= _OLDEST_SECONDS
        if self._running is not None:
            # Not awaited: a reader who goes away leaves the checks to the others.
            seconds = _WAIT_SECONDS if is_known else _FIRST_WAIT_SECONDS
            await asyncio.wait({self._running}, timeout=seconds)
            self._collect()
        if self._known is None or now - self._known[0] > _OLDEST_SECONDS:
            return None
        return self._known[1]

    def _collect(self) -> None:
        running = self._running
        if running is not None and running.done():
            self._running = None
            self._known = self._begun_at, running.result()

"""Wrong log-ins, and writes that a role forbids, in the audit: a line a day, with their number.

What was refused must not push a write out of the audit. So few sources of a day have a line of
their own, and all others share one: however many guess, or try, a daemon's lines fill no tenth of a
year's audit.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import msgspec
import structlog

from monitor.model.clock import Clock
from monitor.model.errors import BusError
from monitor.web.audit.audit_log import AuditLine, AuditLog, AuditResult

log = structlog.get_logger()

_WINDOW_SECONDS = 86_400.0
_STORE_SECONDS = 60.0
_SOURCES = 20  # of a window that have a line of their own
_OTHERS = "others"
STRANGER = "stranger"  # no user is known
_LOGIN_REASON = "credentials were wrong, or not looked at after too many wrong ones"


@dataclass(slots=True)
class _Sum:
    """What one line counts."""

    line: AuditLine
    reason: str
    last_at: datetime
    times: int = 0
    stored: int = 0


class SummedRefusals:
    """Sums what was refused. `add` only counts; `run` stores the lines, and more of them later."""

    def __init__(self, audit: AuditLog, *, clock: Clock) -> None:
        self._audit = audit
        self._clock = clock
        self._since = clock.monotonic()
        self._sums: dict[tuple[str, str, str], _Sum] = {}  # by what, person and source

    def add_login(self, source: str) -> None:
        """Count a log-in that was refused."""
        self.add(self._audit.line("log_in", person=STRANGER, source=source), _LOGIN_REASON)

    def add(self, line: AuditLine, reason: str) -> None:
        """Count a write that was refused before it began."""
        key = line.what, line.person, line.source
        if key not in self._sums and len(self._sums) >= _SOURCES:
            key = line.what, line.person, _OTHERS
        if key not in self._sums:
            self._sums[key] = _Sum(msgspec.structs.replace(line, source=key[2]), reason, line.at)
        counted = self._sums[key]
        counted.times, counted.last_at = counted.times + 1, line.at

    async def run(self) -> None:
        """Store what was counted, once a minute; each day begins new lines."""
        while True:
            await self._clock.sleep(_STORE_SECONDS)
            await self.store()
            if self._clock.monotonic() - self._since >= _WINDOW_SECONDS:
                self._since = self._clock.monotonic()
                self._sums.clear()

    async def store(self) -> None:
        """Store the lines whose number has grown. Where that fails, they are stored later."""
        for counted in tuple(self._sums.values()):
            if counted.times == counted.stored:
                continue
            times = counted.times
            line = msgspec.structs.replace(
                counted.line,
                request={"times": times, "last_at": counted.last_at},
                result=AuditResult.REFUSED,
                reason=counted.reason,
            )
            try:
                await self._audit.store(line)
            except BusError as exc:
                log.warning("refused writes wait for the audit", reason=str(exc))
                return
            counted.stored = times

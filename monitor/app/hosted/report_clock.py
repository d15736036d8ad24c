"""Records an event when a report is due: once, over restarts, takeovers and clocks that are set.

State in the store: of each report the time up to which it was dealt with, committed together with
its event. The id of the event is made of the time at which it was due and of nothing else, so the
log keeps one, whichever daemon records it, and however often.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

import msgspec
import structlog
from msgspec import Struct

from monitor.alerting.reports.report_times import due_after, newest_due
from monitor.alerting.reports.settings import ReportSettings
from monitor.bus.contract import Change, EventBus, StateEntry, decode_entries
from monitor.model.alerts import BRIDGE
from monitor.model.clock import Clock
from monitor.model.events import REPORT, EventType, WorkspaceEvent, workspace_event_id
from monitor.model.words import iso

log = structlog.get_logger()

_TOPIC = "reports"
_COMMIT_SECONDS = 10.0
# The wall clock may be set meanwhile, which no sleep notices.
_LONGEST_SLEEP_SECONDS = 60.0
_MISSED_KEPT = timedelta(days=1)
_MINUTE_SECONDS = 60


class _Handled(Struct, frozen=True, kw_only=True):
    """A report was dealt with up to here: recorded, or too old."""

    until: datetime


_HANDLED = msgspec.json.Decoder(_Handled)


class ReportClock:
    """The task of the one shard that records for all: the only one, or that of the cluster."""

    def __init__(
        self, *, bus: EventBus, clock: Clock, reports: Callable[[], Sequence[ReportSettings]]
    ) -> None:
        """``reports`` returns those that are configured now."""
        self._bus = bus
        self._clock = clock
        self._reports = reports

    async def run(self) -> None:
        """Record until cancelled.

        Raises:
            BusUnavailableError: the store does not answer; the supervisor tries again.
        """
        while True:
            await self.record_due()
            await self._clock.sleep(self._seconds_to_next())

    async def record_due(self) -> None:
        """Record what is due; of what was missed only the newest, and none of a day ago.

        A report that is new in the configuration has missed nothing.
        """
        now = self._clock.now()
        stored = await self._bus.state_entries(BRIDGE, _TOPIC)
        handled = decode_entries(stored, _HANDLED, topic=_TOPIC)
        reports = {report.name: report for report in self._reports()}
        for name in stored.keys() - reports.keys():
            await self._commit(_entry(name, None))
        for name, report in reports.items():
            before = handled.get(name)
            if before is None:
                await self._commit(_entry(name, now))
                continue
            # A clock that was set back may repeat a time, whose event has the same id.
            after = max(min(before.until, now), now - _MISSED_KEPT)
            due = newest_due(report.expression, report.time_zone, after=after, until=now)
            if due is not None:
                await self._commit(_entry(name, due), report_due(name, due, recorded_at=now))
                log.info("report due", report=name, due_at=iso(due))

    def _seconds_to_next(self) -> float:
        now = self._clock.now()
        due = [due_after(report.expression, report.time_zone, now) for report in self._reports()]
        left = [(at - now).total_seconds() for at in due if at is not None]
        return min([_LONGEST_SLEEP_SECONDS, *left])

    async def _commit(self, entry: StateEntry, *events: WorkspaceEvent) -> None:
        change = Change(events=events, state_entries=(entry,))
        await self._bus.commit(change, timeout_seconds=_COMMIT_SECONDS)


def report_due(name: str, due: datetime, *, recorded_at: datetime) -> WorkspaceEvent:
    """Return the event that a report is due; its number counts minutes since 1970."""
    what, number = f"{REPORT}:{name}", int(due.timestamp()) // _MINUTE_SECONDS
    return WorkspaceEvent(
        id=workspace_event_id(BRIDGE, what, number),
        type=EventType.REPORT_DUE,
        workspace=BRIDGE,
        what=what,
        number=number,
        before=None,
        after=iso(due),
        occurred_at=due,
        recorded_at=recorded_at,
    )


def _entry(name: str, until: datetime | None) -> StateEntry:
    value = None if until is None else msgspec.json.encode(_Handled(until=until))
    return StateEntry(workspace=BRIDGE, topic=_TOPIC, key=name, value=value)

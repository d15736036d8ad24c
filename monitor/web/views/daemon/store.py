"""The store of events and runs: its size, how far it reaches back, and whether it takes writes."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from monitor.bus.contract import WriteFailures
from monitor.web.views.sources import ViewSources
from monitor.web.views.view import View


class StoreQuery(Struct, frozen=True, kw_only=True):
    """No parameters."""


class StoreView(Struct, frozen=True, kw_only=True):
    """The store. Instants are ours; ``events`` is the length of the log."""

    store_bytes: int
    events: int
    oldest_event_at: datetime | None
    newest_event_at: datetime | None
    callbacks_waiting: int
    write_failures: WriteFailures | None  # the newest; None: none since the start
    events_kept_seconds: float
    events_kept: int
    events_hard_cap: int
    runs_kept_seconds: float


class StoreFigures:
    """Reads the figures of the store, and the two ends of the log."""

    def __init__(self, sources: ViewSources) -> None:
        self._sources = sources

    async def read(self, _: StoreQuery) -> StoreView:
        status, retention = await self._sources.bus.status(), self._sources.daemon().retention
        return StoreView(
            store_bytes=status.store_bytes,
            events=status.newest_position - status.oldest_position + 1,
            oldest_event_at=await self._recorded_at(status.oldest_position),
            newest_event_at=await self._recorded_at(status.newest_position),
            callbacks_waiting=sum(status.inbox.values()),
            write_failures=status.write_failures,
            events_kept_seconds=retention.events_seconds,
            events_kept=retention.events_count,
            events_hard_cap=retention.events_hard_cap,
            runs_kept_seconds=retention.runs_seconds,
        )

    async def _recorded_at(self, position: int) -> datetime | None:
        recorded = await self._sources.bus.events(after=max(position - 1, 0), limit=1)
        return recorded[0].event.recorded_at if recorded else None


def store_view(sources: ViewSources) -> View:
    return View(
        name="store",
        summary="The store: its size, how far it reaches back, and whether it takes writes.",
        api="/api/v1/monitor/store",
        query=StoreQuery,
        answer=StoreView,
        read=StoreFigures(sources).read,
    )

"""The store of events and runs: its size, how far it reaches back, and whether it takes writes."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from monitor.bus.contract import WriteFailures
from monitor.web.views.log_positions import LogPosition, LogPositions
from monitor.web.views.sources import ViewSources
from monitor.web.views.view import View


class StoreQuery(Struct, frozen=True, kw_only=True):
    """No parameters."""


class StoreView(Struct, frozen=True, kw_only=True):
    """The store. Instants are ours.

    ``events`` is the length of the log, ``callbacks_waiting`` is of the inbox, both of the shards
    that this daemon holds; the oldest and the newest event are of the whole store.
    """

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
        self._positions = LogPositions(sources.log, clock=sources.clock)

    async def read(self, _: StoreQuery) -> StoreView:
        statuses = [await shard.bus.status() for shard in self._sources.shards.hosted()]
        retention = self._sources.daemon().retention
        failures = [found for status in statuses if (found := status.write_failures) is not None]
        return StoreView(
            store_bytes=max((status.store_bytes for status in statuses), default=0),
            events=sum(status.newest_position - status.oldest_position + 1 for status in statuses),
            oldest_event_at=await self._recorded_behind(LogPosition({})),
            newest_event_at=await self._recorded_behind(await self._positions.last(1)),
            callbacks_waiting=sum(sum(status.inbox.values()) for status in statuses),
            write_failures=max(failures, key=_is_worse, default=None),
            events_kept_seconds=retention.events_seconds,
            events_kept=retention.events_count,
            events_hard_cap=retention.events_hard_cap,
            runs_kept_seconds=retention.runs_seconds,
        )

    async def _recorded_behind(self, position: LogPosition) -> datetime | None:
        recorded = await self._sources.log.events(position.by_shard, limit=1)
        return recorded[0].event.recorded_at if recorded else None


def _is_worse(failures: WriteFailures) -> tuple[bool, datetime]:
    return not failures.is_over, failures.since


def store_view(sources: ViewSources) -> View:
    return View(
        name="store",
        summary="The store: its size, how far it reaches back, and whether it takes writes.",
        api="/api/v1/monitor/store",
        query=StoreQuery,
        answer=StoreView,
        read=StoreFigures(sources).read,
    )

"""The event log: pages of it, and which of its events a client asks for."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from msgspec import Meta, Struct

from monitor.bus.contract import Recorded
from monitor.model.events import AlertEvent, Event, EventType, RunEvent
from monitor.model.runs import Pipeline, RunKind
from monitor.model.slices import in_slices
from monitor.web.http.request_parsing import refuse_unknown
from monitor.web.views.sources import ViewSources
from monitor.web.views.view import View

SCANNED = 5_000  # events that one request reads at most
_BATCH = 500
FARTHEST = 2**63 - 1  # the largest position

Position = Annotated[int, Meta(ge=0, le=FARTHEST)]


class EventSelection(Struct, frozen=True, kw_only=True):
    """Which events; without any of these all."""

    workspace: str | None = None
    kind: Annotated[RunKind, Meta(description="Of runs, and of alerts about runs.")] | None = None
    pipeline: Annotated[str, Meta(description="Id or name of a flow or plan.")] | None = None
    type: Annotated[EventType, Meta(description="What happened.")] | None = None

    def includes(self, event: Event) -> bool:
        """Return True for an event that is asked for."""
        if self.type not in (None, event.type) or self.workspace not in (None, event.workspace):
            return False
        if self.kind is None and self.pipeline is None:
            return True
        kind, pipeline = _about(event)
        return self.kind in (None, kind) and (
            self.pipeline is None
            or (pipeline is not None and self.pipeline in (pipeline.id, pipeline.name))
        )


class EventsQuery(EventSelection, frozen=True, kw_only=True):
    """Which events, and where to begin: with the oldest, or behind the last of these."""

    after: Annotated[Position | None, Meta(description="A position: the events behind it.")] = None
    cursor: Annotated[
        Position | None, Meta(description="`next` of the page before; the same as `after`.")
    ] = None
    since: (
        Annotated[
            datetime,
            Meta(tz=True, description="Events that were recorded at that instant or later."),
        ]
        | None
    ) = None
    last: (
        Annotated[int, Meta(ge=1, le=1_000, description="The newest so many events of the log.")]
        | None
    ) = None
    limit: Annotated[
        int,
        Meta(
            ge=1,
            le=1_000,
            description=f"Events in an answer. At most {SCANNED:,} events are looked at for it: "
            "with a filter there may be fewer, and more behind `next`.",
        ),
    ] = 100


class EventPage(Struct, frozen=True, kw_only=True):
    """Recorded events, oldest first.

    ``next`` is the position up to which the log was read: as ``cursor`` it leads on, also later.
    ``has_more``: the log has events behind it now.
    """

    data: list[Recorded]
    next: int
    has_more: bool


class EventReader:
    """Reads the log, a bounded stretch for each request."""

    def __init__(self, sources: ViewSources) -> None:
        self._bus = sources.bus
        self._live = sources.live

    async def read(self, query: EventsQuery) -> EventPage:
        status = await self._bus.status()
        newest = status.newest_position
        begin = max(await self._begin(query, newest), status.oldest_position - 1)
        position = begin
        page: list[Recorded] = []
        while len(page) < query.limit and position - begin < SCANNED:
            batch = await self._bus.events(after=position, limit=_BATCH)
            async for recorded in in_slices(batch):
                position = recorded.position
                if query.includes(recorded.event):
                    page.append(recorded)
                    if len(page) == query.limit:
                        break
            if not batch:
                break
        if not page and position >= newest:
            self.refuse_unknown(query)
        return EventPage(data=page, next=position, has_more=position < newest)

    def refuse_unknown(self, query: EventSelection) -> None:
        """Raise a problem if the filter names a workspace that is not known."""
        names = [status.workspace for status in self._live.workspaces()]
        refuse_unknown(query.workspace, names)

    async def _begin(self, query: EventsQuery, newest: int) -> int:
        """Return the position behind which the page begins."""
        after = max(query.after or 0, query.cursor or 0)
        if query.last is not None:
            after = max(after, newest - query.last)
        if query.since is not None:
            after = max(after, await self._bus.events_since(query.since))
        # A position behind the newest belongs to a store that was replaced.
        return min(after, newest)


def _about(event: Event) -> tuple[RunKind | None, Pipeline | None]:
    match event:
        case RunEvent(run=run):
            return run.key.kind, run.pipeline
        case AlertEvent(alert=alert):
            return alert.kind, alert.pipeline
    return None, None


def events_view(sources: ViewSources) -> View:
    return View(
        name="events",
        summary="The event log, oldest first.",
        api="/api/v1/events",
        query=EventsQuery,
        answer=EventPage,
        read=EventReader(sources).read,
    )

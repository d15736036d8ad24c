"""Pages of the event log, as CloudEvents and as it is stored, and filters of events."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated

from msgspec import Meta, Raw, Struct

from monitor.bus.contract import Recorded, RecordedIn
from monitor.model.events import AlertEvent, Event, EventType, RunEvent
from monitor.model.runs import Pipeline, RunKind
from monitor.model.slices import in_slices
from monitor.outputs.cloudevents import CLOUD_EVENT_SHAPES, encode_readable, message_of
from monitor.web.views.log_positions import LogPosition, LogPositions, farthest
from monitor.web.views.view import ViewSources, view

SCANNED = 5_000  # events that one request reads at most
_BATCH = 500

EventCursor = Annotated[str, Meta(max_length=300)]
ONE_OF_THE_SHAPES = {
    "anyOf": [{"$ref": f"#/components/schemas/{shape.__name__}"} for shape in CLOUD_EVENT_SHAPES]
}
CloudEvent = Annotated[Raw, Meta(extra_json_schema=ONE_OF_THE_SHAPES)]


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
    """Which events, and where to begin: with the oldest, or after the last of these."""

    after: Annotated[EventCursor | None, Meta(description="A position: the events after it.")] = (
        None
    )
    cursor: Annotated[
        EventCursor | None, Meta(description="`next` of the page before; the same as `after`.")
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
            "with a filter there may be fewer, and more after `next`.",
        ),
    ] = 100


class EventPage(Struct, frozen=True, kw_only=True):
    """Recorded events, oldest first, as outputs send them; ``sequence`` ends with their place.

    ``next`` is how far the log was read: as ``cursor`` it leads on, also later. It is a position
    where the store has one log; else it is opaque, and the events of the last seconds come again
    after it, under their ids. ``has_more``: there are events after it now.
    """

    data: list[CloudEvent]
    next: int | str
    has_more: bool


class LogPage(Struct, frozen=True, kw_only=True):
    """The same as an `EventPage`, as the log holds it; ``shard`` names a log of several."""

    data: list[RecordedIn]
    next: int | str
    has_more: bool


class EventReader:
    """Reads the log, a bounded stretch for each request."""

    def __init__(self, sources: ViewSources) -> None:
        self._sources = sources
        self._log = sources.log
        self.positions = LogPositions(sources.log, clock=sources.clock)

    async def read(self, query: EventsQuery) -> LogPage:
        newest, position = await self._log.positions(), await self._begin(query)
        page: list[RecordedIn] = []
        scanned, is_end, complete = 0, False, None
        while len(page) < query.limit and scanned < SCANNED and not is_end:
            batch = await self._log.events(position.by_shard, limit=_BATCH)
            is_end = not batch
            for recorded in batch:
                scanned += 1
                is_behind = position.includes(recorded)
                if self.positions.is_complete(recorded):
                    complete = recorded
                is_shown = self._sources.sees(recorded.event.workspace)
                if is_behind and is_shown and query.includes(recorded.event):
                    page.append(recorded)
                    if len(page) == query.limit:
                        break
        if is_end:  # also past what retention has removed
            position.by_shard |= {
                shard: max(end, position.by_shard.get(shard, 0)) for shard, end in newest.items()
            }
        return self._page(query, page, position, newest, complete)

    def _page(
        self,
        query: EventsQuery,
        page: list[RecordedIn],
        position: LogPosition,
        newest: Mapping[str, int],
        complete: RecordedIn | None,
    ) -> LogPage:
        is_left = any(end > position.by_shard.get(shard, 0) for shard, end in newest.items())
        if not page and not is_left:
            self._sources.refuse_unknown(query.workspace)
        if is_left and complete is not None:
            if self._sources.sees(complete.event.workspace):
                leads_on = self.positions.cursor(complete)
            else:
                leads_on = self.positions.cursor_past_hidden(complete, position)
            return LogPage(data=page, next=leads_on, has_more=True)
        return LogPage(data=page, next=self.positions.complete_cursor(position), has_more=False)

    async def _begin(self, query: EventsQuery) -> LogPosition:
        """Return the position after which the page begins."""
        named = {"after": query.after, "cursor": query.cursor}
        begins = [
            await self.positions.after(name, text)
            for name, text in named.items()
            if text is not None
        ]
        if query.last is not None:
            begins.append(await self.positions.last(query.last))
        if query.since is not None:
            begins.append(await self.positions.since(query.since))
        return farthest(begins)


def cloud_event(recorded: Recorded) -> Raw:
    """Return the event as outputs send it."""
    return Raw(
        encode_readable(
            message_of(recorded.event, position=recorded.position, epoch=recorded.epoch)
        )
    )


def _about(event: Event) -> tuple[RunKind | None, Pipeline | None]:
    match event:
        case RunEvent(run=run):
            return run.key.kind, run.pipeline
        case AlertEvent(alert=alert):
            return alert.kind, alert.pipeline
    return None, None


@view("events", "/api/v1/events", "The event log, oldest first, as CloudEvents.")
async def events_view(sources: ViewSources, query: EventsQuery) -> EventPage:
    page = await EventReader(sources).read(query)
    # A thousand of a page.
    data = [cloud_event(recorded) async for recorded in in_slices(page.data)]
    return EventPage(data=data, next=page.next, has_more=page.has_more)


@view(
    "log",
    "/api/v1/log",
    "The event log as it is stored, for `alerts backtest`; its form may change.",
)
async def log_view(sources: ViewSources, query: EventsQuery) -> LogPage:
    return await EventReader(sources).read(query)

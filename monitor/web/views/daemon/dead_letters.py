"""Dead letters: the newest ones of all outputs, and those of one event with the event itself."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime
from typing import Annotated

from msgspec import Meta, Struct

from monitor.bus.contract import DeadLetter, Recorded, StoredShard
from monitor.model.events import RunEvent
from monitor.model.public_shapes import filled
from monitor.model.slices import in_slices
from monitor.web.http.problem_details import ProblemDetails
from monitor.web.http.request_parsing import unknown
from monitor.web.views.events import CloudEvent, cloud_event
from monitor.web.views.view import ViewSources, view

_MOST = 1_000
_BATCH = 500
_LONGEST_ID = 500


class DeadLetterView(Struct, frozen=True, kw_only=True):
    """An event that the receiver refused for good. The run is that of the event, where it has one.

    ``refused_at`` is ours.
    """

    position: int
    event_id: str
    event_type: str
    reason: str
    refused_at: datetime
    workspace: str | None
    run_kind: str | None
    run_id: str | None


class OutputLetterView(DeadLetterView, frozen=True, kw_only=True):
    """A dead letter, and the output that refused it."""

    output: str


class DeadLettersQuery(Struct, frozen=True, kw_only=True):
    """Which dead letters."""

    output: Annotated[
        str | None, Meta(description="Of this output; of all, where it is left out.")
    ] = None
    limit: Annotated[int, Meta(ge=1, le=_MOST, description="The newest so many.")] = 50


class DeadLetterList(Struct, frozen=True, kw_only=True):
    """The newest dead letters, newest first, of the shards that this daemon holds.

    ``total`` is how many there are.
    """

    data: tuple[OutputLetterView, ...]
    total: int
    next: str | None = None


class DeadLetterOfQuery(Struct, frozen=True, kw_only=True):
    """An event, by its id."""

    event_id: Annotated[str, Meta(max_length=_LONGEST_ID, description="The id of an event.")]


class DeadLettersOfEvent(Struct, frozen=True, kw_only=True):
    """An event as outputs send it, and the dead letter of each output that refused it."""

    event_id: str
    event: CloudEvent
    data: tuple[OutputLetterView, ...]


@view(
    "dead_letters",
    "/api/v1/dead-letters",
    "Events that outputs refused for good, newest first.",
    is_whole=True,
)
async def dead_letters_view(sources: ViewSources, query: DeadLettersQuery) -> DeadLetterList:
    known, found, total = set(sources.alerting.outputs()), [], 0
    async for bus, name, count in _with_letters(sources):
        known.add(name)
        if query.output in (None, name) and count:
            letters = await bus.dead_letters(name, limit=query.limit)
            found += [(letter, name) for letter in letters]
            total += count
    if query.output is not None and query.output not in known:
        raise ProblemDetails(400, f"output: {unknown(query.output, sorted(known))}")
    found.sort(key=lambda row: (row[0].refused_at, row[0].position), reverse=True)
    newest = found[: query.limit]
    data = [_of_output(letter, name) async for letter, name in in_slices(newest)]
    return DeadLetterList(data=tuple(data), total=total)


@view(
    "dead_letter",
    "/api/v1/dead-letters/{event_id}",
    "An event that outputs refused for good, and why each did.",
    is_whole=True,
)
async def dead_letter_view(sources: ViewSources, query: DeadLetterOfQuery) -> DeadLettersOfEvent:
    found: list[tuple[DeadLetter, str]] = []
    async for bus, name, count in _with_letters(sources):
        letter = await _of_event(bus, name, query.event_id) if count else None
        if letter is not None:
            found.append((letter, name))
    if not found:
        raise ProblemDetails(404, "no output has a dead letter of that event")
    letter, _ = found[0]
    logged = await sources.runs.events_by_id([query.event_id])
    # Retention may have removed it from the log; a letter is kept until it is sent or dropped.
    recorded = logged.get(query.event_id, Recorded(letter.position, letter.event))
    return DeadLettersOfEvent(
        event_id=query.event_id,
        event=cloud_event(recorded),
        data=tuple(_of_output(letter, name) for letter, name in found),
    )


def letter_view(letter: DeadLetter) -> DeadLetterView:
    event = letter.event
    key = event.run.key if isinstance(event, RunEvent) else None
    return filled(
        DeadLetterView,
        letter,
        event_id=event.id,
        event_type=event.type,
        workspace=key.workspace if key is not None else None,
        run_kind=key.kind if key is not None else None,
        run_id=key.id if key is not None else None,
    )


def _of_output(letter: DeadLetter, output: str) -> OutputLetterView:
    return filled(OutputLetterView, letter_view(letter), output=output)


async def _with_letters(sources: ViewSources) -> AsyncIterator[tuple[StoredShard, str, int]]:
    """Yield the consumers of each shard that this daemon holds, and how many letters each has."""
    for shard in sources.shards.hosted():
        for consumer in (await shard.bus.status()).consumers:
            yield shard.bus, consumer.consumer, consumer.dead_letters


async def _of_event(bus: StoredShard, name: str, event_id: str) -> DeadLetter | None:
    after: int | None = None
    while True:
        letters = await bus.dead_letters_after(name, after, limit=_BATCH)
        for letter in letters:
            if letter.event.id == event_id:
                return letter
        if len(letters) < _BATCH:
            return None
        after = letters[-1].position

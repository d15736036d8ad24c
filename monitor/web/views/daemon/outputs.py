"""The outputs: the backlog of each, and what it could not deliver."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from msgspec import Struct

from monitor.bus.contract import ConsumerStatus, DeadLetter
from monitor.model.checks import CheckLine, worst
from monitor.model.public_shapes import filled
from monitor.web.shown_shards import ShownShard
from monitor.web.views.daemon.dead_letters import DeadLetterView, letter_view
from monitor.web.views.view import NoParameters, ViewSources, view

_LETTERS = 3  # of each output
_PARTS = {
    "alerting": "rules and alerts",
    "metrics": "counters and histograms",
    "misses": "check for missed callbacks, two minutes after each end,",
}
_NOT_STARTED = ConsumerStatus(
    consumer="", position=0, backlog=0, oldest_at=None, dead_letters=0, lost=0
)


class OutputView(Struct, frozen=True, kw_only=True):
    """One output, or with ``is_internal`` a part of the daemon that follows the log as they do.

    ``oldest_at`` is when the oldest event was recorded that it has not delivered.
    """

    name: str
    in_words: str
    is_internal: bool
    is_well: bool
    detail: str | None
    backlog: int  # events
    oldest_at: datetime | None
    lost: int  # events that retention removed before they were delivered, ever
    dead_letters: int
    newest_dead_letters: tuple[DeadLetterView, ...]


class OutputList(Struct, frozen=True, kw_only=True):
    """The outputs by name, then the parts of the daemon that follow the log.

    All figures are of the shards that this daemon holds.
    """

    data: tuple[OutputView, ...]
    next: str | None = None


@view(
    "outputs",
    "/api/v1/monitor/outputs",
    "Where events go out, how far each output is behind, and its dead letters.",
    is_whole=True,
)
async def outputs_view(sources: ViewSources, _: NoParameters) -> OutputList:
    hosted = sources.shards.hosted()
    outputs = worst(output for shard in hosted for output in shard.outputs())
    consumers = added_up([found for shard in hosted for found in await _consumers(shard)])
    views = [
        await _view(sources, name, consumers, output) for name, output in sorted(outputs.items())
    ]
    views += [
        await _view(sources, name, consumers, None)
        for name in sorted(consumers.keys() - outputs.keys())
    ]
    return OutputList(data=tuple(views))


async def _view(
    sources: ViewSources,
    name: str,
    consumers: Mapping[str, ConsumerStatus],
    output: CheckLine | None,
) -> OutputView:
    """Return one output; None: a part of the daemon, which says nothing about itself."""
    consumer = consumers.get(name)  # None before its first start
    letters: list[DeadLetter] = []
    if consumer is not None and consumer.dead_letters:
        for shard in sources.shards.hosted():
            letters += await shard.bus.dead_letters(name, limit=_LETTERS)
        letters = sorted(letters, key=_refused_at, reverse=True)[:_LETTERS]
    return filled(
        OutputView,
        consumer or _NOT_STARTED,
        name=name,
        in_words=_in_words(name) if output is None else name,
        is_internal=output is None,
        is_well=output is None or output.is_well,
        detail=None if output is None else output.found,
        newest_dead_letters=tuple(map(letter_view, letters)),
    )


async def _consumers(shard: ShownShard) -> Sequence[ConsumerStatus]:
    return (await shard.bus.status()).consumers


def _refused_at(letter: DeadLetter) -> tuple[datetime, int]:
    return letter.refused_at, letter.position


def added_up(consumers: Iterable[ConsumerStatus]) -> dict[str, ConsumerStatus]:
    """Return the consumers by name, those of several shards as one."""
    total: dict[str, ConsumerStatus] = {}
    for consumer in consumers:
        before = total.get(consumer.consumer)
        if before is None:
            total[consumer.consumer] = consumer
            continue
        waiting = [at for at in (before.oldest_at, consumer.oldest_at) if at is not None]
        total[consumer.consumer] = ConsumerStatus(
            consumer=consumer.consumer,
            position=max(before.position, consumer.position),
            backlog=before.backlog + consumer.backlog,
            oldest_at=min(waiting, default=None),
            dead_letters=before.dead_letters + consumer.dead_letters,
            lost=before.lost + consumer.lost,
        )
    return total


def _in_words(consumer: str) -> str:
    """Return what a part of the daemon follows the log for."""
    part, _, workspace = consumer.partition("/")
    words = _PARTS.get(part, part)
    return f"{words} of {workspace}" if workspace else words

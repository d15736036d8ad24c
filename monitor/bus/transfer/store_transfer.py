"""Carries everything from one store to another, and proves that it has arrived.

All rows are translated in the order of the source, which is the same in each attempt: an attempt
that was interrupted is continued behind the rows that the target has. Each row goes into a sum of
its table and shard; at the end the target is read, and must give the same sums.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping

from monitor.bus.transfer.event_subjects import letter_of, subject_of, with_position
from monitor.bus.transfer.numbering import ConsumerPlace, Numbering
from monitor.bus.transfer.sums import Sums
from monitor.bus.transfer.tables import (
    Row,
    ShardEnd,
    ShardRow,
    StoreTable,
    TransferRouting,
    TransferSource,
    TransferTarget,
)
from monitor.model.alerts import BRIDGE
from monitor.model.errors import BusUnavailableError, ConfigurationError

_BATCH_ROWS = 1_000
# Called with each batch: the table, and how many rows of it are done.
OnProgress = Callable[[str, int], None]


class StoreTransfer:
    """One transfer. ``on_progress`` is called with every batch of rows."""

    def __init__(
        self,
        source: TransferSource,
        target: TransferTarget,
        routing: TransferRouting,
        *,
        on_progress: OnProgress,
        batch_rows: int = _BATCH_ROWS,
    ) -> None:
        self._source = source
        self._target = target
        self._routing = routing
        self._on_progress = on_progress
        self._batch_rows = batch_rows
        self._consumers: list[ConsumerPlace] = []
        self._ends: Mapping[str, ShardEnd] = {}
        self._numbering = Numbering((), after={})
        self._letter_named = f"{source.name}: a dead letter"
        self._own_events: dict[tuple[str, str], int] = {}  # about the daemon itself, by shard, id

    async def run(self) -> Sums:
        """Return how many rows of each table went into each shard.

        Raises:
            ConfigurationError: the target holds something else, or the logs cannot be merged.
            BusSchemaError: something in the source cannot be read.
            BusUnavailableError: a store fails, or the target does not hold what was written.
        """
        self._ends = await self._source.shards()
        goals: dict[str, dict[str, str]] = {}
        for shard, end in self._ends.items():
            goals.setdefault(self._routing.shard_of(shard, BRIDGE), {})
            for workspace, url in end.workspaces.items():
                goals.setdefault(self._routing.shard_of(shard, workspace), {})[workspace] = url
        self._consumers = [
            ConsumerPlace(shard, *row)
            async for shard, row in self._source.rows(StoreTable.CONSUMER)
        ]
        self._refuse_unread(is_merging=len(self._ends) > len(goals))
        await self._number_letters(goals)
        log_epoch = max((end.log_epoch for end in self._ends.values()), default=0)
        await self._target.begin(self._source.name, goals, log_epoch=log_epoch)
        written = Sums()
        for table in StoreTable:
            await self._copy(table, written)
        await self._verify(written)
        await self._target.finish({shard: self._numbering.newest(shard) for shard in goals})
        return written

    def _refuse_unread(self, *, is_merging: bool) -> None:
        """Refuse to merge logs where a consumer would count events of one of them again."""
        for consumer in self._consumers if is_merging else ():
            unread = self._ends[consumer.shard].newest_position - consumer.position
            if unread > 0 and consumer.name in self._routing.exact:
                raise ConfigurationError(
                    f"{self._source.name}: {consumer.name} has still to read {unread:,} events of "
                    f"shard {consumer.shard}; run a daemon until it has, and end it with SIGTERM"
                )

    async def _number_letters(self, goals: Mapping[str, Mapping[str, str]]) -> None:
        """Reserve positions for dead letters whose event is gone."""
        letters = [letter async for letter in self._source.rows(StoreTable.DEAD_LETTER)]
        named = {(shard, row[1]): row for shard, row in letters}
        gone = {key: row for key, row in named.items() if self._is_gone(*key)}
        self._numbering = Numbering(self._consumers, named, after=self._ends_before(goals, gone))
        for (shard, position), row in sorted(gone.items()):
            workspace = letter_of(row[2], self._letter_named).event.workspace
            self._numbering.reserve(shard, position, self._routing.shard_of(shard, workspace))

    def _is_gone(self, shard: str, position: int) -> bool:
        return position < self._ends[shard].oldest_position

    def _ends_before(
        self, goals: Mapping[str, Mapping[str, str]], gone: Collection[tuple[str, int]]
    ) -> dict[str, int]:
        """Return for each new log the position before its first one."""
        if goals == {shard: end.workspaces for shard, end in self._ends.items()}:
            # The same logs: with its reserved positions before them, each event keeps its own.
            reserved = Counter(shard for shard, _ in gone)
            return {
                shard: end.oldest_position - 1 - reserved[shard]
                for shard, end in self._ends.items()
            }
        newest = max((end.newest_position for end in self._ends.values()), default=0)
        return dict.fromkeys(goals, newest)

    async def _copy(self, table: StoreTable, written: Sums) -> None:
        done, passed = await self._target.done(table), 0
        batch: list[ShardRow] = []
        async for row in self._translated(table):
            written.add(table, row)
            passed += 1
            if passed > done:
                batch.append(row)
            if len(batch) == self._batch_rows or (not batch and passed % self._batch_rows == 0):
                await self._write(table, batch, passed)
                batch = []
        await self._write(table, batch, passed)
        if passed < done:
            raise BusUnavailableError(
                f"{self._source.name} has changed since {self._target.name} was begun; remove what "
                "was begun, then start anew"
            )

    async def _write(self, table: StoreTable, batch: list[ShardRow], passed: int) -> None:
        if batch:
            await self._target.write(table, batch)
        self._on_progress(table, passed)

    async def _verify(self, written: Sums) -> None:
        stored, passed = Sums(), 0
        for table in StoreTable:
            async for row in self._target.rows(table):
                stored.add(table, row)
                passed += 1
                if passed % self._batch_rows == 0:
                    self._on_progress("verify", passed)
        self._on_progress("verify", passed)
        difference = written.difference(stored)
        if difference is not None:
            raise BusUnavailableError(
                f"{self._target.name} does not hold what {self._source.name} has: {difference}; "
                "remove what was begun, then start anew"
            )

    async def _translated(self, table: StoreTable) -> AsyncIterator[ShardRow]:
        """Yield the rows of a table as the target is to hold them."""
        rows = self._source.rows(table)
        if table is StoreTable.CONSUMER:
            for consumer in self._translated_consumers():
                yield consumer
        elif table is StoreTable.CONSUMER_STATE:
            async for state in self._translated_states(rows):
                yield state
        else:
            translate = {
                StoreTable.EVENT: self._translated_event,
                StoreTable.DEAD_LETTER: self._translated_letter,
            }.get(table, self._routed)
            async for shard, row in rows:
                translated = translate(shard, row)
                if translated is not None:
                    yield translated

    def _routed(self, shard: str, row: Row) -> ShardRow:
        return ShardRow(self._routing.shard_of(shard, row[0]), row)

    def _translated_event(self, shard: str, row: Row) -> ShardRow | None:
        position, event_id, recorded_at, body = row
        workspace, alert = subject_of(body, f"{self._source.name}: event {position}")
        if alert is not None:
            self._routing.learn(alert, workspace)
        to = self._routing.shard_of(shard, workspace)
        if workspace == BRIDGE:
            # Several shards may have recorded the same event about the daemons.
            known = self._own_events.get((to, event_id))
            if known is not None:
                self._numbering.join(shard, position, known)
                return None
        new = self._numbering.place(shard, position, to)
        if workspace == BRIDGE:
            self._own_events[to, event_id] = new
        return ShardRow(to, (new, event_id, recorded_at, body))

    def _translated_letter(self, shard: str, row: Row) -> ShardRow:
        letter = letter_of(row[2], self._letter_named)
        new = self._numbering.moved(shard, row[1])
        to = self._routing.shard_of(shard, letter.event.workspace)
        return ShardRow(to, (row[0], new, with_position(letter, new)))

    def _translated_consumers(self) -> Iterator[ShardRow]:
        lost: Counter[tuple[str, str]] = Counter()
        for consumer in self._consumers:
            gone = self._ends[consumer.shard].oldest_position - 1
            pending = max(0, gone - max(consumer.position, consumer.counted_until))
            goals = self._routing.shards_of_consumer(consumer.shard, consumer.name)
            for shard in goals:
                # Events that retention took from it are counted once.
                lost[shard, consumer.name] += consumer.lost + pending if shard == goals[0] else 0
        for (shard, name), count in sorted(lost.items()):
            position = self._numbering.continued(shard, name)
            yield ShardRow(shard, (name, position, count, 0))

    async def _translated_states(self, rows: AsyncIterator[ShardRow]) -> AsyncIterator[ShardRow]:
        async for (consumer, key), values in _grouped(rows):
            for shard, value in self._routing.states(consumer, key, values).items():
                yield ShardRow(shard, (consumer, key, value))


async def _grouped(
    rows: AsyncIterator[ShardRow],
) -> AsyncIterator[tuple[tuple[str, str], dict[str, bytes]]]:
    """Yield each key of a consumer's state with its values by shard; rows come ordered by it."""
    present: tuple[str, str] | None = None
    values: dict[str, bytes] = {}
    async for shard, (consumer, key, value) in rows:
        if present != (consumer, key):
            if present is not None:
                yield present, values
            present, values = (consumer, key), {}
        values[shard] = value
    if present is not None:
        yield present, values

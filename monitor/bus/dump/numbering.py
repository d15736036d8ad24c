"""Positions in the logs that an import makes, and all that names a position. Pure.

A log has no holes. One that goes whole into a shard keeps its positions. One that lost events, or
was joined with others, ends where the longest of them ended or later: as late as it takes for no
event to get a lower position than it had, so that to subscribers no ``sequence`` goes back.
Consumers continue before the first event that they have not read.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from monitor.bus.dump.dump_records import Row, Shard, ShardRow, Shards, StoreTable
from monitor.bus.dump.routing import RoutedRow, Routing, with_position
from monitor.model.errors import ConfigurationError


@dataclass(slots=True, kw_only=True)
class _Log:
    """A log that is to be: its events are numbered from 1 until their count is known."""

    sources: list[str] = field(default_factory=list)
    workspaces: dict[str, str] = field(default_factory=dict)
    newest_before: int = 0  # of its sources
    log_epoch: int = 0
    events: int = 0
    most_ahead: int = 0  # by how much the position of an event passes its number
    written: int = 0
    own_events: dict[str, int] = field(default_factory=dict)  # numbers by id
    consumers: dict[str, list[RoutedRow]] = field(default_factory=dict)  # by name
    first_unread: dict[str, int] = field(default_factory=dict)  # by consumer
    repeated: Counter[str] = field(default_factory=Counter)  # read, but after an unread one
    letters: dict[tuple[str, int], int] = field(default_factory=dict)  # numbers of their events
    letter_positions: set[tuple[str, int]] = field(default_factory=set)
    lowest_letter: int = 0  # below 0 a position names no event

    @property
    def newest(self) -> int:
        return max(self.newest_before, self.most_ahead + self.events)

    @property
    def start(self) -> int:
        """The position before that of the first event."""
        return self.newest - self.events


class Numbering:
    """`plan` counts every consumer, dead letter and event; then the others return what is stored.

    ``shards`` are those that the rows are of.
    """

    def __init__(self, shards: Shards, routing: Routing) -> None:
        self._shards = shards
        self._logs: defaultdict[str, _Log] = defaultdict(_Log)
        for shard, stored in shards.items():
            for to in routing.targets[shard]:
                log = self._logs[to]
                log.sources.append(shard)
                log.newest_before = max(log.newest_before, stored.newest_position)
                log.log_epoch = max(log.log_epoch, stored.log_epoch)
            for workspace, url in stored.workspaces.items():
                if (place := routing.shard_of(shard, workspace)) is not None:
                    self._logs[place].workspaces[workspace] = url

    def plan(self, table: StoreTable, row: RoutedRow) -> None:
        """Count a row, in the order of the tables."""
        log = self._logs[row.to]
        if table is StoreTable.CONSUMER:
            log.consumers.setdefault(row.row[0], []).append(row)
        elif table is StoreTable.DEAD_LETTER:
            log.letters[row.shard, row.row[1]] = 0
        elif table is StoreTable.EVENT:
            self._plan_event(log, row)

    def _plan_event(self, log: _Log, row: RoutedRow) -> None:
        position, event_id, *_ = row.row
        number = log.events + 1
        if row.is_own:
            number = log.own_events.setdefault(event_id, number)
        if (row.shard, position) in log.letters:
            log.letters[row.shard, position] = number
        if number <= log.events:
            return  # another shard has recorded it too
        log.events = number
        log.most_ahead = max(log.most_ahead, position - number)
        for name, consumers in log.consumers.items():
            for consumer in consumers:
                if consumer.shard != row.shard:
                    continue
                if consumer.row[1] < position:
                    log.first_unread.setdefault(name, number)
                elif name in log.first_unread:
                    log.repeated[name] += 1

    def shards(self, exact: frozenset[str]) -> dict[str, Shard]:
        """Return the shards as they will be.

        Raises:
            ConfigurationError: a consumer that is ``exact`` would count events twice.
        """
        for log in self._logs.values():
            for name in sorted(exact & log.repeated.keys()):
                raise ConfigurationError(
                    f"{name} has still to read events of shards that become one, and would count "
                    f"{log.repeated[name]:,} of another shard again; run a daemon until its "
                    "backlog is 0, end it with SIGTERM, and export again"
                )
        return {
            name: Shard(
                newest_position=log.newest,
                oldest_position=log.start + 1,
                log_epoch=log.log_epoch,
                workspaces=log.workspaces,
            )
            for name, log in self._logs.items()
        }

    def consumers(self) -> Iterator[ShardRow]:
        """Yield the consumers of all logs."""
        for to, log in self._logs.items():
            for name, rows in log.consumers.items():
                if self._is_complete(rows[0]):
                    yield ShardRow(to, rows[0].row)
                else:
                    unread = log.first_unread.get(name, log.events + 1)
                    lost = sum(map(self._lost, rows))
                    yield ShardRow(to, (name, log.start + unread - 1, lost, 0))

    def _lost(self, row: RoutedRow) -> int:
        """Return how many events retention took from a consumer, those not counted yet too."""
        _, position, lost, counted_until = row.row
        gone = self._shards[row.shard].oldest_position - 1
        return int(lost + max(0, gone - max(position, counted_until)))

    def letter(self, row: RoutedRow) -> Row:
        """Return a dead letter as it is stored."""
        consumer, position, body = row.row
        log = self._logs[row.to]
        if number := log.letters[row.shard, position]:
            position = log.start + number
        if (consumer, position) in log.letter_positions or (not number and position > log.start):
            # Its event has one already, or is gone while another has its position.
            position = log.lowest_letter - 1
        log.letter_positions.add((consumer, position))
        log.lowest_letter = min(log.lowest_letter, position)
        return consumer, position, with_position(body, position)

    def event(self, row: RoutedRow) -> Row | None:
        """Return an event as it is stored; None for one that another shard has recorded too."""
        log = self._logs[row.to]
        position, event_id, recorded_at, epoch, body = row.row
        if row.is_own and log.own_events[event_id] <= log.written:
            return None
        log.written += 1
        if not self._is_complete(row):
            position, epoch = log.start + log.written, log.log_epoch
        return position, event_id, recorded_at, epoch, body

    def _is_complete(self, row: RoutedRow) -> bool:
        """True where the log of a row is that of its shard, as it was."""
        log = self._logs[row.to]
        return (
            log.sources == [row.shard] and log.start == self._shards[row.shard].oldest_position - 1
        )

"""The position of a reader: in the only shard's log, or a cursor over several shards.

Several shards have no common position. Their events are ordered by when they were recorded, and
the key of the last one is the cursor; so it stays good when a shard moves to another daemon. An
event becomes visible up to `LATENESS` after it was recorded, and perhaps after others: so a page
leads no further than that, and a stream that is resumed begins so much earlier. Events are repeated
therefore, under their ids, and none is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from monitor.bus.contract import RecordedIn, StoredLog
from monitor.bus.shards import SOLE
from monitor.model.clock import Clock
from monitor.web.http.problem_details import number
from monitor.web.http.request_parsing import cursor_after, read_cursor

FARTHEST = 2**63 - 1  # the largest position
LATENESS = timedelta(seconds=15)  # a commit's time-out, and what clocks of daemons differ

_LIST = "events"
_WINDOW = timedelta(minutes=1)  # the first in which the newest events are sought, then ten times it
_LONGEST_WINDOW = timedelta(days=3_650)

Key = tuple[datetime, str, int]  # recorded at, shard, position


class LogPosition:
    """How far a reader has come in each shard; ``cursor`` is the one that led here."""

    def __init__(self, by_shard: dict[str, int], cursor: Key | None = None) -> None:
        self.by_shard = by_shard
        self.cursor = cursor

    def includes(self, recorded: RecordedIn) -> bool:
        """Move up to an event; False for one that comes before the cursor."""
        self.by_shard[recorded.shard] = recorded.position
        if self.cursor is None:
            return True
        at, shard, _ = self.cursor
        # An earlier one comes after its log's first of that instant, and was not read yet.
        return recorded.event.recorded_at != at or recorded.shard >= shard


class LogPositions:
    """Finds positions in the logs of all shards."""

    def __init__(self, log: StoredLog, *, clock: Clock) -> None:
        self._log = log
        self._clock = clock

    async def newest(self) -> LogPosition:
        """Return the position after all events."""
        return LogPosition(await self._log.positions())

    async def after(self, name: str, text: str, *, is_resumed: bool = False) -> LogPosition:
        """Return the position that a client names; ``name`` is that of its parameter.

        ``is_resumed``: what it read before came at once, and not only what was complete.

        Raises:
            ProblemDetails: it is none of this store.
        """
        newest = await self._log.positions()
        if is_sole(newest):
            # A position after the newest belongs to a store that was replaced.
            return LogPosition({SOLE: min(number(name, text, most=FARTHEST), newest[SOLE])})
        key = read_cursor(_LIST, text, tuple[datetime, str, int])
        assert key is not None  # noqa: S101 - for the type checker; only no text gives none
        at, shard, position = key
        positions = await self._log.positions_since(at - LATENESS if is_resumed else at)
        if shard in positions:
            positions[shard] = min(position, newest.get(shard, 0))
        return LogPosition(positions, None if is_resumed else key)

    async def since(self, at: datetime) -> LogPosition:
        """Return the position before what was recorded then or later."""
        return LogPosition(await self._log.positions_since(at))

    async def last(self, count: int) -> LogPosition:
        """Return the position before the newest so many events."""
        newest = await self._log.positions()
        if is_sole(newest):
            return LogPosition({SOLE: max(0, newest[SOLE] - count)})
        window = _WINDOW
        while True:
            positions = await self._log.positions_since(self._clock.now() - window)
            found = sum(newest.get(shard, 0) - position for shard, position in positions.items())
            if found >= count or window >= _LONGEST_WINDOW:
                break
            window *= 10
        begin = LogPosition(positions)
        for recorded in await self._log.events(positions, limit=max(0, found - count)):
            begin.includes(recorded)
        return begin

    def cursor(self, recorded: RecordedIn) -> int | str:
        """Return what leads to the position after an event."""
        if recorded.shard == SOLE:
            return recorded.position
        return cursor_after(_LIST, (recorded.event.recorded_at, recorded.shard, recorded.position))

    def cursor_past_hidden(self, recorded: RecordedIn, began: LogPosition) -> int | str:
        """Return what leads past an event that is not shown, without the name of its shard.

        What was recorded at that instant comes again; where the page began there, too, it goes on.
        """
        at = recorded.event.recorded_at
        if recorded.shard == SOLE or (began.cursor is not None and began.cursor[0] == at):
            return self.cursor(recorded)
        return cursor_after(_LIST, (at, "", 0))

    def is_complete(self, recorded: RecordedIn) -> bool:
        """False while events may still become visible that were recorded before this one."""
        return recorded.shard == SOLE or recorded.event.recorded_at <= self._complete_until()

    def complete_cursor(self, position: LogPosition) -> int | str:
        """Return what leads to the end of all that is complete, where all of it was read."""
        if is_sole(position.by_shard):
            return position.by_shard[SOLE]
        until: Key = (self._complete_until(), "", 0)
        return cursor_after(_LIST, max(until, position.cursor or until))

    def _complete_until(self) -> datetime:
        return self._clock.now() - LATENESS


def is_sole(positions: dict[str, int]) -> bool:
    """True for a store that has one shard only."""
    return positions.keys() == {SOLE}


def farthest(positions: Sequence[LogPosition]) -> LogPosition:
    """Return the position after all of these; without any the beginning."""
    by_shard: dict[str, int] = {}
    for position in positions:
        for shard, number_there in position.by_shard.items():
            by_shard[shard] = max(number_there, by_shard.get(shard, 0))
    cursors = [position.cursor for position in positions if position.cursor is not None]
    return LogPosition(by_shard, max(cursors, default=None))

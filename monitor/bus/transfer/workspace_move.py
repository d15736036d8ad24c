"""Moves a workspace into another shard of its database, in one transaction.

Its events are appended to the other log, and those that stay close the holes, up to the newest: so
no position is used again, and every consumer goes on in front of the first event that it has not
read. A log with lower positions than that of the workspace is raised first, so that to subscribers
no ``sequence`` goes back. A consumer that counts each event once must have read all of both logs. A
shard that loses its last workspace goes with it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from monitor.bus.postgres import codec
from monitor.bus.postgres.connections.connecting import Connection
from monitor.bus.postgres.connections.failures import bus_errors
from monitor.bus.transfer.event_subjects import letter_of, subject_of, with_position
from monitor.bus.transfer.tables import TransferRouting
from monitor.model.errors import ConfigurationError

_READ_AT_ONCE = 500
_SHARD = "SELECT number, name, newest_position, log_epoch FROM shard WHERE {} FOR UPDATE"
_FENCE = (
    "UPDATE shard SET holder = NULL, incarnation = NULL, epoch = epoch + 1"
    " WHERE number = ANY($1::integer[])"
)
_OLDEST = "SELECT coalesce(min(position), $2) FROM event WHERE shard = $1"
_KNOWN = (
    "DELETE FROM event WHERE shard = $1"
    " AND EXISTS (SELECT FROM event AS known WHERE known.shard = $2 AND known.id = event.id)"
)
_MOVE_EVENTS = (
    "UPDATE event SET shard = $2, position = moved.new, epoch = $5"
    " FROM unnest($3::bigint[], $4::bigint[]) AS moved (position, new)"
    " WHERE event.shard = $1 AND event.position = moved.position"
)
# By way of negative positions, because two events may not have one position at any time.
_CLOSE_HOLES = (
    "UPDATE event SET position = -placed.new FROM (SELECT position, $2 - count(*) OVER ()"
    " + row_number() OVER (ORDER BY position) AS new FROM event WHERE shard = $1) AS placed"
    " WHERE event.shard = $1 AND event.position = placed.position AND placed.new <> placed.position"
)
_TURN = "UPDATE event SET position = -position WHERE shard = $1 AND position < 0"
_RAISE = (
    "UPDATE event SET position = -(position + $2) WHERE shard = $1",
    (
        "UPDATE consumer SET position = position + $2, counted_until = counted_until + $2"
        " WHERE shard = $1"
    ),
    "UPDATE shard SET newest_position = newest_position + $2 WHERE number = $1",
)
_PLACE_LETTER = (
    "UPDATE dead_letter SET shard = $2, position = $3, body = $4 WHERE number = $1 AND shard = $5"
)
_PLACE_CONSUMER = (
    "INSERT INTO consumer (shard, name, position, lost) VALUES ($1, $2, $3, $4)"
    " ON CONFLICT (shard, name) DO UPDATE SET position = excluded.position,"
    " lost = consumer.lost + excluded.lost"
)
_STORE_STATE = (
    "INSERT INTO consumer_state (shard, consumer, key, value) VALUES ($1, $2, $3, $4)"
    " ON CONFLICT (shard, consumer, key) DO UPDATE SET value = excluded.value"
)

# Returns the value of a key that two shards have: consumer, key, value by shard.
JoinStates = Callable[[str, str, Mapping[str, bytes]], bytes]
# Returns where rows go: shards by workspace, and the shard of what is about none of them.
MakeRouting = Callable[[Mapping[str, str], str], TransferRouting]


class _Shard(NamedTuple):
    number: int
    name: str
    newest: int
    log_epoch: int


class MovedWorkspace(NamedTuple):
    """How much has moved, and from where."""

    from_shard: str
    events: int
    runs: int


class WorkspaceMove:
    """One move, on a connection that keeps daemons away."""

    def __init__(
        self,
        connection: Connection,
        workspace: str,
        to: str,
        *,
        make_routing: MakeRouting,
        join_states: JoinStates,
    ) -> None:
        self._connection = connection
        self._workspace = workspace
        self._to = to
        self._make_routing = make_routing
        self._join_states = join_states

    async def run(self) -> MovedWorkspace:
        """Return when all of it is done, or raise when nothing is.

        Raises:
            ConfigurationError: the workspace is not stored, is there already, or events are unread.
            BusUnavailableError: the database fails.
        """
        with bus_errors("the move"):
            async with self._connection.transaction():
                return await self._move()

    async def _move(self) -> MovedWorkspace:
        old, new = await self._shards()
        # Whoever had one of them, and wakes up, is fenced as by a takeover.
        await self._connection.execute(_FENCE, [old.number, new.number])
        rows = await self._connection.fetch(
            "SELECT name FROM workspace WHERE shard = $1", old.number
        )
        shards = {codec.read_text(row["name"]): old.name for row in rows}
        shards[self._workspace] = new.name
        is_last = len(shards) == 1
        routing = self._make_routing(shards, new.name if is_last else old.name)
        await self._refuse_unread(old, routing)
        await self._refuse_unread(new, routing)
        if is_last:
            # Both may have recorded the same events about the daemons.
            await self._connection.execute(_KNOWN, old.number, new.number)
        new = await self._raised(new, to=old.newest)
        moved = await self._positions(old, new, routing)
        await self._move_letters(old, new, routing, moved)
        await self._move_consumers(old, new, routing, moved)
        await self._move_states(old, new, routing)
        await self._move_events(old, new, moved)
        runs = await self._move_rows(old, new, is_last=is_last)
        return MovedWorkspace(old.name, events=len(moved), runs=runs)

    async def _shards(self) -> tuple[_Shard, _Shard]:
        name = codec.text(self._workspace)
        of_workspace = "number = (SELECT shard FROM workspace WHERE name = $1)"
        old = await self._connection.fetchrow(_SHARD.format(of_workspace), name)
        if old is None:
            raise ConfigurationError(f"workspace {self._workspace!r} is not in the store")
        if old["name"] == self._to:
            raise ConfigurationError(
                f"workspace {self._workspace!r} is in shard {self._to!r} already"
            )
        await self._connection.execute(
            "INSERT INTO shard (name) VALUES ($1) ON CONFLICT (name) DO NOTHING", self._to
        )
        new = await self._connection.fetchrow(_SHARD.format("name = $1"), self._to)
        if new is None:
            raise ConfigurationError(f"shard {self._to!r} cannot be made")
        return _Shard(*old.values()), _Shard(*new.values())

    async def _refuse_unread(self, shard: _Shard, routing: TransferRouting) -> None:
        rows = await self._connection.fetch(
            "SELECT name, position FROM consumer WHERE shard = $1 AND position < $2",
            shard.number,
            shard.newest,
        )
        for row in rows:
            if row["name"] in routing.exact:
                raise ConfigurationError(
                    f"{row['name']} has still to read {shard.newest - row['position']:,} events of "
                    f"shard {shard.name}; run a daemon until it has, and end it with SIGTERM"
                )

    async def _raised(self, shard: _Shard, *, to: int) -> _Shard:
        """Return the shard with its log moved up, so that it ends at this position or later."""
        more = max(0, to - shard.newest)
        if not more:
            return shard
        for statement in _RAISE:
            await self._connection.execute(statement, shard.number, more)
        await self._connection.execute(_TURN, shard.number)
        letters = await self._connection.fetch(
            "SELECT number, position, body FROM dead_letter WHERE shard = $1"
            " ORDER BY position DESC",
            shard.number,
        )
        changes: list[tuple[Any, ...]] = []
        for number, position, body in letters:
            letter = letter_of(body, f"a dead letter of shard {shard.name}")
            place = position + more if position > 0 else position  # below 0 it names no event
            changes.append(
                (number, shard.number, place, with_position(letter, place), shard.number)
            )
        await self._connection.executemany(_PLACE_LETTER, changes)
        return shard._replace(newest=shard.newest + more)

    async def _positions(self, old: _Shard, new: _Shard, routing: TransferRouting) -> list[int]:
        """Return the positions of the events that move, in their order."""
        query = "SELECT position, body FROM event WHERE shard = $1 ORDER BY position"
        moved: list[int] = []
        async for row in self._connection.cursor(query, old.number, prefetch=_READ_AT_ONCE):
            subject = subject_of(row["body"], f"event {row['position']} of shard {old.name}")
            if subject.alert is not None:
                routing.learn(subject.alert, subject.workspace)
            if routing.shard_of(old.name, subject.workspace) == new.name:
                moved.append(row["position"])
        return moved

    async def _move_letters(
        self, old: _Shard, new: _Shard, routing: TransferRouting, moved: Sequence[int]
    ) -> None:
        oldest = await self._connection.fetchval(_OLDEST, old.number, old.newest + 1)
        rows = await self._connection.fetch(
            "SELECT number, position, body FROM dead_letter WHERE shard = $1 ORDER BY number DESC",
            old.number,
        )
        places = dict(zip(moved, range(new.newest + 1, new.newest + 1 + len(moved)), strict=True))
        changes: list[tuple[Any, ...]] = []
        for number, position, body in rows:
            letter = letter_of(body, f"a dead letter of shard {old.name}")
            if routing.shard_of(old.name, letter.event.workspace) == new.name:
                # An event that is gone has no place in the other log.
                place, shard = places.get(position, -number), new.number
            else:
                ahead = _ahead(moved, position) if position >= oldest else 0
                place, shard = position + ahead, old.number
            changes.append((number, shard, place, with_position(letter, place), old.number))
        changes.sort(key=lambda change: -change[2])  # those of one log grow, so the last goes first
        await self._connection.executemany(_PLACE_LETTER, changes)

    async def _move_consumers(
        self, old: _Shard, new: _Shard, routing: TransferRouting, moved: Sequence[int]
    ) -> None:
        oldest = await self._connection.fetchval(_OLDEST, old.number, old.newest + 1)
        query = "SELECT name, position, lost, counted_until FROM consumer WHERE shard = $1"
        there = {
            row["name"]: row["position"] for row in await self._connection.fetch(query, new.number)
        }
        for row in await self._connection.fetch(query, old.number):
            name, position = row["name"], max(row["position"], oldest - 1)
            lost = max(0, oldest - 1 - max(row["position"], row["counted_until"]))
            goals = routing.shards_of_consumer(old.name, codec.read_text(name))
            if new.name in goals and there.get(name, new.newest) >= new.newest:
                place = new.newest + bisect_right(moved, position)
                taken = 0 if old.name in goals else lost + row["lost"]
                await self._connection.execute(_PLACE_CONSUMER, new.number, name, place, taken)
            if old.name in goals:
                place = position + _ahead(moved, position)
                await self._connection.execute(_PLACE_CONSUMER, old.number, name, place, lost)
            else:
                await self._connection.execute(
                    "DELETE FROM consumer WHERE shard = $1 AND name = $2", old.number, name
                )

    async def _move_states(self, old: _Shard, new: _Shard, routing: TransferRouting) -> None:
        query = "SELECT consumer, key, value FROM consumer_state WHERE shard = $1 ORDER BY key"
        rows = await self._connection.fetch(query, old.number)
        there = {
            (row["consumer"], row["key"]): row["value"]
            for row in await self._connection.fetch(query, new.number)
        }
        stored: list[tuple[int, str, str, bytes]] = []
        removed: list[tuple[int, str, str]] = []
        for consumer, key, value in rows:
            names = codec.read_text(consumer), codec.read_text(key)
            goals = routing.states(*names, {old.name: value})
            if new.name in goals:
                values = {new.name: goals[new.name]}
                if (known := there.get((consumer, key))) is not None:
                    values = {new.name: known}
                    if goals.get(old.name) != value:  # it goes there, and is not only copied
                        values[old.name] = goals[new.name]
                joined = self._join_states(*names, values)
                stored.append((new.number, consumer, key, joined))
            if old.name not in goals:
                removed.append((old.number, consumer, key))
            elif goals[old.name] != value:
                stored.append((old.number, consumer, key, goals[old.name]))
        await self._connection.executemany(_STORE_STATE, stored)
        await self._connection.executemany(
            "DELETE FROM consumer_state WHERE shard = $1 AND consumer = $2 AND key = $3", removed
        )

    async def _move_events(self, old: _Shard, new: _Shard, moved: Sequence[int]) -> None:
        newest = new.newest + len(moved)
        places = list(range(new.newest + 1, newest + 1))
        epoch = max(old.log_epoch, new.log_epoch)
        await self._connection.execute(
            _MOVE_EVENTS, old.number, new.number, list(moved), places, epoch
        )
        await self._connection.execute(_CLOSE_HOLES, old.number, old.newest)
        await self._connection.execute(_TURN, old.number)
        await self._connection.execute(
            "UPDATE shard SET newest_position = $2, log_epoch = $3 WHERE number = $1",
            new.number,
            newest,
            epoch,
        )

    async def _move_rows(self, old: _Shard, new: _Shard, *, is_last: bool) -> int:
        """Return how many runs have moved."""
        arguments = (new.number, codec.text(self._workspace))
        moved = await self._connection.execute(
            "UPDATE run SET shard = $1 WHERE workspace = $2", *arguments
        )
        for table in ("state_entry", "callback"):
            await self._connection.execute(
                f"UPDATE {table} SET shard = $1 WHERE workspace = $2",  # noqa: S608 - tables of ours
                *arguments,
            )
        await self._connection.execute(
            "UPDATE workspace SET shard = $1 WHERE name = $2", *arguments
        )
        if is_last:
            for table in ("state_entry", "instruction"):
                await self._connection.execute(
                    f"UPDATE {table} SET shard = $2 WHERE shard = $1",  # noqa: S608 - tables of ours
                    old.number,
                    new.number,
                )
            await self._connection.execute("DELETE FROM shard WHERE number = $1", old.number)
        return int(moved.split()[-1])


def _ahead(moved: Sequence[int], position: int) -> int:
    """Return how many of the events that move are behind a position."""
    return len(moved) - bisect_right(moved, position)

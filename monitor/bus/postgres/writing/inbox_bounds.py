"""Bounds the inboxes. Exact for a held shard, about right for any other."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence

from monitor.bus.contract import Received
from monitor.bus.postgres.connections.connecting import Connection
from monitor.bus.postgres.writing.rows import CallbackRow

_COUNTED_SECONDS = 2.0
# With a lock, so that the answer "a duplicate" waits for a synchronous standby as a write does.
_KNOWN = (
    "SELECT callback.workspace, callback.fingerprint FROM"
    " unnest($1::text[], $2::text[]) AS given (workspace, fingerprint)"
    " JOIN callback ON callback.workspace = given.workspace"
    " AND callback.fingerprint = given.fingerprint FOR KEY SHARE OF callback"
)
_COUNT = (
    "SELECT workspace, count(*) AS waiting FROM callback"
    " WHERE shard = ANY ($1::int[]) AND processed_at IS NULL GROUP BY workspace"
)


async def refusals(
    connection: Connection, rows: Sequence[CallbackRow], size: Callable[[str], int]
) -> dict[tuple[str, str], Received]:
    """Return the answer for each arrival that is not to be stored.

    ``size`` returns how many callbacks of a workspace wait. Only where the room does not suffice
    for all is it asked which of them are duplicates, which take none.
    """
    identities = dict.fromkeys(row.identity for row in rows)
    new = Counter(workspace for workspace, _ in identities)
    room: dict[str, int] = {}
    for row in rows:
        room[row.workspace] = row.bound - size(row.workspace)
    if all(count <= room[workspace] for workspace, count in new.items()):
        return {}
    named = zip(*identities, strict=True)
    known = {tuple(record) for record in await connection.fetch(_KNOWN, *named)}
    refused: dict[tuple[str, str], Received] = {}
    taken: set[tuple[str, str]] = set()
    for row in rows:
        if row.identity in known:
            refused[row.identity] = Received.DUPLICATE
        elif row.identity not in taken and room[row.workspace] <= 0:
            refused[row.identity] = Received.FULL
        elif row.identity not in taken:
            taken.add(row.identity)
            room[row.workspace] -= 1
    return refused


class ForeignInboxes:
    """How many callbacks wait for shards that others hold, counted every other second."""

    def __init__(self) -> None:
        self._counted_at: dict[int, float] = {}
        self._waiting: Counter[str] = Counter()

    async def count(self, connection: Connection, rows: Sequence[CallbackRow]) -> None:
        """Count again for the shards of these rows where the last count is too old."""
        now = asyncio.get_running_loop().time()
        due = {
            row.shard
            for row in rows
            if self._counted_at.get(row.shard, -_COUNTED_SECONDS) <= now - _COUNTED_SECONDS
        }
        if not due:
            return
        counted = {
            record["workspace"]: record["waiting"]
            for record in await connection.fetch(_COUNT, list(due))
        }
        for row in rows:
            if row.shard in due:
                self._waiting[row.workspace] = counted.get(row.workspace, 0)
        self._counted_at.update(dict.fromkeys(due, now))

    def size(self, workspace: str) -> int:
        return self._waiting[workspace]

    def stored(self, row: CallbackRow) -> None:
        self._waiting[row.workspace] += 1

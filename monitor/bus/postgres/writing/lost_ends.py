"""Notices logs that may have gone back: the database may have lost what it had acknowledged.

So it is after a fail-over to a standby that had not everything yet, and after a restore. Positions
are given again then, to other events; so the log goes on in a new epoch, which is stored before
anything else is. Each shard's row names the server and its timeline, which a promotion changes: so
its next holder finds it out, also after a restart. Only its former holder knows how much is lost,
and notices it alone where a managed server does not say its timeline.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import NamedTuple

import asyncpg
import structlog

from monitor.bus.contract import LostEnd
from monitor.bus.log_tail import LogTail
from monitor.bus.postgres.connections.connecting import Connection
from monitor.bus.postgres.connections.reader import Reading
from monitor.bus.postgres.writing.leased_shard import LeasedShard
from monitor.bus.postgres.writing.writer import PostgresWriter
from monitor.bus.settings import StorageSettings
from monitor.model.clock import Clock
from monitor.model.errors import BusUnavailableError

log = structlog.get_logger()

_LINEAGE = (
    "SELECT (pg_control_system()).system_identifier || '/'"
    " || left(pg_walfile_name(pg_current_wal_lsn()), 8) AS present"
)
# A managed server may keep these functions to itself.
_REFUSALS = (
    asyncpg.InsufficientPrivilegeError,
    asyncpg.FeatureNotSupportedError,
    asyncpg.UndefinedFunctionError,
)
_STORED = (
    "SELECT number, log_lineage AS stored, end_lost_count,"
    " extract(epoch FROM clock_timestamp() - end_lost_at)::float8 AS lost_seconds_ago"
    " FROM shard WHERE number = ANY ($1::integer[])"
)
_BEGIN_EPOCH = "UPDATE shard SET log_epoch = $2, log_lineage = $3 WHERE number = $1"
_STORE_LOSS = (
    "UPDATE shard SET end_lost_at = clock_timestamp(), end_lost_count = $2 WHERE number = $1"
)


class _NewEpoch(NamedTuple):
    held: LeasedShard
    epoch: int
    lineage: str
    lost: int | None  # None: not known


class LostEnds:
    """How far this process knows each log to go. Belongs to the event loop."""

    def __init__(
        self, writer: PostgresWriter, reader: Reading, *, clock: Clock, settings: StorageSettings
    ) -> None:
        self._writer = writer
        self._reader = reader
        self._clock = clock
        self._timeout_seconds = settings.commit_timeout_seconds
        self._is_refused = False  # the question for the timeline
        self._tails: dict[int, LogTail] = {}  # by number; each moves while its shard is held

    async def check(self, opened: Sequence[LeasedShard]) -> None:
        """Compare shards that were just opened with what was known of them before.

        Raises:
            BusUnavailableError: a new epoch is not stored; nothing may be written before.
        """
        present = await self._present_lineage()
        rows = await self._reader.fetch(_STORED, [held.number for held in opened])
        by_number = {row["number"]: row for row in rows}
        epochs = [
            new
            for held in opened
            if (row := by_number.get(held.number)) and (new := self._new_epoch(held, row, present))
        ]
        if epochs:
            await self._writer.run(
                partial(_begin_epochs, epochs=epochs),
                [epoch.held for epoch in epochs],
                timeout_seconds=self._timeout_seconds,
            )
        for held, epoch, _, lost in epochs:
            held.log_epoch = epoch
            if lost != 0:
                held.lost_end = self._lost_end(lost, seconds_ago=0.0)
                what = "log may have gone back" if lost is None else "log went back"
                log.error(what, shard=held.lease.shard, lost=lost, epoch=epoch)
        self._tails |= {held.number: held.tail for held in opened}

    async def _present_lineage(self) -> str:
        """Return the server and its timeline, empty where it does not say so."""
        try:
            ((present,),) = await self._reader.fetch(_LINEAGE)
        except BusUnavailableError as exc:
            if not isinstance(exc.__cause__, _REFUSALS):
                raise
            if not self._is_refused:
                log.warning("timeline of the database unknown", reason=str(exc))
            self._is_refused = True
            return ""
        return str(present)

    def _new_epoch(self, held: LeasedShard, row: asyncpg.Record, present: str) -> _NewEpoch | None:
        if (ago := row["lost_seconds_ago"]) is not None:
            held.lost_end = self._lost_end(row["end_lost_count"], seconds_ago=max(ago, 0.0))
        known = self._tails.get(held.number)
        lost = None if known is None else known.newest - held.tail.newest
        if lost is not None and lost < 0:
            lost = None  # another daemon has written it since
        stored = row["stored"]
        if not lost and (present == stored or not present):
            return None
        if not lost and not stored:
            return _NewEpoch(held, held.log_epoch, present, 0)  # it was opened nowhere else yet
        # By the timeline, because an epoch may be lost too.
        timeline = int(present.partition("/")[2] or "0", 16)
        return _NewEpoch(held, max(held.log_epoch + 1, timeline - 1), present or stored, lost)

    def _lost_end(self, count: int | None, *, seconds_ago: float) -> LostEnd:
        return LostEnd(
            count=count,
            since=self._clock.now() - timedelta(seconds=seconds_ago),
            noticed=self._clock.monotonic() - seconds_ago,
        )


async def _begin_epochs(
    connection: Connection, held: Sequence[LeasedShard], *, epochs: Sequence[_NewEpoch]
) -> None:
    numbers = {shard.number for shard in held}
    mine = [epoch for epoch in epochs if epoch.held.number in numbers]
    await connection.executemany(
        _BEGIN_EPOCH, [(epoch.held.number, epoch.epoch, epoch.lineage) for epoch in mine]
    )
    await connection.executemany(
        _STORE_LOSS, [(epoch.held.number, epoch.lost) for epoch in mine if epoch.lost != 0]
    )

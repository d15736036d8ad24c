"""Notices logs that went back: the database has lost what it had acknowledged.

So it is after a fail-over to a standby that had not everything yet. Positions are given again, to
other events; so the log goes on in a new epoch, which is stored before anything else is.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import structlog

from monitor.bus.contract import LostEnd
from monitor.bus.log_tail import LogTail
from monitor.bus.postgres.connections.connecting import Connection
from monitor.bus.postgres.writing.leased_shard import LeasedShard
from monitor.bus.postgres.writing.writer import PostgresWriter
from monitor.model.clock import Clock

log = structlog.get_logger()

_BEGIN_EPOCH = "UPDATE shard SET log_epoch = $2 WHERE number = $1"


class _Known(NamedTuple):
    tail: LogTail  # still moves while the shard is held
    epoch: int


class LostEnds:
    """How far this process knows each log to go. Belongs to the event loop."""

    def __init__(self, writer: PostgresWriter, *, clock: Clock, timeout_seconds: float) -> None:
        self._writer = writer
        self._clock = clock
        self._timeout_seconds = timeout_seconds
        self._known: dict[int, _Known] = {}  # by the number of a shard

    async def check(self, held: LeasedShard) -> None:
        """Compare a shard that was just opened with what was known of it before.

        Raises:
            BusUnavailableError: the new epoch is not stored; nothing may be written before.
        """
        known = self._known.get(held.number)
        lost = 0 if known is None else known.tail.newest - held.tail.newest
        if known is not None and lost > 0:
            epoch = max(known.epoch, held.log_epoch) + 1
            await self._writer.run(
                partial(_begin_epoch, epoch=epoch), [held], timeout_seconds=self._timeout_seconds
            )
            held.log_epoch = epoch
            held.lost_end = LostEnd(
                count=lost, since=self._clock.now(), noticed=self._clock.monotonic()
            )
            log.error("log went back", shard=held.lease.shard, lost=lost, epoch=epoch)
        self._known[held.number] = _Known(held.tail, held.log_epoch)


async def _begin_epoch(
    connection: Connection, shards: Sequence[LeasedShard], *, epoch: int
) -> None:
    for shard in shards:
        await connection.execute(_BEGIN_EPOCH, shard.number, epoch)

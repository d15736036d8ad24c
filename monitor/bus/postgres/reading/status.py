"""The figures of a held shard: from memory, save for what was stored after its end."""

from __future__ import annotations

from monitor.bus.contract import ConsumerStatus, StoreStatus, WriteFailures
from monitor.bus.postgres import codec
from monitor.bus.postgres.connections.reader import ShardReading
from monitor.bus.postgres.writing.leased_shard import ConsumerProgress, LeasedShard

_LOSS_SHOWN_SECONDS = 3_600.0
_RECORDED_AT = "SELECT recorded_at FROM event WHERE shard = $1 AND position = $2"
_COUNT_LETTERS = "SELECT count(*) AS letters FROM dead_letter WHERE shard = $1 AND consumer = $2"


async def status_of(
    held: LeasedShard,
    reading: ShardReading,
    *,
    write_failures: WriteFailures | None,
    monotonic: float,
) -> StoreStatus:
    """Return the status; a consumer that keeps up costs no query."""
    lost = held.lost_end
    is_shown = lost is not None and monotonic - lost.noticed < _LOSS_SHOWN_SECONDS
    store_bytes = await reading.store_bytes()
    consumers = [
        await _consumer_status(held, name, progress, reading)
        for name, progress in sorted(held.consumers.items())
    ]
    return StoreStatus(
        newest_position=held.tail.newest,
        oldest_position=held.oldest_position,
        consumers=tuple(consumers),
        inbox=held.arrivals.sizes(),
        store_bytes=store_bytes,
        write_failures=write_failures,
        lost_end=lost if is_shown else None,
    )


async def _consumer_status(
    held: LeasedShard, name: str, progress: ConsumerProgress, reading: ShardReading
) -> ConsumerStatus:
    letters = progress.dead_letters
    if letters is None:
        changes = progress.letter_changes
        (row,) = await reading.fetch(_COUNT_LETTERS, held.number, codec.text(name))
        letters = row["letters"]
        progress.count_letters(letters, after_changes=changes)
    unread = max(progress.position + 1, held.oldest_position)
    backlog = max(0, held.tail.newest - unread + 1)
    at = await _recorded_at(held, progress, unread, reading) if backlog else None
    return ConsumerStatus(
        consumer=name,
        position=progress.position,
        backlog=backlog,
        oldest_at=None if at is None else codec.instant(at),
        dead_letters=letters,
        lost=progress.lost,
    )


async def _recorded_at(
    held: LeasedShard, progress: ConsumerProgress, position: int, reading: ShardReading
) -> int | None:
    if progress.oldest is not None and progress.oldest[0] == position:
        return progress.oldest[1]
    in_memory = held.tail.after(position - 1, limit=1)
    if in_memory:
        at = codec.microseconds(in_memory[0].event.recorded_at)
    else:
        rows = await reading.fetch(_RECORDED_AT, held.number, position)
        if not rows:
            return None
        at = int(rows[0]["recorded_at"])
    progress.oldest = (position, at)
    return at

"""The kinds of writes, by what they are given, and what is asked of any of them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from monitor.bus.postgres.writing.leased_shard import LeasedShard
from monitor.bus.write_queue import WriteGroup, WriteJob
from monitor.model.errors import BusUnavailableError

# Kinds of jobs; those of the first two are done together.
ROWS, FOREIGN, PROBE, WORK = "rows", "foreign", "probe", "work"
# Rows of one statement: more would hold the loop, and the row of the shard, for long.
ROWS_TOGETHER = 400


def has_caller(jobs: WriteGroup) -> bool:
    return any(not job.answer.done() for job in jobs)


def has_holder(shards: Collection[LeasedShard]) -> bool:
    return any(not shard.lease.is_lost for shard in shards)


def give_up(job: WriteJob[Any]) -> None:
    """End a claimed job that is late, where storing the same again finds it there."""
    if job.work in (FOREIGN, PROBE) or (job.work == WORK and not shards_of(job)):
        job.error = BusUnavailableError(f"no answer within {job.timeout_seconds:g} s")
        job.end()


def shards_of(job: WriteJob[Any]) -> Sequence[LeasedShard]:
    if job.work == ROWS:
        return (job.given.shard,)
    return job.given[1] if job.work == WORK else ()


def is_lost(job: WriteJob[Any]) -> bool:
    """True where none of the job's shards is held any more."""
    shards = shards_of(job)
    for shard in shards:  # most have one: a generator would cost more than all the rest
        if shard.lease.lost_reason is None:
            return False
    return bool(shards)


def pieces(jobs: WriteGroup) -> Iterator[WriteGroup]:
    """Yield the jobs of one statement each; one job alone may have more rows than others have."""
    piece: WriteGroup = []
    rows = 0
    for job in jobs:
        size = job.given.rows.size if job.work == ROWS else 1
        if piece and rows + size > ROWS_TOGETHER:
            yield piece
            piece, rows = [], 0
        piece.append(job)
        rows += size
    if piece:
        yield piece

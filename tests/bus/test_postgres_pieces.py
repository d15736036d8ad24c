"""How many rows a statement of PostgreSQL has: as many as do not hold the loop for long."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import cast

from monitor.bus.contract import Change, StateEntry
from monitor.bus.postgres.writing.batch import Given
from monitor.bus.postgres.writing.job_kinds import ROWS, ROWS_TOGETHER, pieces
from monitor.bus.postgres.writing.leased_shard import LeasedShard
from monitor.bus.postgres.writing.rows import rows_of_change
from monitor.bus.write_queue import WriteGroup, WriteJob


def _jobs(*sizes: int) -> WriteGroup:
    """Return jobs of so many rows each."""
    now = datetime.now(UTC)
    entry = StateEntry(workspace="acme", topic="x", key="y", value=b"z")
    changes = [Change(state_entries=(entry,) * size) for size in sizes]
    rows = [rows_of_change(change, shard=1, now=now) for change in changes]
    shard = cast("LeasedShard", None)  # not read here
    return [WriteJob(ROWS, Given(shard, row)) for row in rows]


async def test_statements_are_cut_by_rows() -> None:
    """Many small writes are one statement, few large ones several, and each stays whole."""
    small = _jobs(*[2] * (ROWS_TOGETHER // 2))
    assert list(pieces(small)) == [small]

    large = _jobs(ROWS_TOGETHER, ROWS_TOGETHER // 2, ROWS_TOGETHER // 2, 1)
    assert [len(piece) for piece in pieces(large)] == [1, 2, 1]

    huge = _jobs(1, 3 * ROWS_TOGETHER, 1)
    assert [len(piece) for piece in pieces(huge)] == [1, 1, 1]
    assert list(pieces([])) == []

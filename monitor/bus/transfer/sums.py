"""How many rows there are of each table and shard, and sums of what they hold. Pure."""

from __future__ import annotations

import hashlib

import msgspec

from monitor.bus.transfer.tables import ShardRow, StoreTable

_BYTES = 8
_MODULUS = 2 ** (8 * _BYTES)


class Sums:
    """Sums of rows, whatever their order."""

    def __init__(self) -> None:
        self._sums: dict[tuple[StoreTable, str], tuple[int, int]] = {}

    def add(self, table: StoreTable, row: ShardRow) -> None:
        rows, total = self._sums.get((table, row.shard), (0, 0))
        digest = hashlib.blake2b(msgspec.msgpack.encode(row.row), digest_size=_BYTES).digest()
        total = (total + int.from_bytes(digest)) % _MODULUS
        self._sums[table, row.shard] = rows + 1, total

    def counts(self) -> dict[str, dict[StoreTable, int]]:
        """Return the numbers of rows by shard and table."""
        counts: dict[str, dict[StoreTable, int]] = {}
        for (table, shard), (rows, _) in sorted(self._sums.items(), key=lambda item: item[0][1]):
            counts.setdefault(shard, {})[table] = rows
        return counts

    def difference(self, other: Sums) -> str | None:
        """Return what the first difference is; None where there is none."""
        for table, shard in sorted({*self._sums, *other._sums}):
            mine = self._sums.get((table, shard), (0, 0))
            theirs = other._sums.get((table, shard), (0, 0))
            if mine != theirs:
                where = f"{table} of shard {shard!r}"
                if mine[0] != theirs[0]:
                    return f"{theirs[0]:,} rows of {where} instead of {mine[0]:,}"
                return f"other contents in the {mine[0]:,} rows of {where}"
        return None

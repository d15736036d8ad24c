"""Sets up each connection of the bus before its first statement."""

from __future__ import annotations

from monitor.bus.postgres.connections.connecting import Connection

# Every statement finds its rows by an index; a plan made while a table was small must do so too.
_SETTINGS = (
    "SELECT set_config(name, value, false) FROM (VALUES ('plan_cache_mode', 'force_generic_plan'),"
    " ('enable_seqscan', 'off'), ('enable_hashjoin', 'off'), ('enable_mergejoin', 'off'),"
    " ('jit', 'off'), ('default_transaction_read_only', $1)) AS settings (name, value)"
)
# asyncpg asks the server about these types once for each connection: now, and not in a transaction.
_TYPES = "SELECT $1::int[], $2::bigint[], $3::bytea[], $4::text[]"


async def set_up(connection: Connection, *, is_reader: bool) -> None:
    """Fix how statements are planned, and learn the types of their values."""
    await connection.execute(_SETTINGS, "on" if is_reader else "off")
    await connection.fetch(_TYPES, [], [], [], [])

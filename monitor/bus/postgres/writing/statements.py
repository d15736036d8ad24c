"""One statement for a whole transaction: what is to be written, under the fence of its shards.

A statement has a part for each table that it changes and no other, so there are few of them, and
the server keeps the plan of each. Every part writes only for shards that the fence has returned: of
a shard that is lost nothing is written, and the others are not held up.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

# The parameters of the fence are the first ones.
_FENCE_PARAMETERS = 5
_FENCE = (
    "fence AS (UPDATE shard SET newest_position = held.newest_position,"
    " last_transaction = shard.last_transaction + 1"
    " FROM unnest($1::int[], $2::bigint[], $3::bigint[], $4::bigint[])"
    " AS held (number, epoch, last_transaction, newest_position)"
    " WHERE shard.number = held.number AND shard.holder = $5 AND shard.epoch = held.epoch"
    " AND shard.last_transaction = held.last_transaction RETURNING shard.number)"
)
FENCE = f"WITH {_FENCE} SELECT number FROM fence"  # noqa: S608 - a constant of this file
# Read once for each part, and compared without a join.
_FENCED = "given.shard = ANY (ARRAY (SELECT number FROM fence))"


class Part(NamedTuple):
    """A change of one table, from rows with these columns."""

    name: str
    columns: str  # each with its type
    statement: str
    returns: str = ""  # a SELECT of id, workspace, fingerprint


_CALLBACK_COLUMNS = (
    "shard int, workspace text, fingerprint text, received_at bigint, processed_at bigint,"
    " body bytea, received_by text"
)
_ARRIVE = (
    "INSERT INTO callback (shard, workspace, fingerprint, received_at, processed_at, body,"
    " received_by) SELECT * FROM {given} WHERE {held}"
    " ON CONFLICT (workspace, fingerprint) DO {conflict} RETURNING id, workspace, fingerprint"
)
# Locks a duplicate, so that its answer too waits for a synchronous standby.
_LOCK = "UPDATE SET shard = callback.shard WHERE false"

EVENTS = Part(
    "appended",
    "shard int, position bigint, recorded_at bigint, id text, body bytea, epoch int",
    "INSERT INTO event (shard, position, recorded_at, id, body, epoch) SELECT * FROM {given}"
    " WHERE {held}",
)
RUNS = Part(
    "stored_runs",
    "shard int, workspace text, kind text, id text, status text, created_at bigint,"
    " ended_at bigint, flow_run text, plan_run text, pipeline_id text, body bytea",
    "INSERT INTO run (shard, workspace, kind, id, status, created_at, ended_at, flow_run, plan_run,"
    " pipeline_id, body) SELECT * FROM {given} WHERE {held}"
    " ON CONFLICT (workspace, kind, id) DO UPDATE SET status = excluded.status,"
    " created_at = excluded.created_at, ended_at = excluded.ended_at,"
    " flow_run = excluded.flow_run, plan_run = excluded.plan_run,"
    " pipeline_id = excluded.pipeline_id, body = excluded.body",
)
ENTRIES = Part(
    "stored_entries",
    "shard int, workspace text, topic text, key text, value bytea",
    "INSERT INTO state_entry (shard, workspace, topic, key, value)"
    " SELECT * FROM {given} WHERE {held}"
    " ON CONFLICT (workspace, topic, key) DO UPDATE SET value = excluded.value",
)
DELETED_ENTRIES = Part(
    "deleted_entries",
    "shard int, workspace text, topic text, key text",
    "DELETE FROM state_entry USING {given} WHERE {held}"
    " AND state_entry.workspace = given.workspace AND state_entry.topic = given.topic"
    " AND state_entry.key = given.key",
)
PROCESSED = Part(
    "processed",
    "shard int, id bigint, processed_at bigint",
    "UPDATE callback SET processed_at = given.processed_at, body = ''::bytea"
    " FROM {given} WHERE {held} AND callback.id = given.id AND callback.shard = given.shard"
    # Not "IS NULL", or the plan may read the whole index of what waits, for each row.
    " AND coalesce(callback.processed_at, 0) = 0",
)
ARRIVED = Part(
    "arrived",
    _CALLBACK_COLUMNS,
    _ARRIVE,
    returns="SELECT id, workspace, fingerprint FROM arrived",
)
CONSUMERS = Part(
    "subscribed",
    "shard int, name text, position bigint, counted_until bigint",
    "INSERT INTO consumer (shard, name, position, counted_until) SELECT * FROM {given}"
    " WHERE {held} ON CONFLICT (shard, name) DO UPDATE SET unnamed_since = NULL",
)
POSITIONS = Part(
    "moved",
    "shard int, name text, position bigint",
    "UPDATE consumer SET position = greatest(consumer.position, given.position)"
    " FROM {given} WHERE {held} AND consumer.shard = given.shard AND consumer.name = given.name",
)
STATE = Part(
    "stored_state",
    "shard int, consumer text, key text, value bytea",
    "INSERT INTO consumer_state (shard, consumer, key, value) SELECT * FROM {given} WHERE {held}"
    " ON CONFLICT (shard, consumer, key) DO UPDATE SET value = excluded.value",
)
DELETED_STATE = Part(
    "deleted_state",
    "shard int, consumer text, key text",
    "DELETE FROM consumer_state USING {given} WHERE {held}"
    " AND consumer_state.shard = given.shard AND consumer_state.consumer = given.consumer"
    " AND consumer_state.key = given.key",
)
# A step that is taken again after a crash names the same positions; so does a letter whose event
# was sent again and refused for another reason.
DEAD_LETTERS = Part(
    "letters",
    "shard int, consumer text, position bigint, body bytea",
    "INSERT INTO dead_letter (shard, consumer, position, body) SELECT * FROM {given} WHERE {held}"
    " ON CONFLICT (shard, consumer, position) DO UPDATE SET body = excluded.body",
)
REMOVED_LETTERS = Part(
    "removed_letters",
    "shard int, consumer text, position bigint",
    "DELETE FROM dead_letter USING {given} WHERE {held}"
    " AND dead_letter.shard = given.shard AND dead_letter.consumer = given.consumer"
    " AND dead_letter.position = given.position",
)


@cache
def fenced(parts: tuple[Part, ...]) -> str:
    """Return the statement of these parts; it returns the shards that it has written.

    Its parameters: numbers, epochs, last transactions and new newest positions of the shards, the
    holder, and then of each part its columns as arrays.
    """
    written, first, answers = [_FENCE], _FENCE_PARAMETERS + 1, ""
    for part in parts:
        given, first = _given(part, first)
        statement = part.statement.format(given=given, held=_FENCED, conflict="NOTHING")
        written.append(f"{part.name} AS ({statement})")
        if part.returns:
            answers = f" UNION ALL SELECT NULL, * FROM ({part.returns}) AS answers"  # noqa: S608 - a constant of this file
    columns = "number, NULL::bigint AS id, NULL AS workspace, NULL AS fingerprint"
    return f"WITH {', '.join(written)} SELECT {columns} FROM fence{answers}"  # noqa: S608 - constants of this file


@cache
def unfenced_arrivals() -> str:
    """Return the statement that stores callbacks of shards that others may hold."""
    given, _ = _given(ARRIVED, 1)
    arrived = ARRIVED.statement.format(given=given, held="true", conflict=_LOCK)
    return f"WITH arrived AS ({arrived}) {ARRIVED.returns}"


def columns_of(rows: Sequence[Sequence[object]]) -> list[Sequence[object]]:
    """Return rows, at least one, as arrays of their columns."""
    return list(zip(*rows, strict=True))


def _given(part: Part, first: int) -> tuple[str, int]:
    columns = [column.split() for column in part.columns.split(",")]
    arrays = [f"${number}::{type_}[]" for number, (_, type_) in enumerate(columns, first)]
    names = ", ".join(name for name, _ in columns)
    return f"unnest({', '.join(arrays)}) AS given ({names})", first + len(columns)

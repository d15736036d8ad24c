"""The states of runs, active and finished. No query here reads all of them."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime
from itertools import chain, islice
from sqlite3 import Connection

import msgspec
from msgspec import Struct

from monitor.bus.sqlite import codec
from monitor.bus.sqlite.codec import DECODED_AT_ONCE, BulkInsert, JsonQuery
from monitor.model.alerts import PipelineOfKind
from monitor.model.errors import BusSchemaError
from monitor.model.runs import RunKey, RunKind, RunState, Status

RunRow = tuple[str, str, str, str, int, int | None, str | None, str | None, str | None, bytes]

_INSERT = (
    "INSERT INTO run (workspace, kind, id, status, created_at, ended_at, flow_run, plan_run,"
    " pipeline_id, body)"
)
_FOUND_BY = "(status, created_at, ended_at, flow_run, plan_run, pipeline_id)"
_FOUND_BY_NEW = (
    "(excluded.status, excluded.created_at, excluded.ended_at, excluded.flow_run,"
    " excluded.plan_run, excluded.pipeline_id)"
)
# Setting a column writes every index that has it, though the value stays. So it is set only where
# one of them changes, by the second statement.
_STORE_BODY = BulkInsert(
    _INSERT,
    width=10,
    tail="ON CONFLICT (workspace, kind, id) DO UPDATE SET body = excluded.body"
    f" WHERE {_FOUND_BY} IS {_FOUND_BY_NEW}",
)
_STORE_ALL = BulkInsert(
    _INSERT,
    width=10,
    tail="ON CONFLICT (workspace, kind, id) DO UPDATE"
    f" SET {_FOUND_BY} = {_FOUND_BY_NEW}, body = excluded.body"
    f" WHERE {_FOUND_BY} IS NOT {_FOUND_BY_NEW}",
)
_BY_KEY = JsonQuery(
    "SELECT body FROM run WHERE workspace = ? AND kind = ?"
    " AND id IN (SELECT value FROM json_each(?))"
)
_ACTIVE = JsonQuery(
    "SELECT number FROM run WHERE workspace = ? AND kind IN (SELECT value FROM json_each(?))"
    " AND status IN (SELECT value FROM json_each(?)) ORDER BY created_at, number",
    item="number",
)
_EVERY_KIND = codec.encode(list(RunKind)).decode()
_NOT_ENDED = codec.encode([status for status in Status if not status.is_terminal]).decode()
_CHILDREN = {
    RunKind.FLOW_RUN: JsonQuery(
        "SELECT body FROM run WHERE workspace = ? AND flow_run = ? ORDER BY created_at, number"
    ),
    RunKind.PLAN_RUN: JsonQuery(
        "SELECT body FROM run WHERE workspace = ? AND plan_run = ? ORDER BY created_at, number"
    ),
}
# The bounds of created_at are for the index, which finds both ends of a stretch by them.
_PLACE = "'[' || created_at || ',' || number || ']'"
_NEWEST = JsonQuery(
    "SELECT created_at, number FROM run WHERE workspace = ? AND kind = ? AND status = ?"
    " AND created_at >= ? AND created_at <= ? AND (created_at, number) < (?, ?)"
    " ORDER BY created_at DESC, number DESC LIMIT ?",
    item=_PLACE,
)
_NEWEST_OF_PIPELINE = JsonQuery(
    "SELECT created_at, number FROM run WHERE workspace = ? AND kind = ? AND pipeline_id = ?"
    " AND status IN (SELECT value FROM json_each(?))"
    " AND created_at >= ? AND created_at <= ? AND (created_at, number) < (?, ?)"
    " ORDER BY created_at DESC, number DESC LIMIT ?",
    item=_PLACE,
)
# Of each pipeline in its place in the list of pipelines; all of them by one statement.
_OF_PIPELINES = JsonQuery(
    "SELECT (SELECT '[' || coalesce(group_concat(number), '') || ']' FROM (SELECT number FROM run"
    " WHERE workspace = json_extract(wanted.value, '$[0]')"
    " AND kind = json_extract(wanted.value, '$[1]')"
    " AND pipeline_id = json_extract(wanted.value, '$[2]')"
    " AND created_at >= :since AND created_at < :before"
    " ORDER BY created_at DESC, number DESC LIMIT :limit)) AS numbers"
    " FROM json_each(:pipelines) AS wanted ORDER BY wanted.key",
    item="numbers",
)
# Each in its place in the list of numbers.
_BY_NUMBER = JsonQuery(
    "SELECT body FROM json_each(?) AS wanted CROSS JOIN run ON number = wanted.value"
    " ORDER BY wanted.key"
)
_PLACE_OF_RUN = "SELECT created_at, number FROM run WHERE workspace = ? AND kind = ? AND id = ?"
_EARLIEST, _LATEST = -(2**63), 2**63 - 1
_LAST_PLACE = (_LATEST, _LATEST)
_decode_numbers = msgspec.json.Decoder(list[int]).decode
_decode_lists_of_numbers = msgspec.json.Decoder(list[list[int]]).decode
_decode_newest = msgspec.json.Decoder(list[tuple[int, int]]).decode


class RecentRuns(Struct, frozen=True, kw_only=True):
    """What is asked of `EventBus.recent_runs`."""

    workspaces: frozenset[str] | None
    kind: RunKind | None
    statuses: tuple[Status, ...]
    pipelines: tuple[PipelineOfKind, ...] | None
    since: datetime | None
    until: datetime | None
    before: RunKey | None
    limit: int


def rows(runs: Iterable[RunState]) -> list[RunRow]:
    return [_row(run) for run in runs]


def store(db: Connection, runs: Iterable[RunRow]) -> None:
    """Write the states over the ones that are stored; of two for one run the later counts."""
    new = list({row[:3]: row for row in runs}.values())
    before = db.total_changes
    _STORE_BODY.run(db, new)
    if db.total_changes - before < len(new):
        _STORE_ALL.run(db, new)


def by_key(db: Connection, keys: Collection[RunKey]) -> dict[RunKey, RunState]:
    ids: defaultdict[tuple[str, RunKind], list[str]] = defaultdict(list)
    for key in keys:
        ids[key.workspace, key.kind].append(key.id)
    found: dict[RunKey, RunState] = {}
    for (workspace, kind), run_ids in ids.items():
        for start in range(0, len(run_ids), DECODED_AT_ONCE):
            piece = codec.encode(run_ids[start : start + DECODED_AT_ONCE])
            bodies = _BY_KEY.fetch(db, (workspace, kind, piece))
            found.update((run.key, run) for run in codec.decode_runs(bodies))
    if strange := found.keys() - set(keys):
        raise BusSchemaError(f"a stored run has the key {strange.pop()}, which was not asked for")
    return found


def active(db: Connection, workspace: str) -> list[RunState]:
    return _by_number(db, _decode_numbers(_ACTIVE.fetch(db, (workspace, _EVERY_KIND, _NOT_ENDED))))


def children(db: Connection, key: RunKey) -> list[RunState]:
    query = _CHILDREN.get(key.kind)
    if query is None:
        return []
    return codec.decode_runs(query.fetch(db, (key.workspace, key.id)))


def recent(db: Connection, wanted: RecentRuns) -> list[RunState]:
    """Merge the newest of each workspace, kind and status: a filter that fits few costs little."""
    place = _LAST_PLACE
    if wanted.before is not None:
        key = wanted.before
        found = db.execute(_PLACE_OF_RUN, (key.workspace, key.kind, key.id)).fetchone()
        if found is None:
            return []
        place = found
    if wanted.until is not None:
        place = min(place, (codec.microseconds(wanted.until), _EARLIEST))
    earliest = _EARLIEST if wanted.since is None else codec.microseconds(wanted.since)
    bounds = (earliest, place[0], *place, wanted.limit)
    newest: list[tuple[int, int]] = []
    for query, values in _queries(db, wanted):
        newest += _decode_newest(query.fetch(db, (*values, *bounds)))
    numbers = [number for _, number in heapq.nlargest(wanted.limit, newest)]
    return _by_number(db, numbers)


def _queries(db: Connection, wanted: RecentRuns) -> Iterator[tuple[JsonQuery, tuple[str, ...]]]:
    """Yield what is to be merged: each query goes through one stretch of an index."""
    workspaces, kind, statuses = wanted.workspaces, wanted.kind, wanted.statuses or tuple(Status)
    if wanted.pipelines is not None:
        words = codec.encode(statuses).decode()
        for pipeline in set(wanted.pipelines):
            is_among = workspaces is None or pipeline[0] in workspaces
            if is_among and kind in (None, pipeline[1]):
                yield _NEWEST_OF_PIPELINE, (*pipeline, words)
        return
    for workspace in _workspaces(db) if workspaces is None else workspaces:
        for run_kind in RunKind if kind is None else (kind,):
            for run_status in set(statuses):
                yield _NEWEST, (workspace, run_kind, run_status)


def of_pipelines(
    db: Connection,
    pipelines: Collection[PipelineOfKind],
    *,
    since: datetime | None,
    before: datetime | None,
    limit: int,
) -> dict[PipelineOfKind, list[RunState]]:
    unique = list(dict.fromkeys(pipelines))
    found = _OF_PIPELINES.fetch(
        db,
        {
            "pipelines": codec.encode(unique),
            "since": codec.microseconds(since) if since is not None else _EARLIEST,
            "before": codec.microseconds(before) if before is not None else _LATEST,
            "limit": limit,
        },
    )
    numbers = dict(zip(unique, _decode_lists_of_numbers(found), strict=True))
    wanted = list(chain.from_iterable(numbers.values()))
    states = iter(_by_number(db, wanted))
    return {pipeline: list(islice(states, len(newest))) for pipeline, newest in numbers.items()}


def _by_number(db: Connection, numbers: Sequence[int]) -> list[RunState]:
    found: list[RunState] = []
    for start in range(0, len(numbers), DECODED_AT_ONCE):
        piece = codec.encode(numbers[start : start + DECODED_AT_ONCE])
        found += codec.decode_runs(_BY_NUMBER.fetch(db, (piece,)))
    return found


def _row(run: RunState) -> RunRow:
    begun_at = run.created_at or run.started_at or run.finished_at or run.confirmed_at
    ended_at = None
    if run.status.is_terminal:
        ended_at = codec.microseconds(run.finished_at or run.updated_at or run.confirmed_at)
    return (
        run.key.workspace,
        run.key.kind,
        run.key.id,
        run.status,
        codec.microseconds(begun_at),
        ended_at,
        run.parents.flow_run,
        run.parents.plan_run,
        run.pipeline.id if run.pipeline is not None else None,
        codec.encode(run),
    )


def _workspaces(db: Connection) -> Iterator[str]:
    # Jumps from name to name through the index; SELECT DISTINCT would read every entry.
    name = ""
    while True:
        (name,) = db.execute(
            "SELECT min(workspace) FROM run WHERE workspace > ?", (name,)
        ).fetchone()
        if name is None:
            return
        yield name

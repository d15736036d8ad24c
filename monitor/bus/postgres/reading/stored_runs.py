"""The states of runs, active and finished, of all shards. No query here reads all of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

from monitor.bus.contract import Recorded
from monitor.bus.postgres import codec
from monitor.bus.postgres.connections.reader import Reading
from monitor.model.alerts import PipelineOfKind
from monitor.model.errors import BusSchemaError
from monitor.model.runs import RunKey, RunKind, RunState, Status

_BY_KEY = (
    "SELECT run.body FROM unnest($1::text[], $2::text[], $3::text[]) AS given (workspace, kind, id)"
    " JOIN run ON run.workspace = given.workspace AND run.kind = given.kind AND run.id = given.id"
)
_ACTIVE = (
    "SELECT body FROM run WHERE workspace = $1 AND ended_at IS NULL ORDER BY created_at, number"
)
_CHILDREN = {
    RunKind.FLOW_RUN: "SELECT body FROM run WHERE workspace = $1 AND flow_run = $2"
    " ORDER BY created_at, number",
    RunKind.PLAN_RUN: "SELECT body FROM run WHERE workspace = $1 AND plan_run = $2"
    " ORDER BY created_at, number",
}
_PLACE_OF_RUN = "SELECT created_at, number FROM run WHERE workspace = $1 AND kind = $2 AND id = $3"
# The newest of each stretch of an index, then the newest of all of these. The bounds of created_at
# are for the index, which finds both ends of a stretch by them.
_BOUNDS = (
    " AND run.created_at >= $1 AND run.created_at <= $2 AND (run.created_at, run.number) < ($2, $3)"
    " ORDER BY run.created_at DESC, run.number DESC LIMIT $4) AS newest"
)
_MERGED = " ORDER BY newest.created_at DESC, newest.number DESC LIMIT $4"
_NEWEST_OF_ALL = (
    "SELECT newest.body FROM unnest($5::text[]) AS kinds (kind), unnest($6::text[])"  # noqa: S608 - constants of this file
    " AS statuses (status), LATERAL (SELECT * FROM run WHERE run.kind = kinds.kind"
    f" AND run.status = statuses.status{_BOUNDS}{_MERGED}"
)
_NEWEST_OF_WORKSPACES = (
    "SELECT newest.body FROM unnest($5::text[]) AS kinds (kind), unnest($6::text[])"  # noqa: S608 - constants of this file
    " AS statuses (status), unnest($7::text[]) AS workspaces (workspace), LATERAL (SELECT * FROM"
    " run WHERE run.workspace = workspaces.workspace"
    f" AND run.kind = kinds.kind AND run.status = statuses.status{_BOUNDS}{_MERGED}"
)
_NEWEST_OF_PIPELINES = (
    "SELECT newest.body FROM unnest($5::text[], $6::text[], $7::text[])"  # noqa: S608 - constants of this file
    " AS given (workspace, kind, id), LATERAL (SELECT * FROM run"
    " WHERE run.workspace = given.workspace AND run.kind = given.kind"
    f" AND run.pipeline_id = given.id AND run.status = ANY ($8::text[]){_BOUNDS}{_MERGED}"
)
_OF_PIPELINES = (
    "SELECT given.place, newest.body FROM unnest($1::text[], $2::text[], $3::text[])"
    " WITH ORDINALITY AS given (workspace, kind, id, place), LATERAL (SELECT * FROM run"
    " WHERE run.workspace = given.workspace AND run.kind = given.kind"
    " AND run.pipeline_id = given.id AND run.created_at >= $4 AND run.created_at < $5"
    " ORDER BY run.created_at DESC, run.number DESC LIMIT $6) AS newest"
    " ORDER BY given.place, newest.created_at DESC, newest.number DESC"
)
_STATE_ENTRIES = "SELECT key, value FROM state_entry WHERE workspace = $1 AND topic = $2"
_EVENTS_BY_ID = "SELECT position, epoch, body FROM event WHERE id = ANY ($1::text[])"
_EARLIEST, _LATEST = -(2**63), 2**63 - 1


class StoredPostgresRuns:
    """Reads what is known of runs in any shard, whichever daemon holds it."""

    def __init__(self, reader: Reading) -> None:
        self._reader = reader

    async def runs(self, keys: Collection[RunKey]) -> dict[RunKey, RunState]:
        unique = list(dict.fromkeys(keys))
        if not unique:
            return {}
        states = await self._states(
            _BY_KEY,
            [codec.text(key.workspace) for key in unique],
            [key.kind for key in unique],
            [codec.text(key.id) for key in unique],
        )
        found = {run.key: run for run in states}
        if strange := found.keys() - set(unique):
            raise BusSchemaError(
                f"a stored run has the key {strange.pop()}, which was not asked for"
            )
        return found

    async def active_runs(self, workspace: str) -> list[RunState]:
        return await self._states(_ACTIVE, codec.text(workspace))

    async def recent_runs(
        self,
        *,
        workspaces: Collection[str] | None = None,
        kind: RunKind | None = None,
        statuses: Collection[Status] = (),
        pipelines: Collection[PipelineOfKind] | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        before: RunKey | None = None,
        limit: int,
    ) -> list[RunState]:
        place = (_LATEST, _LATEST)
        if before is not None:
            key = (codec.text(before.workspace), before.kind, codec.text(before.id))
            rows = await self._reader.fetch(_PLACE_OF_RUN, *key)
            if not rows:
                return []
            place = (rows[0]["created_at"], rows[0]["number"])
        if until is not None:
            place = min(place, (codec.microseconds(until), _EARLIEST))
        earliest = _EARLIEST if since is None else codec.microseconds(since)
        bounds = (earliest, *place, limit)
        named_statuses = list(dict.fromkeys(statuses or Status))
        if pipelines is not None:
            fitting = [
                pipeline
                for pipeline in dict.fromkeys(pipelines)
                if (workspaces is None or pipeline[0] in workspaces) and kind in (None, pipeline[1])
            ]
            named = _pipeline_columns(fitting)
            return await self._states(_NEWEST_OF_PIPELINES, *bounds, *named, named_statuses)
        kinds = list(RunKind) if kind is None else [kind]
        if workspaces is None:
            return await self._states(_NEWEST_OF_ALL, *bounds, kinds, named_statuses)
        names = [codec.text(name) for name in dict.fromkeys(workspaces)]
        return await self._states(_NEWEST_OF_WORKSPACES, *bounds, kinds, named_statuses, names)

    async def pipeline_runs(
        self,
        pipelines: Collection[PipelineOfKind],
        *,
        limit: int,
        since: datetime | None = None,
        before: datetime | None = None,
    ) -> dict[PipelineOfKind, list[RunState]]:
        unique = list(dict.fromkeys(pipelines))
        rows = await self._reader.fetch(
            _OF_PIPELINES,
            *_pipeline_columns(unique),
            codec.microseconds(since) if since is not None else _EARLIEST,
            codec.microseconds(before) if before is not None else _LATEST,
            limit,
        )
        states = await codec.decode_all([row["body"] for row in rows], codec.decode_run)
        by_place: defaultdict[int, list[RunState]] = defaultdict(list)
        for row, state in zip(rows, states, strict=True):
            by_place[row["place"]].append(state)
        return {pipeline: by_place[place] for place, pipeline in enumerate(unique, 1)}

    async def children(self, key: RunKey) -> list[RunState]:
        statement = _CHILDREN.get(key.kind)
        if statement is None:
            return []
        return await self._states(statement, codec.text(key.workspace), codec.text(key.id))

    async def state_entries(self, workspace: str, topic: str) -> dict[str, bytes]:
        rows = await self._reader.fetch(_STATE_ENTRIES, codec.text(workspace), codec.text(topic))
        return {codec.read_text(row["key"]): row["value"] for row in rows}

    async def events_by_id(self, ids: Collection[str]) -> dict[str, Recorded]:
        rows = await self._reader.fetch(_EVENTS_BY_ID, [codec.text(id_) for id_ in ids])
        events = await codec.decode_all([row["body"] for row in rows], codec.decode_event)
        return {
            event.id: Recorded(row["position"], event, row["epoch"])
            for row, event in zip(rows, events, strict=True)
        }

    async def _states(self, statement: str, *values: Any) -> list[RunState]:
        rows = await self._reader.fetch(statement, *values)
        return await codec.decode_all([row["body"] for row in rows], codec.decode_run)


def _pipeline_columns(
    pipelines: Sequence[PipelineOfKind],
) -> tuple[list[str], list[str], list[str]]:
    return (
        [codec.text(pipeline[0]) for pipeline in pipelines],
        [pipeline[1] for pipeline in pipelines],
        [codec.text(pipeline[2]) for pipeline in pipelines],
    )

"""What the workspace of one world refuses and leaves out at a time. Pure."""

from __future__ import annotations

import zlib
from collections.abc import Mapping

from tests.worlds.impairments import Hiding, ListName, QueryKind, Refusal, Span
from tests.worlds.script import World
from tests.worlds.served import Written

_RUNS = frozenset({"jobGroups", "flowRuns", "planSnapshotRuns"})
_ALWAYS_SERVED = "open-api-spec"  # every edition serves it, to everybody


class Impaired:
    """Answers for each request what of the truth it may show."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._flows = {
            **{("flows", flow.id): flow.id for flow in world.flows},
            **{("jobGroups", group.id): group.flow for group in world.job_groups},
            **{("flowRuns", run.id): run.flow for run in world.flow_runs},
        }

    def refusal(self, parts: list[str], at: float) -> Refusal | None:
        """Return how a path is refused, None where it is served."""
        path = "/".join(parts)
        if path == _ALWAYS_SERVED:
            return None
        for withdrawal in self._world.withdrawals:
            is_named = withdrawal.with_objects or path in withdrawal.lists
            if is_named and _is_in(withdrawal.span, at):
                return withdrawal.refusal
        if len(parts) > 1 and parts[1].isdigit():
            return self._refusal_of_object(parts[0], int(parts[1]), at)
        return None

    def kept(
        self, name: ListName, query: QueryKind, written: list[Written], at: float
    ) -> list[Written]:
        """Return the rows of a list that an answer to such a query shows."""
        kind = "jobGroups" if name is ListName.JOB_GROUPS else name.value
        shown = [row for row in written if not self._hiding(kind, row[0]["id"], at)]
        for short in self._world.short_lists:
            if short.list_name is name and query in short.queries and _is_in(short.span, at):
                shown = [row for row in shown if _is_kept(row[0]["id"], short.share_kept)]
        return shown

    def is_hidden(self, flow_id: int, at: float) -> bool:
        """True where a flow is hidden with its runs."""
        return self._hiding(ListName.FLOWS, flow_id, at) is not None

    def _refusal_of_object(self, kind: str, object_id: int, at: float) -> Refusal | None:
        if kind == "schedules" and at >= self._world.other_person_from:
            return Refusal.FORBIDDEN
        hiding = self._hiding(kind, object_id, at)
        return None if hiding is None else hiding.refusal

    def _hiding(self, kind: str, object_id: int, at: float) -> Hiding | None:
        flow = self._flows.get((kind, object_id))
        for hiding in self._world.hidings:
            is_hidden = kind in _RUNS if hiding.flows is None else flow in hiding.flows
            if is_hidden and _is_in(hiding.span, at):
                return hiding
        return None


def query_kind(query: Mapping[str, str]) -> QueryKind:
    """Return what a request for a list asks for."""
    if "status" in query:
        return QueryKind.STATUS
    if "dateFilter[updatedAt][gte]" in query:
        return QueryKind.CHANGES
    return QueryKind.CREATED if "dateFilter[createdAt][gte]" in query else QueryKind.ALL


def _is_in(span: Span, at: float) -> bool:
    return span.begin <= at < span.end


def _is_kept(object_id: int, share: float) -> bool:
    return zlib.crc32(str(object_id).encode()) % 100 < share * 100

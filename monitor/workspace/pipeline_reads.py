"""Reads of what runs and when: flows, recipes, plans, folders and schedules.

Every method may raise any `WorkspaceError`; an answer that cannot be read is an
`UnreadableAnswerError`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from monitor.workspace import row_kinds
from monitor.workspace.list_reads import ListReader
from monitor.workspace.payloads import (
    FlowRow,
    FolderRow,
    Page,
    PlanFull,
    PlanRow,
    RecipeRow,
    ScheduleRow,
)
from monitor.workspace.priority import Priority
from monitor.workspace.requester import Requester, decoded


class PipelineReader:
    """Reads pipelines, where they lie and when they start."""

    def __init__(self, requester: Requester, lists: ListReader) -> None:
        self._requester = requester
        self._lists = lists

    def plans(
        self, *, priority: Priority, wait_seconds: float = 30.0
    ) -> AsyncIterator[Page[PlanRow]]:
        """Read the plans of everybody that the token may see."""
        query = {"ownershipFilter": "all"}
        return self._lists.pages("listPlans", row_kinds.PLAN, query, priority, wait_seconds)

    async def plan_full(
        self, plan_id: str, *, priority: Priority, wait_seconds: float = 30.0
    ) -> PlanFull:
        """Read a plan or a snapshot whole; what cannot be read of its nodes is left out."""
        answer = await self._requester.request(
            "readFull", plan_id, priority=priority, wait_seconds=wait_seconds
        )
        return decoded(row_kinds.PLAN_FULL, answer, "readFull")

    def flows(
        self, *, priority: Priority, wait_seconds: float = 30.0
    ) -> AsyncIterator[Page[FlowRow]]:
        """Read the flows of everybody that the token may see."""
        return self._lists.pages(
            "listFlows", row_kinds.FLOW, {"flowsFilter": "all"}, priority, wait_seconds
        )

    async def flow(
        self, flow_id: str, *, priority: Priority, wait_seconds: float = 30.0
    ) -> FlowRow:
        """Read one flow."""
        answer = await self._requester.request(
            "getFlow", flow_id, priority=priority, wait_seconds=wait_seconds
        )
        return decoded(row_kinds.FLOW, answer, "getFlow")

    def folders(
        self, *, priority: Priority, wait_seconds: float = 30.0
    ) -> AsyncIterator[Page[FolderRow]]:
        """Read the folders that the token may see."""
        return self._lists.pages("listFolders", row_kinds.FOLDER, {}, priority, wait_seconds)

    def recipes(
        self, *, priority: Priority, wait_seconds: float = 30.0
    ) -> AsyncIterator[Page[RecipeRow]]:
        """Read the recipes that the token may see, with their names."""
        query = {"embed": "recipe"}
        return self._lists.pages(
            "listWrangledDatasets", row_kinds.RECIPE, query, priority, wait_seconds
        )

    def schedules(
        self, *, priority: Priority, wait_seconds: float = 30.0
    ) -> AsyncIterator[Page[ScheduleRow]]:
        """Read the schedules of the token's owner; the API shows no others."""
        return self._lists.pages("listSchedules", row_kinds.SCHEDULE, {}, priority, wait_seconds)

    async def schedule(
        self, schedule_id: str, *, priority: Priority, wait_seconds: float = 30.0
    ) -> ScheduleRow:
        """Read one schedule."""
        answer = await self._requester.request(
            "getSchedule", schedule_id, priority=priority, wait_seconds=wait_seconds
        )
        return decoded(row_kinds.SCHEDULE, answer, "getSchedule")

"""The typed operations of one workspace that the monitor uses.

Lists are asked for in pages of our own size, in ascending ids, and with the owner-only defaults
of the API widened; see `paging` for what that guarantees. Every method may raise any
`WorkspaceError`; an answer that cannot be read is an `UnreadableAnswerError`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from datetime import datetime
from http import HTTPStatus
from random import Random
from typing import TypeVar

import structlog
from prometheus_client import CollectorRegistry

from monitor.model.clock import Clock
from monitor.model.errors import RequestRejectedError
from monitor.workspace import rows
from monitor.workspace.calling import Caller
from monitor.workspace.decoding import RowKind, Rows, decode_rows, decode_text
from monitor.workspace.inventory_requests import CONNECTION, ConnectionRow, InventoryRequester
from monitor.workspace.paging import read_pages
from monitor.workspace.payloads import (
    AccessTokenRow,
    FlowRow,
    FlowRunRow,
    FolderRow,
    JobGroupRow,
    JobRow,
    Page,
    PersonRow,
    PlanFull,
    PlanRow,
    PlanRunRow,
    ScheduleRow,
)
from monitor.workspace.priority import Priority
from monitor.workspace.requesting import Answer, QueryValue, decoded, reading
from monitor.workspace.settings import WorkspaceSettings
from monitor.workspace.specification import operations_in

__all__ = ["Answer", "Priority", "WorkspaceClient"]

log = structlog.get_logger()

T = TypeVar("T")

# From the most telling to none: a workspace refuses an embed that it does not know.
_EMBEDS: tuple[str | None, ...] = (
    "wrangledDataset.flow,wrangledDataset.recipe",
    "wrangledDataset.flow",
    None,
)


class WorkspaceClient(InventoryRequester, Caller):
    """Reads one workspace. See `Requester` for the turn, the tries and the errors.

    What has no method of its own here is called by `request`, `rows` and `download`.
    """

    def __init__(
        self,
        settings: WorkspaceSettings,
        *,
        clock: Clock,
        registry: CollectorRegistry,
        random: Random | None = None,
    ) -> None:
        super().__init__(settings, clock=clock, registry=registry, random=random)
        self._embeds = _EMBEDS

    def job_library(
        self,
        *,
        updated_since: datetime | None = None,
        created_since: datetime | None = None,
        status: str | None = None,
        priority: Priority,
        wait_seconds: float = 30.0,
    ) -> AsyncIterator[Page[JobGroupRow]]:
        """Read the job groups of everybody that match; ``status`` is the workspace's word."""
        query = _run_query(updated_since, created_since, status)
        return self._pages("listJobLibrary", rows.JOB_GROUP, query, priority, wait_seconds)

    async def job_group(
        self,
        job_group_id: str,
        *,
        with_flow: bool = False,
        priority: Priority,
        wait_seconds: float = 30.0,
    ) -> JobGroupRow:
        """Read one job group, ``with_flow`` with its flow and recipe as far as can be had."""
        embeds = self._embeds if with_flow else (None,)
        for number, embed in enumerate(embeds):
            try:
                answer = await self.request(
                    "getJobGroup",
                    job_group_id,
                    query=None if embed is None else {"embed": embed},
                    priority=priority,
                    wait_seconds=wait_seconds,
                )
            except RequestRejectedError as error:
                # 400 comes for an unknown embed, and for an unknown id as well.
                if embed is None or error.status_code != HTTPStatus.BAD_REQUEST:
                    raise
                continue
            if with_flow:
                self._embeds = embeds[number:]
            break
        return decoded(rows.JOB_GROUP, answer, "getJobGroup")

    async def jobs(
        self, job_group_id: str, *, priority: Priority, wait_seconds: float = 30.0
    ) -> tuple[JobRow, ...]:
        """Read the job records of one job group; those that cannot be read are left out."""
        answer = await self.request(
            "getJobsForJobGroup", job_group_id, priority=priority, wait_seconds=wait_seconds
        )
        found = _listed(answer, rows.JOB, "getJobsForJobGroup")
        if found.bad_rows:
            log.warning(
                "job records cannot be read",
                workspace=self.name,
                job_group=job_group_id,
                unreadable=len(found.bad_rows),
                reason=found.bad_rows[0].reason,
            )
        return found.rows

    async def flow_run(
        self, flow_run_id: str, *, priority: Priority, wait_seconds: float = 30.0
    ) -> FlowRunRow:
        """Read one flow run. It has no status of its own; see `flow_run_status`."""
        answer = await self.request(
            "getFlowRun", flow_run_id, priority=priority, wait_seconds=wait_seconds
        )
        return decoded(rows.FLOW_RUN, answer, "getFlowRun")

    async def flow_run_status(
        self, flow_run_id: str, *, priority: Priority, wait_seconds: float = 30.0
    ) -> str:
        """Read the workspace's own word for where a flow run is."""
        answer = await self.request(
            "getFlowRunStatus", flow_run_id, priority=priority, wait_seconds=wait_seconds
        )
        with reading("getFlowRunStatus"):
            return decode_text(answer.body)

    async def flow_run_job_groups(
        self, flow_run_id: str, *, priority: Priority, wait_seconds: float = 30.0
    ) -> Page[JobGroupRow]:
        """Read the job groups that a flow run has so far; more may appear while it runs."""
        answer = await self.request(
            "getFlowRunJobGroups", flow_run_id, priority=priority, wait_seconds=wait_seconds
        )
        found = _listed(answer, rows.JOB_GROUP, "getFlowRunJobGroups")
        return Page(rows=found.rows, bad_rows=found.bad_rows, began_at=answer.began_at)

    def plan_runs(
        self,
        *,
        updated_since: datetime | None = None,
        created_since: datetime | None = None,
        status: str | None = None,
        priority: Priority,
        wait_seconds: float = 30.0,
    ) -> AsyncIterator[Page[PlanRunRow]]:
        """Read the plan runs of everybody that match; ``status`` is the workspace's word."""
        query = _run_query(updated_since, created_since, status)
        return self._pages("listPlanSnapshotRuns", rows.PLAN_RUN, query, priority, wait_seconds)

    async def plan_run(
        self, plan_run_id: str, *, priority: Priority, wait_seconds: float = 30.0
    ) -> PlanRunRow:
        """Read one plan run."""
        answer = await self.request(
            "getPlanSnapshotRun", plan_run_id, priority=priority, wait_seconds=wait_seconds
        )
        return decoded(rows.PLAN_RUN, answer, "getPlanSnapshotRun")

    def plans(
        self, *, priority: Priority, wait_seconds: float = 30.0
    ) -> AsyncIterator[Page[PlanRow]]:
        """Read the plans of everybody that the token may see."""
        query = {"ownershipFilter": "all"}
        return self._pages("listPlans", rows.PLAN, query, priority, wait_seconds)

    async def plan_full(
        self, plan_id: str, *, priority: Priority, wait_seconds: float = 30.0
    ) -> PlanFull:
        """Read a plan or a snapshot whole; what cannot be read of its nodes is left out."""
        answer = await self.request(
            "readFull", plan_id, priority=priority, wait_seconds=wait_seconds
        )
        return decoded(rows.PLAN_FULL, answer, "readFull")

    def flows(
        self, *, priority: Priority, wait_seconds: float = 30.0
    ) -> AsyncIterator[Page[FlowRow]]:
        """Read the flows of everybody that the token may see."""
        return self._pages("listFlows", rows.FLOW, {"flowsFilter": "all"}, priority, wait_seconds)

    def folders(
        self, *, priority: Priority, wait_seconds: float = 30.0
    ) -> AsyncIterator[Page[FolderRow]]:
        """Read the folders that the token may see."""
        return self._pages("listFolders", rows.FOLDER, {}, priority, wait_seconds)

    def schedules(
        self, *, priority: Priority, wait_seconds: float = 30.0
    ) -> AsyncIterator[Page[ScheduleRow]]:
        """Read the schedules of the token's owner; the API shows nobody else's."""
        return self._pages("listSchedules", rows.SCHEDULE, {}, priority, wait_seconds)

    def connections(
        self, *, priority: Priority, wait_seconds: float = 30.0
    ) -> AsyncIterator[Page[ConnectionRow]]:
        """Read the connections that the token may see."""
        return self._pages("listConnections", CONNECTION, {}, priority, wait_seconds)

    async def current_person(self, *, priority: Priority, wait_seconds: float = 30.0) -> PersonRow:
        """Read whose token this is."""
        answer = await self.request(
            "getCurrentPerson", priority=priority, wait_seconds=wait_seconds
        )
        return decoded(rows.PERSON, answer, "getCurrentPerson")

    async def access_tokens(
        self, *, priority: Priority, wait_seconds: float = 30.0
    ) -> tuple[AccessTokenRow, ...]:
        """Read the readable tokens of the person whose token this is; ours is among them."""
        answer = await self.request(
            "listApiAccessTokens", priority=priority, wait_seconds=wait_seconds
        )
        return _listed(answer, rows.ACCESS_TOKEN, "listApiAccessTokens").rows

    async def open_api_spec(
        self, *, priority: Priority, wait_seconds: float = 30.0
    ) -> frozenset[tuple[str, str]]:
        """Read which methods and paths the served document names; see `operations_in`."""
        answer = await self.request("getOpenApiSpec", priority=priority, wait_seconds=wait_seconds)
        with reading("getOpenApiSpec"):
            return operations_in(answer.body)

    def _pages(
        self,
        operation_id: str,
        kind: RowKind[T],
        query: Mapping[str, QueryValue],
        priority: Priority,
        wait_seconds: float,
    ) -> AsyncIterator[Page[T]]:
        async def ask(limit: int, offset: int) -> tuple[Rows[T], datetime | None]:
            asked = {"limit": limit, "offset": offset, **query}
            answer = await self.ask_sorted(
                operation_id, query=asked, priority=priority, wait_seconds=wait_seconds
            )
            return _listed(answer, kind, operation_id), answer.began_at

        return read_pages(
            ask,
            page_size=self.settings.page_size,
            page_limit=self.settings.page_limit,
            operation_id=operation_id,
        )


def _run_query(
    updated_since: datetime | None, created_since: datetime | None, status: str | None
) -> dict[str, QueryValue]:
    query: dict[str, QueryValue] = {"runBy": "all"}
    if updated_since is not None:
        query["dateFilter[updatedAt][gte]"] = _milliseconds(updated_since)
    if created_since is not None:
        query["dateFilter[createdAt][gte]"] = _milliseconds(created_since)
    if status is not None:
        query["status"] = status
    return query


def _milliseconds(at: datetime) -> int:
    return int(at.timestamp() * 1000)


def _listed(answer: Answer, kind: RowKind[T], operation_id: str) -> Rows[T]:
    with reading(operation_id):
        return decode_rows(answer.body, kind)

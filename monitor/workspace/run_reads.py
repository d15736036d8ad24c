"""Reads of runs: job groups with their job records, flow runs and plan runs.

Every method may raise any `WorkspaceError`; an answer that cannot be read is an
`UnreadableAnswerError`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from datetime import datetime
from http import HTTPStatus

import structlog

from monitor.model.errors import RequestRejectedError
from monitor.workspace import row_kinds
from monitor.workspace.decoding import IsKnown, decode_text
from monitor.workspace.list_reads import ListReader, listed
from monitor.workspace.payloads import (
    FlowRunRow,
    JobGroupRow,
    JobRow,
    JobsPage,
    Page,
    PlanRunRow,
    RowHead,
)
from monitor.workspace.priority import Priority
from monitor.workspace.requester import Requester, decoded, reading
from monitor.workspace.transport import QueryValue

log = structlog.get_logger()

# From the most informative to none: a workspace refuses an embed that it does not know.
_EMBEDS: tuple[str | None, ...] = (
    "wrangledDataset.flow,wrangledDataset.recipe",
    "wrangledDataset.flow",
    None,
)


class RunReader:
    """Reads the runs of everybody that the token may see."""

    def __init__(self, requester: Requester, lists: ListReader) -> None:
        self._requester = requester
        self._lists = lists
        self._embeds = _EMBEDS

    def job_library(
        self,
        *,
        updated_since: datetime | None = None,
        created_since: datetime | None = None,
        status: str | None = None,
        is_known: IsKnown | None = None,
        newest_first: bool = False,
        priority: Priority,
        wait_seconds: float = 30.0,
    ) -> AsyncIterator[Page[JobGroupRow]]:
        """Read the job groups of everybody that match; ``status`` is the workspace's word.

        ``is_known`` recognises rows that need not be read in full. ``newest_first``: see
        `ListReader.pages`.
        """
        query = _run_query(updated_since, created_since, status)
        return self._lists.pages(
            "listJobLibrary",
            row_kinds.JOB_GROUP,
            query,
            priority,
            wait_seconds,
            is_known=is_known,
            newest_first=newest_first,
        )

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
                answer = await self._requester.request(
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
        return decoded(row_kinds.JOB_GROUP, answer, "getJobGroup")

    async def jobs(
        self, job_group_id: str, *, priority: Priority, wait_seconds: float = 30.0
    ) -> tuple[JobRow, ...]:
        """Read the job records of one job group; those that cannot be read are left out."""
        answer = await self._requester.request(
            "getJobsForJobGroup", job_group_id, priority=priority, wait_seconds=wait_seconds
        )
        page = await listed(answer, row_kinds.JOB, "getJobsForJobGroup")
        if page.bad_rows:
            log.warning(
                "job records cannot be read",
                workspace=self._requester.name,
                job_group=job_group_id,
                unreadable=len(page.bad_rows),
                reason=page.bad_rows[0].reason,
            )
        return page.rows

    async def jobs_of_many(
        self,
        wanted: Collection[str],
        *,
        offset: int,
        newest_first: bool = False,
        priority: Priority,
        wait_seconds: float = 30.0,
    ) -> JobsPage:
        """Read a page of all job groups by their ids, with the job records of those wanted.

        The list has no filter that names ids, so the caller must know where they stand in it.
        """
        page_size = self._requester.settings.page_size
        query: dict[str, QueryValue] = {
            "embed": "jobs",
            "sort": "-id" if newest_first else "id",
            "limit": page_size,
            "offset": offset,
        }
        if newest_first:
            query["includeCount"] = "true"
        answer = await self._requester.request(
            "listJobGroups", query=query, priority=priority, wait_seconds=wait_seconds
        )
        ids: list[str] = []

        def is_other(head: RowHead) -> bool:
            ids.append(head.id)
            return head.id not in wanted

        page = await listed(
            answer,
            row_kinds.JOB_GROUP_JOBS,
            "listJobGroups",
            most_rows=page_size,
            is_known=is_other,
        )
        return JobsPage(ids=tuple(ids), rows=page.rows, count=page.count, began_at=answer.began_at)

    async def flow_run(
        self, flow_run_id: str, *, priority: Priority, wait_seconds: float = 30.0
    ) -> FlowRunRow:
        """Read one flow run. It has no status of its own; see `flow_run_status`."""
        answer = await self._requester.request(
            "getFlowRun", flow_run_id, priority=priority, wait_seconds=wait_seconds
        )
        return decoded(row_kinds.FLOW_RUN, answer, "getFlowRun")

    async def flow_run_status(
        self, flow_run_id: str, *, priority: Priority, wait_seconds: float = 30.0
    ) -> str:
        """Read the workspace's own word for where a flow run is."""
        answer = await self._requester.request(
            "getFlowRunStatus", flow_run_id, priority=priority, wait_seconds=wait_seconds
        )
        with reading("getFlowRunStatus"):
            return decode_text(answer.body)

    async def flow_run_job_groups(
        self, flow_run_id: str, *, priority: Priority, wait_seconds: float = 30.0
    ) -> Page[JobGroupRow]:
        """Read the job groups that a flow run has so far; more may appear while it runs."""
        answer = await self._requester.request(
            "getFlowRunJobGroups", flow_run_id, priority=priority, wait_seconds=wait_seconds
        )
        page = await listed(answer, row_kinds.JOB_GROUP, "getFlowRunJobGroups")
        return Page(rows=page.rows, bad_rows=page.bad_rows, began_at=answer.began_at)

    def plan_runs(
        self,
        *,
        updated_since: datetime | None = None,
        created_since: datetime | None = None,
        status: str | None = None,
        is_known: IsKnown | None = None,
        newest_first: bool = False,
        priority: Priority,
        wait_seconds: float = 30.0,
    ) -> AsyncIterator[Page[PlanRunRow]]:
        """Read the plan runs of everybody that match; parameters as of `job_library`."""
        query = _run_query(updated_since, created_since, status)
        return self._lists.pages(
            "listPlanSnapshotRuns",
            row_kinds.PLAN_RUN,
            query,
            priority,
            wait_seconds,
            is_known=is_known,
            newest_first=newest_first,
        )

    async def plan_run(
        self, plan_run_id: str, *, priority: Priority, wait_seconds: float = 30.0
    ) -> PlanRunRow:
        """Read one plan run."""
        answer = await self._requester.request(
            "getPlanSnapshotRun", plan_run_id, priority=priority, wait_seconds=wait_seconds
        )
        return decoded(row_kinds.PLAN_RUN, answer, "getPlanSnapshotRun")


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

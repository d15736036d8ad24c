"""The operations that start and cancel runs; sent only where a user asks for it.

Each start carries an execution id. The workspace starts one run for it, so a request that may have
arrived is sent again with the same id, and never without one.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, TypeVar

from monitor.workspace import row_kinds
from monitor.workspace.decoding import RowKind
from monitor.workspace.priority import Priority
from monitor.workspace.requester import Requester, decoded
from monitor.workspace.transport import EXECUTION_ID
from monitor.workspace.webhook_tasks import number_or_text

T = TypeVar("T")


class RunControl:
    """Starts and cancels runs. Every method may raise any `WorkspaceError`."""

    def __init__(self, requester: Requester) -> None:
        self._requester = requester
        self.require_available = requester.require_available

    async def start_flow(
        self, flow_id: str, *, execution_id: str, priority: Priority, wait_seconds: float = 30.0
    ) -> str | None:
        """Run all recipes of a flow and return the id of the flow run.

        None: an earlier request with this execution id has started it. So for all that start.
        """
        return await self._start(
            "runFlow",
            flow_id,
            kind=row_kinds.STARTED_FLOW_RUN,
            body={},
            execution_id=execution_id,
            priority=priority,
            wait_seconds=wait_seconds,
        )

    async def start_recipe(
        self, recipe_id: str, *, execution_id: str, priority: Priority, wait_seconds: float = 30.0
    ) -> str | None:
        """Run one recipe and return the id of the job group."""
        return await self._start(
            "runJobGroup",
            kind=row_kinds.CREATED,
            body={"wrangledDataset": {"id": number_or_text(recipe_id)}},
            execution_id=execution_id,
            priority=priority,
            wait_seconds=wait_seconds,
        )

    async def start_plan(
        self, plan_id: str, *, execution_id: str, priority: Priority, wait_seconds: float = 30.0
    ) -> str | None:
        """Run a plan and return the id of the plan run."""
        return await self._start(
            "runPlan",
            plan_id,
            kind=row_kinds.STARTED_PLAN_RUN,
            body={},
            execution_id=execution_id,
            priority=priority,
            wait_seconds=wait_seconds,
        )

    async def cancel_job_group(
        self, job_group_id: str, *, priority: Priority, wait_seconds: float = 30.0
    ) -> None:
        """Cancel a job group; one that is over stays as it is."""
        await self._requester.request(
            "cancelJobGroup", job_group_id, body={}, priority=priority, wait_seconds=wait_seconds
        )

    async def cancel_plan_run(
        self, plan_run_id: str, *, priority: Priority, wait_seconds: float = 30.0
    ) -> bool:
        """Cancel a plan run; False: the workspace says that jobs of it go on."""
        answer = await self._requester.request(
            "cancelPlanSnapshotRun",
            plan_run_id,
            body={},
            priority=priority,
            wait_seconds=wait_seconds,
        )
        return decoded(row_kinds.CANCELED_PLAN_RUN, answer, "cancelPlanSnapshotRun")

    async def _start(
        self,
        operation_id: str,
        *path_values: str,
        kind: RowKind[T],
        body: dict[str, Any],
        execution_id: str,
        priority: Priority,
        wait_seconds: float,
    ) -> T | None:
        answer = await self._requester.request(
            operation_id,
            *path_values,
            body=body,
            headers={EXECUTION_ID: execution_id},
            priority=priority,
            wait_seconds=wait_seconds,
        )
        if answer.status_code == HTTPStatus.NOT_MODIFIED:
            return None
        return decoded(kind, answer, operation_id)

"""One workspace's API: the reads and calls that the monitor makes, grouped by what they concern.

All of them go through one `Requester`, which spends the budget, retries and checks the answers.
"""

from __future__ import annotations

from random import Random
from types import TracebackType
from typing import Self

from prometheus_client import CollectorRegistry

from monitor.model.clock import Clock
from monitor.model.lease_check import MaySend
from monitor.workspace.access.access_tokens import AccessTokens
from monitor.workspace.calling import OperationCaller
from monitor.workspace.inventory_reads import InventoryReader
from monitor.workspace.list_reads import ListReader
from monitor.workspace.pipeline_reads import PipelineReader
from monitor.workspace.priority import Priority
from monitor.workspace.requester import Answer, Requester
from monitor.workspace.run_control import RunControl
from monitor.workspace.run_reads import RunReader
from monitor.workspace.settings import WorkspaceSettings
from monitor.workspace.webhook_tasks import WebhookTasks

__all__ = ["Answer", "Priority", "WorkspaceClient"]


class WorkspaceClient:
    """One workspace. An async context manager; used from one event loop."""

    def __init__(
        self,
        settings: WorkspaceSettings,
        *,
        clock: Clock,
        registry: CollectorRegistry,
        random: Random | None = None,
        may_send: MaySend | None = None,
        tokens: AccessTokens | None = None,
    ) -> None:
        """``may_send`` is asked right before each request; without it, all are sent.

        ``tokens`` are those of `[workspaces.oauth]`, which only the holder of the shard has.
        """
        self.requester = Requester(
            settings,
            clock=clock,
            registry=registry,
            random=random,
            may_send=may_send,
            tokens=tokens,
        )
        self.settings = settings
        self.name = settings.name
        self.workspace_now = self.requester.time.now  # None before the first answer
        lists = ListReader(self.requester)
        self.runs = RunReader(self.requester, lists)
        self.run_control = RunControl(self.requester)
        self.pipelines = PipelineReader(self.requester, lists)
        self.inventory = InventoryReader(self.requester, lists)
        self.webhook_tasks = WebhookTasks(self.requester)
        self.operations = OperationCaller(self.requester, lists)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Drop the connections; requests under way and later ones fail as unreachable."""
        await self.requester.close()

"""The part of the store that alerting uses. `EventBus` says what each answer means."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from monitor.bus.contract import Batch, Recorded, Start, Step, StoreStatus
from monitor.model.alerts import PipelineOfKind
from monitor.model.runs import RunKey, RunState


class Store(Protocol):
    """The part of `EventBus` that the engine uses; a backtest has its own over recorded events."""

    async def subscribe(self, consumer: str, *, start: Start) -> int:
        """Return the position of the consumer."""

    async def consumer_state(self, consumer: str) -> dict[str, bytes]:
        """Return the rows that the consumer's steps have stored."""

    async def read(self, consumer: str, *, after: int, limit: int) -> Batch:
        """Return the events after a position."""

    async def wait(self, after: int, *, timeout_seconds: float) -> bool:
        """Return True as soon as there are events after a position."""

    async def advance(self, step: Step, *, timeout_seconds: float) -> None:
        """Return once a step is durable."""

    async def status(self) -> StoreStatus:
        """Return the status of the store."""

    async def runs(self, keys: Collection[RunKey]) -> dict[RunKey, RunState]:
        """Return stored runs."""

    async def pipeline_runs(
        self, pipelines: Collection[PipelineOfKind], *, limit: int
    ) -> dict[PipelineOfKind, list[RunState]]:
        """Return the newest stored runs of each pipeline."""

    async def children(self, key: RunKey) -> list[RunState]:
        """Return the runs whose parent is the run."""

    async def events_by_id(self, ids: Collection[str]) -> dict[str, Recorded]:
        """Return events that the log still holds."""

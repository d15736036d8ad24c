"""A store and an output that posts to a receiver; the output runs between start and stop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

import pytest
from prometheus_client import CollectorRegistry

from monitor.bus.contract import DeadLetter, Start, Step
from monitor.bus.sqlite import SqliteBus
from monitor.model.alerts import AlertingSnapshot
from monitor.model.clock import Clock, SystemClock
from monitor.model.events import Event
from monitor.model.reports import Report
from monitor.outputs.delivery import DeliveryMetrics, Output
from monitor.outputs.event_output import DaemonInfo, OutputParts
from monitor.tracking.live_state import LiveState, LiveStateView
from tests.app.eventually import eventually
from tests.clocks import SetClock
from tests.outputs.histories import change

LIMIT_SECONDS = 60.0
# Settings of a delivery whose waits suit a test.
QUICK: dict[str, Any] = {
    "window": 128,
    "attempts": 5,
    "stores_answers_at_once": False,
    "commit_interval_seconds": 0.01,
    "backoff_base_seconds": 0.01,
    "backoff_cap_seconds": 0.05,
    "wait_seconds": 0.5,
}


class Killed(BaseException):
    """The process is killed. No code of ours may catch it."""


class MortalBus:
    """A store as a single process has it: once the process is dead, it stores nothing more."""

    def __init__(self, bus: SqliteBus, *, cut: int | None = None, is_stored: bool = False) -> None:
        """``cut`` is the step at which it dies, counted from 1, before it is stored or after."""
        self._bus = bus
        self._cut = cut
        self._is_stored = is_stored
        self.is_dead = False
        self.steps = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._bus, name)

    async def advance(
        self, step: Step, *, timeout_seconds: float, linger_seconds: float = 0.0
    ) -> None:
        self.steps += 1
        is_cut = self.steps == self._cut
        if not self.is_dead and (not is_cut or self._is_stored):
            await self._bus.advance(
                step, timeout_seconds=timeout_seconds, linger_seconds=linger_seconds
            )
        self.is_dead |= is_cut
        if self.is_dead:
            raise Killed


INFO = DaemonInfo(version="1.2.3", workspaces=("w",), config_hash="abc")


def output_parts(
    *,
    bus: Any,
    clock: Clock,
    registry: CollectorRegistry,
    view: LiveStateView,
    metrics: DeliveryMetrics,
    alerting: Callable[[], AlertingSnapshot],
    report: Callable[[str, datetime], Awaitable[Report]] | None = None,
) -> OutputParts:
    """Return what an output is built from."""
    return OutputParts(
        bus=bus,
        clock=clock,
        registry=registry,
        view=view,
        metrics=metrics,
        info=INFO,
        alerting=alerting,
        report=report or no_report,
    )


async def no_report(name: object, until: object = None) -> Report:
    """Stand in for reports where none is sent."""
    raise AssertionError(f"no output of this test sends the report {name} of {until}")


class RunningOutput(Output, Protocol):
    """What the scenario can run."""

    async def run(self) -> None: ...

    async def drain(self, *, timeout_seconds: float) -> bool: ...


class OutputScenario:
    """``make`` builds the output again for each life, as a new process does."""

    def __init__(self, folder: Path, make: Callable[[OutputScenario], RunningOutput]) -> None:
        self._folder = folder
        self._make = make
        self.clock = SetClock(SystemClock())
        self.snapshot = AlertingSnapshot()
        self.report: Callable[[str, datetime], Awaitable[Report]] | None = None
        self.live_state = LiveState(["w"])
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        path = self._folder / "state.db"
        self.bus = await SqliteBus.open(path, clock=self.clock, registry=CollectorRegistry())
        self.store = MortalBus(self.bus)
        self.output = self._build()
        await self.bus.subscribe(self.output.name, start=Start.NEWEST)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()
        await self.bus.close()

    def _build(self) -> RunningOutput:
        self.registry = CollectorRegistry()
        self.metrics = DeliveryMetrics(self.registry)
        return self._make(self)

    @property
    def parts(self) -> OutputParts:
        """What the output of this life is built from."""
        return output_parts(
            bus=self.store,
            clock=self.clock,
            registry=self.registry,
            view=self.live_state.view,
            metrics=self.metrics,
            alerting=lambda: self.snapshot,
            report=self.report,
        )

    async def start(self, *, cut: int | None = None, is_stored: bool = False) -> None:
        """Run the output; ``cut`` and ``is_stored`` define at which step of the store it dies."""
        self.store = MortalBus(self.bus, cut=cut, is_stored=is_stored)
        self.output = self._build()
        self._task = asyncio.create_task(self.output.run())

    async def stop(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    async def kill(self) -> None:
        """End the output so that nothing more of it is stored, as `kill -9` does."""
        self.store.is_dead = True
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
            assert task.cancelled() or task.exception() is not None

    async def emit(self, *events: Event) -> None:
        await self.bus.commit(change(*events), timeout_seconds=5)

    async def until_delivered(self) -> None:
        """Wait until all events of the log are processed and the position is durable."""
        assert await self.is_delivered()

    async def is_delivered(self) -> bool:
        """Wait likewise, but return False if the output dies at its cut."""
        assert self._task is not None
        drained = asyncio.create_task(self.output.drain(timeout_seconds=LIMIT_SECONDS))
        await asyncio.wait([drained, self._task], return_when=asyncio.FIRST_COMPLETED)
        if self.store.is_dead:
            drained.cancel()
            return False
        if self._task.done():
            await self._task
        return await drained

    async def until(self, condition: Callable[[], bool]) -> None:
        await eventually(condition, why="the output does not get there")

    async def letters(self) -> list[DeadLetter]:
        return await self.bus.dead_letters(self.output.name, limit=100)

    def count(self, outcome: str) -> float:
        labels = {"output": self.output.name, "outcome": outcome}
        value = self.registry.get_sample_value("dataprep_monitor_notifications_total", labels)
        return value or 0.0

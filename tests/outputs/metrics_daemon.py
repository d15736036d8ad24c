"""The metrics of a whole daemon, over a real store and live state that a test writes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

from prometheus_client import CollectorRegistry

from monitor.bus.contract import Change
from monitor.bus.settings import StorageSettings
from monitor.model.alerts import AlertingSnapshot
from monitor.model.ends import RunEnd
from monitor.model.events import Event
from monitor.model.live_state import ActiveRun, Reachability
from monitor.model.runs import Pipeline, RunKind, RunState, Source
from monitor.outputs.metrics.settings import MetricsSettings
from monitor.tracking.live_state import LiveState
from tests.app.refusing_store import RefusingStore
from tests.clocks import ManualClock
from tests.outputs.metrics_examples import NOON
from tests.outputs.metrics_parts import Metrics
from tests.pipeline_healths import health_after, show


class Daemon:
    """The metrics of a daemon with a real store; the test writes its live state."""

    def __init__(self, bus: RefusingStore, clock: ManualClock, settings: MetricsSettings) -> None:
        self.bus = bus
        self.clock = clock
        self.live_state = LiveState(["one"])
        self.registry = CollectorRegistry()
        self.settings = settings
        self.alerting = AlertingSnapshot()
        self.metrics = self.restarted()

    def restarted(self) -> Metrics:
        """Return the metrics of a process that starts over the same store and live state."""
        return Metrics(
            bus=self.bus,
            live_state=self.live_state.view,
            clock=self.clock,
            registry=CollectorRegistry(),
            settings=self.settings,
            version="1.2.3",
            capabilities=("list_changes", "list_plans"),
            alerting=lambda: self.alerting,
        )

    async def emit(self, *events: Event) -> None:
        await self.bus.commit(Change(events=events), timeout_seconds=5)

    async def page(self, accept: str = "") -> bytes:
        await self.metrics.consumer.restore()
        while await self.metrics.consumer.count_some():
            pass
        body, _ = await self.metrics.exposition.render(accept)
        return body

    def reachable(self) -> None:
        self.live_state.update_workspace(
            "one", reachability=Reachability.REACHABLE, since=self.clock.now()
        )
        for kind in RunKind:
            self.live_state.confirm("one", kind, self.clock.now())

    def activate(self, state: RunState) -> None:
        self.live_state.active[state.key] = ActiveRun(
            run=state, confirmed_at=self.clock.now(), confirmed_by=Source.POLL
        )

    def stand(self, recipe_id: str | None, pipeline: Pipeline, *ends: RunEnd) -> None:
        health = health_after(
            *ends,
            workspace="one",
            kind=RunKind.JOB_GROUP if recipe_id else RunKind.PLAN_RUN,
            pipeline=pipeline,
            recipe_id=recipe_id,
        )
        show(self.live_state, health)


@asynccontextmanager
async def a_daemon(store: Path, settings: MetricsSettings | None = None) -> AsyncIterator[Daemon]:
    clock = ManualClock(NOON + timedelta(minutes=1))
    settings_of_store = StorageSettings(url=f"sqlite://{store}")
    bus = await RefusingStore.opened(settings_of_store, clock=clock, registry=CollectorRegistry())
    made = Daemon(bus, clock, settings or MetricsSettings())
    yield made
    await made.metrics.exposition.close()
    await bus.close()

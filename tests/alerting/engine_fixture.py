"""An engine over a real store, with the runs that a test lets happen."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from prometheus_client import CollectorRegistry

from monitor.alerting.engine.engine import Engine
from monitor.alerting.rules.rule_settings import RuleKind, RuleSettings
from monitor.alerting.rules.table import default_rule
from monitor.alerting.settings import AlertingSettings
from monitor.bus.contract import Change, Retention
from monitor.bus.sqlite import SqliteBus
from monitor.model.alerts import Alert, AlertState
from monitor.model.events import AlertEvent, EventType
from monitor.model.runs import RunKind, RunState
from monitor.supervisor import Supervisor
from monitor.tracking.live_state import LiveState
from tests.alerting.run_samples import active, at, run_event
from tests.clocks import ManualClock

CAPABILITIES = frozenset({"follow_flow_runs", "list_plan_runs"})


class Fixture:
    """An engine with some rules, and what is known beside it. Seconds count from its zero.

    A fixture that is opened again on the same folder is the daemon's next life.
    """

    def __init__(
        self,
        bus: SqliteBus,
        clock: ManualClock,
        rules: tuple[RuleSettings, ...],
        *,
        registry: CollectorRegistry,
    ) -> None:
        self.bus = bus
        self.registry = registry
        self.clock = clock
        self.live_state = LiveState(["acme"])
        self.live_state.update_workspace("acme", capabilities=CAPABILITIES)
        self.engine = Engine(
            bus=bus,
            view=self.live_state.view,
            clock=clock,
            settings=AlertingSettings(rules=rules),
            retention=Retention(),
            guard=Supervisor(clock=clock, registry=CollectorRegistry()).contain,
        )

    async def emit(self, run: RunState, event_type: EventType | None = None) -> None:
        """Let a run's status, or something else of it, become an event that is evaluated."""
        change = Change(runs=(run,), events=(run_event(run, event_type),))
        await self.bus.commit(change, timeout_seconds=5)
        await self.engine.take_some()

    async def evaluate(self, seconds: float, *runs: RunState) -> list[Alert]:
        """Let a poll find all that is active as of then, and return what fires."""
        self.live_state.active = {run.key: active(run) for run in runs}
        for kind in RunKind:
            self.live_state.confirm("acme", kind, at(seconds), complete_at=at(seconds))
        return await self.look_again()

    async def look_again(self) -> list[Alert]:
        """Evaluate without any news of the workspace, as in an outage."""
        await self.engine.evaluate()
        return self.firing()

    def firing(self) -> list[Alert]:
        alerts = self.engine.snapshot().alerts
        return [alert for alert in alerts if alert.state is AlertState.FIRING]

    async def told(self) -> list[str]:
        """Return rule and transition of every alert event of the log, oldest first."""
        rows = await self.bus.events(after=0, limit=1_000)
        events = [row.event for row in rows if isinstance(row.event, AlertEvent)]
        return [f"{event.alert.name} {event.type.removeprefix('alert.')}" for event in events]


@asynccontextmanager
async def engine_fixture(folder: Path, *rules: RuleKind | RuleSettings) -> AsyncIterator[Fixture]:
    """Open the store of a folder and restore an engine from it, with rules or default ones."""
    clock, registry = ManualClock(), CollectorRegistry()
    bus = await SqliteBus.open(folder / "state.db", clock=clock, registry=registry)
    try:
        made = (default_rule(rule) if isinstance(rule, RuleKind) else rule for rule in rules)
        fixture = Fixture(bus, clock, tuple(made), registry=registry)
        await fixture.engine.restore()
        yield fixture
    finally:
        await bus.close()

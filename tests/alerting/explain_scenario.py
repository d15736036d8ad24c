"""An engine on a real store with its explainer, and what it is fed with."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry

from monitor.alerting.engine.engine import Engine
from monitor.alerting.explain.explainer import Explainer
from monitor.alerting.explain.explanation import Explanation
from monitor.alerting.rules.rule_settings import RuleKind, RuleSettings
from monitor.alerting.settings import AlertingSettings
from monitor.bus.contract import Change, Retention, Start, Step
from monitor.bus.sqlite import SqliteBus
from monitor.model.alerts import Severity
from monitor.model.events import EventType
from monitor.model.live_state import Reachability
from monitor.model.runs import (
    RunState,
    Status,
)
from monitor.tracking.live_state import LiveState
from tests.alerting.run_samples import END, run_event, state
from tests.clocks import ManualClock

CAPABILITIES = frozenset(
    {
        "follow_by_id",
        "follow_flow_runs",
        "list_changes",
        "list_plan_runs",
        "read_jobs",
        "read_schedules",
    }
)
FAILED = RuleSettings(name="run_failed", rule=RuleKind.RUN_FAILED, severity=Severity.CRITICAL)


def call_at_once(name: str, call: Callable[[], Any], on_failure: Callable[[str], None]) -> Any:
    """Stand where the supervisor stands, for rules that raise nothing."""
    del name, on_failure
    return call()


@dataclass
class Alerting:
    """An engine, and what it is fed with."""

    bus: SqliteBus
    live_state: LiveState
    clock: ManualClock
    engine: Engine
    explainer: Explainer
    rules: tuple[RuleSettings, ...] = (FAILED,)

    async def happen(self, *runs: RunState, judged: bool = True) -> None:
        """Let runs become what they are."""
        events = tuple(run_event(run) for run in runs if not run.historical)
        await self.bus.commit(Change(runs=runs, events=events), timeout_seconds=5)
        if judged:
            await self.judge()

    async def judge(self) -> None:
        while await self.engine.take_some():
            pass

    async def use(self, *rules: RuleSettings) -> None:
        self.rules = rules
        await self.engine.reconfigure(AlertingSettings(rules=rules))

    async def explain(self, run: RunState) -> Explanation:
        found = await self.explainer.run(run.key)
        assert found is not None
        return found

    async def restarted(self) -> Alerting:
        """Return the next life of the daemon, which knows what the store holds."""
        engine = _engine(self.bus, self.live_state, self.clock, self.rules)
        await engine.restore()
        explainer = _explainer(self.bus, self.live_state, engine)
        return Alerting(self.bus, self.live_state, self.clock, engine, explainer, self.rules)

    async def deliver(self, consumer: str, position: int) -> None:
        await self.bus.advance(Step(consumer=consumer, position=position), timeout_seconds=5)


@asynccontextmanager
async def alerting_in(folder: Path) -> AsyncIterator[Alerting]:
    """Let an engine with one rule judge what happens; close it at the end."""
    clock, live_state = ManualClock(), LiveState(["acme"])
    live_state.update_workspace(
        "acme",
        reachability=Reachability.REACHABLE,
        capabilities=CAPABILITIES,
    )
    bus = await SqliteBus.open(folder / "state.db", clock=clock, registry=CollectorRegistry())
    await bus.subscribe("mqtt", start=Start.NEWEST)
    engine = _engine(bus, live_state, clock, (FAILED,))
    await engine.restore()
    yield Alerting(bus, live_state, clock, engine, _explainer(bus, live_state, engine))
    await bus.close()


def _engine(
    bus: SqliteBus, live_state: LiveState, clock: ManualClock, rules: tuple[RuleSettings, ...]
) -> Engine:
    return Engine(
        bus=bus,
        view=live_state.view,
        clock=clock,
        settings=AlertingSettings(rules=rules),
        retention=Retention(),
        guard=call_at_once,
    )


def _explainer(bus: SqliteBus, live_state: LiveState, engine: Engine) -> Explainer:
    outputs = {"mqtt": frozenset(EventType)}
    return Explainer(bus=bus, view=live_state.view, engine=engine, outputs=lambda: outputs)


def failed(number: int = 1, **more: Any) -> RunState:
    return state(number, Status.FAILED, finished_at=END + timedelta(seconds=number), **more)

"""An engine over a real store that is killed and started again, with a workspace whose runs end."""

from __future__ import annotations

import json
from typing import Any

from monitor.alerting.engine.engine import Engine
from monitor.alerting.engine.timeline import Timeline
from monitor.alerting.rules.contract import Subject
from monitor.alerting.settings import AlertingSettings
from monitor.bus.contract import Change, Retention, Step
from monitor.bus.sqlite import SqliteBus
from monitor.model.events import AlertEvent, RunEvent
from monitor.model.live_state import ActiveRun
from monitor.model.runs import RunKey, RunKind, RunState, Source
from monitor.tracking.live_state import LiveState
from monitor.tracking.pipeline_health import PipelineHealthTracker
from tests.alerting.engine_scenario import guard
from tests.alerting.recorded_histories import BEGIN, workspace
from tests.clocks import ManualClock


class CountingBus:
    """A store that counts the steps of alerting, and the rows in them."""

    def __init__(self, bus: SqliteBus) -> None:
        self._bus = bus
        self.steps: list[Step] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._bus, name)

    async def advance(self, step: Step, *, timeout_seconds: float) -> None:
        self.steps.append(step)
        await self._bus.advance(step, timeout_seconds=timeout_seconds)


class EagerTimeline(Timeline):
    """A timeline by which every event is about something that was never evaluated."""

    def has_evaluated(self, pipeline: Subject) -> bool:  # noqa: ARG002
        return False


class Life:
    """An engine over a real store, from one process to the next.

    An eager one stores each event at once, and evaluates all that one is about in the next cycle.
    """

    def __init__(
        self,
        bus: SqliteBus,
        clock: ManualClock,
        rules: AlertingSettings,
        *,
        is_eager: bool = False,
    ) -> None:
        self.bus = CountingBus(bus)
        self.clock = clock
        self._rules = rules
        self._until = BEGIN
        self._is_eager = is_eager
        status = workspace()
        self.live_state = LiveState([status.workspace])
        self.live_state.workspaces[status.workspace] = status
        self._tracker = PipelineHealthTracker(self.live_state)
        self._runs: dict[RunKey, RunState] = {}
        self.engine = self._another_engine()

    def _another_engine(self) -> Engine:
        return Engine(
            bus=self.bus,
            view=self.live_state.view,
            clock=self.clock,
            settings=self._rules,
            retention=Retention(),
            guard=guard,
            timeline=EagerTimeline(self.live_state.view) if self._is_eager else None,
        )

    async def emit(self, *events: RunEvent) -> None:
        """Let events be stored, and what they say be known. No time passes until a cycle."""
        self._until = max(self._until, events[-1].recorded_at)
        runs = {event.run.key: event.run for event in events}
        change = Change(runs=tuple(runs.values()), events=events)
        await self.bus.commit(change, timeout_seconds=10)
        self._tracker.learn(runs.values(), self._runs)
        self._runs |= runs
        for run in runs.values():
            if run.status.is_terminal and run.unconfirmed_end is None:
                self.live_state.active.pop(run.key, None)
            elif not run.status.is_terminal:
                self.live_state.active[run.key] = ActiveRun(
                    run=run, confirmed_at=run.confirmed_at, confirmed_by=Source.POLL
                )

    async def take(self) -> None:
        while await self.engine.take_some():
            pass
        if self._is_eager:
            await self.engine.store_position()

    async def evaluate(self) -> None:
        await self.clock.advance(max(0.0, (self._until - self.clock.now()).total_seconds()))
        now = self.clock.now()
        for name in self.live_state.workspaces:
            self.live_state.update_workspace(name, schedules_read_at=now, known_at=now)
            for kind in RunKind:
                self.live_state.confirm(name, kind, now, complete_at=now)
        await self.engine.evaluate()

    async def restart(self) -> None:
        """Let the process be killed, and another one take its place."""
        self.engine = self._another_engine()
        await self.engine.restore()

    async def rows(self) -> dict[str, Any]:
        """Return what the store holds, decoded."""
        state = await self.bus.consumer_state("alerting")
        return {key: json.loads(row) for key, row in state.items()}

    async def alerts(self) -> list[AlertEvent]:
        """Return the published alerts, those of one evaluation in no order that matters."""
        rows = await self.bus.events(after=0, limit=10_000)
        events = [row.event for row in rows if isinstance(row.event, AlertEvent)]
        return sorted(events, key=lambda event: (event.recorded_at, event.id))

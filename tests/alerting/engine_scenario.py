"""An engine over a real store, and a workspace whose known facts a test sets."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
from prometheus_client import CollectorRegistry

from monitor.alerting.engine.engine import Engine
from monitor.alerting.settings import AlertingSettings
from monitor.bus.contract import Change, Retention
from monitor.bus.sqlite import SqliteBus
from monitor.model.events import STATUS_EVENTS, AlertEvent, EventType, RunEvent, run_event_id
from monitor.model.live_state import BudgetStatus, PollStatus, Reachability
from monitor.model.poll_outcomes import PollOutcome
from monitor.model.runs import (
    Pipeline,
    PipelineKind,
    RunKey,
    RunKind,
    RunState,
    Source,
    Status,
)
from monitor.tracking.live_state import LiveState
from tests.alerting.earlier_failures import had_ended
from tests.clocks import ManualClock

WORKSPACE = "marketing"


def guard(name: str, call: Callable[[], Any], on_failure: Callable[[str], None]) -> Any:
    """Contain nothing: in a test a rule that raises fails the test."""
    del name, on_failure
    return call()


class EngineScenario:
    """Runs end, the workspace answers or not, time passes, and alerts are published."""

    def __init__(self, bus: SqliteBus, clock: ManualClock, settings: AlertingSettings) -> None:
        self.bus = bus
        self.clock = clock
        self._settings = settings
        self.live_state = LiveState([WORKSPACE])
        self._settings = settings
        self.engine = self.another_engine()
        self._runs = 0

    def another_engine(self) -> Engine:
        """Return an engine as the next process has it; to be restored."""
        return Engine(
            bus=self.bus,
            view=self.live_state.view,
            clock=self.clock,
            settings=self._settings,
            retention=Retention(),
            guard=guard,
        )

    async def restarted(self) -> EngineScenario:
        """Return the next life of the daemon, which has asked the workspace nothing yet."""
        later = EngineScenario(self.bus, self.clock, self._settings)
        later._runs = self._runs
        await later.engine.restore()
        return later

    async def end_run(self, flow: int, status: Status = Status.FAILED) -> None:
        """Let a job group of a flow end now."""
        await self.end_runs([flow], status)

    async def end_runs(self, flows: list[int], status: Status = Status.FAILED) -> None:
        events = [self._ended(flow, status) for flow in flows]
        change = Change(runs=tuple(event.run for event in events), events=tuple(events))
        await self.bus.commit(change, timeout_seconds=10)

    async def end_run_before(self, flow: int, status: Status, *, seconds: float) -> None:
        """Let it be seen only now that a job group of a flow had ended so long ago."""
        event = self._ended(flow, status)
        ended_at = self.clock.now() - timedelta(seconds=seconds)
        await self._emit(event, finished_at=ended_at)

    async def claim(self, flow: int, status: Status) -> RunEvent:
        """Let a callback alone report the end of a job group, and return the event of it."""
        event = self._ended(flow, status)
        return await self._emit(event, unconfirmed_end=status)

    async def correct(self, claimed: RunEvent, status: Status) -> None:
        """Let the workspace report another end than the callback did."""
        run = msgspec.structs.replace(claimed.run, status=status, unconfirmed_end=None)
        events = [
            msgspec.structs.replace(
                claimed, id=run_event_id(run.key, event_type), type=event_type, run=run
            )
            for event_type in (EventType.RUN_CORRECTED, STATUS_EVENTS[status])
        ]
        await self.bus.commit(Change(runs=(run,), events=tuple(events)), timeout_seconds=10)

    async def _emit(self, event: RunEvent, **changes: Any) -> RunEvent:
        run = msgspec.structs.replace(event.run, **changes)
        event = msgspec.structs.replace(event, run=run, occurred_at=run.finished_at)
        await self.bus.commit(Change(runs=(run,), events=(event,)), timeout_seconds=10)
        return event

    async def had_failed(self, flow: int) -> None:
        """Let the first read of job groups find that one of a flow had failed last."""
        await had_ended(self.bus, self.live_state, self._ended(flow, Status.FAILED).run)
        now = self.clock.now()
        self.live_state.confirm(WORKSPACE, RunKind.JOB_GROUP, now, complete_at=now)

    def _ended(self, flow: int, status: Status) -> RunEvent:
        self._runs += 1
        now = self.clock.now()
        run = RunState(
            key=RunKey(WORKSPACE, RunKind.JOB_GROUP, str(self._runs)),
            status=status,
            created_at=now - timedelta(seconds=60),
            started_at=now - timedelta(seconds=50),
            finished_at=now,
            pipeline=Pipeline(kind=PipelineKind.FLOW, id=str(flow), name=f"flow {flow}"),
            confirmed_at=now,
            confirmed_by=Source.POLL,
        )
        return RunEvent(
            id=run_event_id(run.key, STATUS_EVENTS[status]),
            type=STATUS_EVENTS[status],
            run=run,
            before=Status.RUNNING,
            occurred_at=now,
            recorded_at=now,
            observed_by=Source.POLL,
        )

    def answers(self, *, well: bool) -> None:
        """Let the workspace be reachable, or not, as its polls found."""
        self.live_state.update_workspace(
            WORKSPACE,
            reachability=Reachability.REACHABLE if well else Reachability.UNREACHABLE,
            reason=None if well else "changes: no answer",
        )

    def spend(self, *, remaining: int) -> None:
        """Let so many requests be left, as the newest poll found."""
        budget = BudgetStatus(scope="own", limit=120, remaining=remaining)
        self.live_state.update_workspace(WORKSPACE, budgets=(budget,))
        now = self.clock.now()
        self.live_state.record_poll(
            PollStatus(
                workspace=WORKSPACE,
                poll="changes",
                last_attempt_at=now,
                last_success_at=now,
                last_outcome=PollOutcome.OK,
            )
        )

    async def round(self, seconds: float = 2.0) -> None:
        """Let time pass, and the engine evaluate."""
        await self.clock.advance(seconds)
        await self.engine.evaluate()

    async def told(self) -> list[AlertEvent]:
        """Return every alert event of the log, oldest first."""
        found: list[AlertEvent] = []
        position = 0
        while rows := await self.bus.events(after=position, limit=1_000):
            position = rows[-1].position
            found += [row.event for row in rows if isinstance(row.event, AlertEvent)]
        return found

    async def words(self, rule: str = "run_failed") -> list[str]:
        """Return the published transitions of the alerts of one rule, in order."""
        return [
            event.type.removeprefix("alert.")
            for event in await self.told()
            if event.alert.name == rule
        ]


@asynccontextmanager
async def engine_scenario(
    folder: Path,
    settings: AlertingSettings | None = None,
    *,
    start: datetime | None = None,
    is_asked: bool = True,
) -> AsyncIterator[EngineScenario]:
    """Yield an engine that ran one cycle, with a workspace that answers where it ``is_asked``."""
    clock = ManualClock() if start is None else ManualClock(start)
    bus = await SqliteBus.open(folder / "state.db", clock=clock, registry=CollectorRegistry())
    try:
        found = EngineScenario(bus, clock, settings or AlertingSettings())
        if is_asked:
            found.answers(well=True)
        await found.engine.restore()
        await found.round()
        yield found
    finally:
        await bus.close()

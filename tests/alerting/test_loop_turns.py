"""With 10,000 pipelines, 2,000 active runs and 5,000 alerts alerting never holds the loop long.

Counted in calls: a step of 2 ms makes more than 5,000 of them on any machine that is in use.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from monitor.alerting.engine.engine import Engine
from monitor.alerting.settings import AlertingSettings
from monitor.bus.contract import Change, Retention
from monitor.bus.sqlite import SqliteBus
from monitor.model.events import RunEvent
from monitor.model.live_state import ActiveRun
from monitor.model.runs import (
    Parents,
    Pipeline,
    PipelineKind,
    RunKey,
    RunKind,
    RunState,
    Source,
    Status,
)
from monitor.tracking.live_state import LiveState
from tests.alerting.engine_scenario import guard
from tests.alerting.loop_turns import longest_turn
from tests.alerting.run_samples import run_event
from tests.clocks import ManualClock
from tests.pipeline_healths import end_at, health_after, show

_PIPELINES, _ACTIVE, _FIRING = 10_000, 2_000, 5_000
_CALLS = 5_000
_NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


def run_of(number: int, status: Status, *, flow: int) -> RunState:
    """Return a run of a flow; an active one is inside a flow run of it."""
    is_over = status.is_terminal
    return RunState(
        key=RunKey("acme", RunKind.JOB_GROUP, str(number)),
        status=status,
        created_at=_NOON - timedelta(seconds=90),
        started_at=_NOON - timedelta(seconds=60),
        finished_at=_NOON + timedelta(milliseconds=number) if is_over else None,
        pipeline=Pipeline(kind=PipelineKind.FLOW, id=str(flow), name=f"flow {flow}"),
        parents=Parents() if is_over else Parents(flow_run=f"f{number}"),
        confirmed_at=_NOON,
        confirmed_by=Source.POLL,
    )


def ended(number: int, status: Status, *, flow: int) -> RunEvent:
    return run_event(run_of(number, status, flow=flow))


class Workspace:
    """An engine over a real store, and a live state of the size that is promised."""

    def __init__(self, bus: SqliteBus, clock: ManualClock) -> None:
        self.bus = bus
        self.clock = clock
        self.asked = 0  # rules
        self.live_state = LiveState(["acme"])
        for flow in range(_PIPELINES):
            pipeline = Pipeline(kind=PipelineKind.FLOW, id=str(flow), name=f"flow {flow}")
            self.live_state.name_pipeline("acme", PipelineKind.FLOW, str(flow), pipeline.name)
            show(self.live_state, health_after(end_at(_NOON), pipeline=pipeline))
        for number in range(_ACTIVE):
            run = run_of(1_000_000 + number, Status.RUNNING, flow=number)
            self.live_state.active[run.key] = ActiveRun(
                run=run, confirmed_at=_NOON, confirmed_by=Source.POLL
            )
        self.engine = self.another_engine()

    def another_engine(self) -> Engine:
        return Engine(
            bus=self.bus,
            view=self.live_state.view,
            clock=self.clock,
            settings=AlertingSettings(),
            retention=Retention(),
            guard=self._guard,
        )

    def _guard(self, name: str, call: Callable[[], Any], on_failure: Callable[[str], None]) -> Any:
        self.asked += 1
        return guard(name, call, on_failure)

    async def emit(self, events: list[RunEvent]) -> None:
        for first in range(0, len(events), 1_000):
            change = Change(events=tuple(events[first : first + 1_000]))
            await self.bus.commit(change, timeout_seconds=30)

    async def take(self) -> None:
        while await self.engine.take_some():
            pass

    def confirm(self) -> None:
        for kind in RunKind:
            self.live_state.confirm("acme", kind, self.clock.now(), complete_at=self.clock.now())


@asynccontextmanager
async def workspace(folder: Path) -> AsyncIterator[Workspace]:
    clock = ManualClock(_NOON)
    bus = await SqliteBus.open(folder / "state.db", clock=clock, registry=CollectorRegistry())
    try:
        yield Workspace(bus, clock)
    finally:
        await bus.close()


async def test_no_step_of_alerting_is_long(tmp_path: Path) -> None:
    """Neither a burst, nor a cycle, nor a start, nor a sweep makes more calls in one turn."""
    async with workspace(tmp_path) as here:
        engine = here.engine
        await engine.restore()
        failures = [ended(n, Status.FAILED, flow=n) for n in range(_FIRING)]
        await here.emit(failures[500:])
        await here.take()
        await here.emit(failures[:500])
        turns = {"a storm of failures": await longest_turn(here.take())}
        assert len(engine.snapshot().alerts) == _FIRING

        here.confirm()
        turns["the first cycle"] = await longest_turn(engine.evaluate())
        await here.clock.advance(2)
        turns["a cycle"] = await longest_turn(engine.evaluate())
        await here.emit(
            [
                ended(100_000 * more + n, Status.SUCCEEDED, flow=n)
                for more in (1, 2, 3)
                for n in range(_FIRING, _FIRING + 200)
            ]
        )
        turns["successes"] = await longest_turn(here.take())
        await here.clock.advance(2)
        turns["the step that stores them"] = await longest_turn(engine.evaluate())
        await here.clock.advance(61)
        turns["a sweep"] = await longest_turn(engine.evaluate())
        here.engine = here.another_engine()
        turns["a start"] = await longest_turn(here.engine.restore())

        assert {name: turn for name, turn in turns.items() if turn.calls > _CALLS} == {}


async def test_a_cycle_in_which_nothing_is_due_asks_few_rules(tmp_path: Path) -> None:
    """A subject that neither changed nor has reached its time is evaluated by no rule."""
    async with workspace(tmp_path) as here:
        await here.engine.restore()
        await here.emit([ended(n, Status.FAILED, flow=n) for n in range(500)])
        await here.take()
        here.confirm()
        await here.engine.evaluate()
        assert here.asked > _PIPELINES

        here.asked = 0
        await here.clock.advance(2)
        await here.engine.evaluate()
        assert here.asked < 50


async def test_a_long_turn_is_seen() -> None:
    """The count of the longest turn is that of all calls between two turns of the loop."""

    async def work() -> None:
        for _ in range(3):
            msgspec.json.encode([str(number) for number in range(10)])
            await asyncio.sleep(0)
        any(number < 0 for number in range(700))

    assert (await longest_turn(work())).calls == pytest.approx(700, abs=20)

"""What alerting costs a daemon that watches 10,000 pipelines, with the store that it writes to.

Half of the pipelines are failing already and 2,000 runs are active. Further failures go through the
engine in batches, as a burst does, with 10 rules and with 1,000, one of them matching each event;
then one by one, as they usually come. Beside them go runs of pipelines that have no alert: the
events of whole runs, and their successes alone, which change no more than what rules remember.
Beside that: one evaluation of live state, and how long a start takes to restore stored alerts.
Batches are processor time with what is stored of them, the rest is time on the clock.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
from msgspec import Struct
from prometheus_client import CollectorRegistry

from monitor import logs
from monitor.alerting.engine.engine import Engine
from monitor.alerting.rules.rule_settings import RuleSettings
from monitor.alerting.rules.table import DEFAULT_RULES
from monitor.alerting.settings import AlertingSettings
from monitor.bus.contract import Change, Retention
from monitor.bus.sqlite import SqliteBus
from monitor.model.clock import SystemClock
from monitor.model.events import EventType, RunEvent, run_event_id
from monitor.model.live_state import ActiveRun
from monitor.model.runs import RunKind, RunState, Source, Status
from monitor.tracking.live_state import LiveState
from tests.bench.alert_rules import WORKSPACE, failure, failure_rules
from tests.bench.figures import Figure, ratios, table

TITLE = "Alerting with 10,000 pipelines"
_COMMIT_SECONDS = 30.0
_STORED_AT_ONCE = 1_000


class Sizes(Struct, frozen=True, kw_only=True):
    """Sizes of the measurement."""

    repetitions: int = 3
    pipelines: int = 10_000
    active: int = 2_000
    burst: int = 2_000
    alone: int = 50
    healthy: int = 1_000  # pipelines with successful runs


class _History:
    """Endless failures, each of the next pipeline."""

    def __init__(self, bus: SqliteBus, pipelines: int) -> None:
        self._bus = bus
        self._pipelines = pipelines
        self._number = 0

    async def append(self, count: int) -> None:
        events = tuple(self._next() for _ in range(count))
        for start in range(0, count, _STORED_AT_ONCE):
            change = Change(events=events[start : start + _STORED_AT_ONCE])
            await self._bus.commit(change, timeout_seconds=_COMMIT_SECONDS)

    def _next(self) -> RunEvent:
        self._number += 1
        return failure(self._number, pipeline=self._number % self._pipelines)


_RUN = ("started", "claimed", "confirmed", "detailed")  # as callbacks and polls show it
_SUCCESS = ("succeeded",)


class _Runs(_History):
    """Endless runs that succeed, each of the next of some pipelines; ``kinds`` of their events."""

    kinds: tuple[str, ...] = _RUN

    def __init__(self, bus: SqliteBus, pipelines: int) -> None:
        super().__init__(bus, pipelines)
        self._events: list[RunEvent] = []

    def _next(self) -> RunEvent:
        if not self._events:
            ended = super()._next()
            self._events = [_of_success(ended, kind) for kind in reversed(self.kinds)]
        return self._events.pop()


def _of_success(ended: RunEvent, kind: str) -> RunEvent:
    """Return an event of the run as if it had succeeded."""
    run = msgspec.structs.replace(ended.run, status=Status.SUCCEEDED, error=None)
    event_type = EventType.RUN_SUCCEEDED
    if kind == "started":
        run = msgspec.structs.replace(run, status=Status.RUNNING, finished_at=None)
        event_type = EventType.RUN_STARTED
    elif kind == "claimed":
        run = msgspec.structs.replace(run, unconfirmed_end=Status.SUCCEEDED)
    elif kind == "confirmed":
        event_type = EventType.RUN_CONFIRMED
    elif kind == "detailed":
        run = msgspec.structs.replace(run, detailed=True)
        event_type = EventType.RUN_DETAILED
    return msgspec.structs.replace(
        ended, id=run_event_id(run.key, event_type), type=event_type, run=run
    )


async def measure(sizes: Sizes | None = None) -> list[Figure]:
    """Return the costs of events, evaluations and starts, with few and many rules."""
    sizes = sizes or Sizes()
    logs.configure(level="error")
    async with AsyncExitStack() as stack:
        few, many, default = [
            await stack.enter_async_context(_watching(sizes, rules))
            for rules in (
                failure_rules(f"{number}*" for number in range(10)),
                failure_rules(f"{number:03d}*" for number in range(1_000)),
                DEFAULT_RULES,
            )
        ]
        healthy = await stack.enter_async_context(_healthy(sizes))
        for _ in range(sizes.repetitions):
            await healthy.runs(_RUN)
            await healthy.runs(_SUCCESS)
            for watching in (few, many, default):
                await watching.burst()
            await default.alone()
            await default.evaluate_and_restore()
    figures = [
        _figure("event of a burst, 10 rules", few.burst_us, "us"),
        _figure("event of a burst, 1,000 rules", many.burst_us, "us"),
    ]
    failure_cost = _figure("event of a burst, default rules", default.burst_us, "us")
    run_cost = _figure("event of a run that succeeds", healthy.run_us, "us")
    success_cost = _figure("success", healthy.success_us, "us")
    return [
        *figures,
        ratios("1,000 rules over 10", figures[1], figures[0], target=1.3),
        failure_cost,
        run_cost,
        ratios("event of a run that succeeds: over a failure", run_cost, failure_cost),
        success_cost,
        ratios("success: over a failure", success_cost, failure_cost),
        _figure("event alone, default rules, p50", default.alone_ms, "ms"),
        _figure("an evaluation of live state, default rules", default.evaluation_ms, "ms"),
        Figure(
            name="a start, default rules",
            values=tuple(default.restore_seconds),
            unit="s",
            target=2.0,
        ),
    ]


def _figure(name: str, values: Sequence[float], unit: str) -> Figure:
    return Figure(name=name, values=tuple(values), unit=unit)


class _Watching:
    """An engine with its store, and the cost of each repetition."""

    def __init__(self, engine: Engine, history: _History, sizes: Sizes) -> None:
        self._engine = engine
        self._history = history
        self._sizes = sizes
        self.burst_us: list[float] = []
        self.alone_ms: list[float] = []
        self.evaluation_ms: list[float] = []
        self.run_us: list[float] = []
        self.success_us: list[float] = []
        self.restore_seconds: list[float] = []

    async def drain(self) -> None:
        while await self._engine.take_some():
            pass

    async def burst(self) -> None:
        await self._history.append(self._sizes.burst)
        began = time.process_time()
        await self.drain()
        self.burst_us.append(1e6 * (time.process_time() - began) / self._sizes.burst)

    async def runs(self, kinds: tuple[str, ...]) -> None:
        """Let runs of healthy pipelines succeed; what is stored a second later counts as well."""
        if not isinstance(self._history, _Runs):
            raise TypeError("these pipelines are not healthy")
        self._history.kinds = kinds
        await self._history.append(self._sizes.burst)
        began = time.process_time()
        await self.drain()
        seconds = time.process_time() - began
        await asyncio.sleep(1.0)
        await self._history.append(len(kinds))
        began = time.process_time()
        await self.drain()
        seconds += time.process_time() - began
        costs = self.run_us if kinds is _RUN else self.success_us
        costs.append(1e6 * seconds / (self._sizes.burst + len(kinds)))

    async def alone(self) -> None:
        durations_ms = []
        for _ in range(self._sizes.alone):
            await self._history.append(1)
            began = time.monotonic()
            await self.drain()
            durations_ms.append(1e3 * (time.monotonic() - began))
        self.alone_ms.append(statistics.median(durations_ms))

    async def evaluate_and_restore(self) -> None:
        await self._engine.evaluate()  # the first evaluation after a start covers everything
        began = time.monotonic()
        await self._engine.evaluate()
        self.evaluation_ms.append(1e3 * (time.monotonic() - began))
        began = time.monotonic()
        await self._engine.restore()
        self.restore_seconds.append(time.monotonic() - began)


@asynccontextmanager
async def _watching(sizes: Sizes, rules: Sequence[RuleSettings]) -> AsyncIterator[_Watching]:
    with TemporaryDirectory() as folder:
        async with _storing(Path(folder)) as bus:
            engine, history = _engine(bus, sizes, rules), _History(bus, sizes.pipelines)
            watching = _Watching(engine, history, sizes)
            await engine.restore()
            await history.append(sizes.pipelines // 2)
            await watching.drain()
            yield watching


@asynccontextmanager
async def _healthy(sizes: Sizes) -> AsyncIterator[_Watching]:
    """Yield an engine that has handled successes of each pipeline."""
    with TemporaryDirectory() as folder:
        async with _storing(Path(folder)) as bus:
            engine = _engine(bus, sizes, DEFAULT_RULES)
            watching = _Watching(engine, history := _Runs(bus, sizes.healthy), sizes)
            history.kinds = _SUCCESS
            await engine.restore()
            await history.append(3 * sizes.healthy)
            await watching.drain()
            yield watching


@asynccontextmanager
async def _storing(folder: Path) -> AsyncIterator[SqliteBus]:
    bus = await SqliteBus.open(
        folder / "state.db", clock=SystemClock(), registry=CollectorRegistry()
    )
    try:
        yield bus
    finally:
        await bus.close()


def _engine(bus: SqliteBus, sizes: Sizes, rules: Sequence[RuleSettings]) -> Engine:
    clock = SystemClock()
    live_state = LiveState([WORKSPACE])
    for number in range(sizes.pipelines):
        pipeline = failure(number, pipeline=number).run.pipeline
        if pipeline is not None:
            live_state.name_pipeline(WORKSPACE, pipeline.kind, pipeline.id, pipeline.name)
    for number in range(sizes.active):
        run = _running(number)
        live_state.active[run.key] = ActiveRun(
            run=run, confirmed_at=run.confirmed_at, confirmed_by=Source.POLL
        )
    for kind in RunKind:
        live_state.confirm(WORKSPACE, kind, clock.now(), complete_at=clock.now())
    return Engine(
        bus=bus,
        view=live_state.view,
        clock=clock,
        settings=AlertingSettings(rules=tuple(rules)),
        retention=Retention(),
        guard=_unguarded,
    )


def _unguarded(name: str, call: Callable[[], Any], on_failure: Callable[[str], None]) -> Any:
    del name, on_failure  # a rule that raises ends the benchmark
    return call()


def _running(number: int) -> RunState:
    run = failure(10_000_000 + number, pipeline=number).run
    now = SystemClock().now()
    return msgspec.structs.replace(
        run,
        status=Status.RUNNING,
        created_at=now - timedelta(seconds=30),
        started_at=now - timedelta(seconds=20),
        finished_at=None,
        error=None,
        confirmed_at=now,
    )


if __name__ == "__main__":
    sys.stdout.write(table(TITLE, asyncio.run(measure())))

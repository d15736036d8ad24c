"""What alerting costs a daemon that watches 10,000 pipelines, with the store that it writes to.

Half of the pipelines are failing already and 2,000 runs are active. Further failures go through the
engine in batches, as a burst does, with 10 rules and with 1,000 of which one matches each event;
then one by one, as they usually come. Beside that: one look at the present, and how long a start
takes to read back what is kept. Batches are processor time, the rest is time on the clock.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
from msgspec import Struct
from prometheus_client import CollectorRegistry

from monitor import logs
from monitor.alerting.engine import Engine
from monitor.alerting.settings.defaults import DEFAULT_RULES
from monitor.alerting.settings.engine import AlertingSettings
from monitor.alerting.settings.rules import RuleSettings
from monitor.bus.contract import Change, Retention
from monitor.bus.sqlite import SqliteBus
from monitor.model.clock import SystemClock
from monitor.model.events import RunEvent
from monitor.model.knowledge import ActiveRun
from monitor.model.runs import RunKind, RunState, Source, Status
from monitor.tracking.knowledge import Knowledge
from tests.bench.alert_rules import WORKSPACE, failure, failure_rules
from tests.bench.figures import Figure, ratios, table

TITLE = "Alerting with 10,000 pipelines"
_COMMIT_SECONDS = 30.0
_STORED_AT_ONCE = 1_000


class Sizes(Struct, frozen=True, kw_only=True):
    """How much is measured."""

    rounds: int = 3
    pipelines: int = 10_000
    active: int = 2_000
    burst: int = 2_000
    alone: int = 50


class _Costs(Struct, kw_only=True):
    burst: list[float] = msgspec.field(default_factory=list)
    alone: list[float] = msgspec.field(default_factory=list)
    look: list[float] = msgspec.field(default_factory=list)
    restore: list[float] = msgspec.field(default_factory=list)


class _Story:
    """Failures without end, each of the next pipeline."""

    def __init__(self, bus: SqliteBus, pipelines: int) -> None:
        self._bus = bus
        self._pipelines = pipelines
        self._number = 0

    async def go_on(self, count: int) -> None:
        events = tuple(self._next() for _ in range(count))
        for start in range(0, count, _STORED_AT_ONCE):
            change = Change(events=events[start : start + _STORED_AT_ONCE])
            await self._bus.commit(change, timeout_seconds=_COMMIT_SECONDS)

    def _next(self) -> RunEvent:
        self._number += 1
        return failure(self._number, pipeline=self._number % self._pipelines)


async def measure(sizes: Sizes | None = None) -> list[Figure]:
    """Return the costs of events, looks and starts, with few and many rules."""
    sizes = sizes or Sizes()
    logs.configure(level="error")
    few = await _costs(sizes, failure_rules(f"{one}*" for one in range(10)))
    many = await _costs(sizes, failure_rules(f"{one:03d}*" for one in range(1_000)))
    default = await _costs(sizes, DEFAULT_RULES)
    figures = [
        _figure("event of a burst, 10 rules", few.burst, "us"),
        _figure("event of a burst, 1,000 rules", many.burst, "us"),
    ]
    return [
        *figures,
        ratios("1,000 rules over 10", figures[1], figures[0], target=1.3),
        _figure("event of a burst, default rules", default.burst, "us"),
        _figure("event alone, default rules, p50", default.alone, "ms"),
        _figure("a look at the present, default rules", default.look, "ms"),
        Figure(name="a start, default rules", values=tuple(default.restore), unit="s", target=2.0),
    ]


def _figure(name: str, values: Sequence[float], unit: str) -> Figure:
    return Figure(name=name, values=tuple(values), unit=unit)


async def _costs(sizes: Sizes, rules: Sequence[RuleSettings]) -> _Costs:
    costs = _Costs()
    with TemporaryDirectory() as folder:
        async with _storing(Path(folder)) as bus:
            engine, story = _engine(bus, sizes, rules), _Story(bus, sizes.pipelines)
            await engine.restore()
            await story.go_on(sizes.pipelines // 2)
            await _drain(engine)
            for _ in range(sizes.rounds):
                await story.go_on(sizes.burst)
                began = time.process_time()
                await _drain(engine)
                costs.burst.append(1e6 * (time.process_time() - began) / sizes.burst)
                costs.alone.append(await _alone(engine, story, sizes.alone))
                began = time.monotonic()
                await engine.look()
                costs.look.append(1e3 * (time.monotonic() - began))
                began = time.monotonic()
                await engine.restore()
                costs.restore.append(time.monotonic() - began)
    return costs


async def _drain(engine: Engine) -> None:
    while await engine.take_some():
        pass


async def _alone(engine: Engine, story: _Story, count: int) -> float:
    took = []
    for _ in range(count):
        await story.go_on(1)
        began = time.monotonic()
        await _drain(engine)
        took.append(1e3 * (time.monotonic() - began))
    return statistics.median(took)


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
    knowledge = Knowledge([WORKSPACE])
    for number in range(sizes.pipelines):
        pipeline = failure(number, pipeline=number).run.pipeline
        if pipeline is not None:
            knowledge.name_pipeline(WORKSPACE, pipeline.kind, pipeline.id, pipeline.name)
    for number in range(sizes.active):
        run = _running(number)
        knowledge.active[run.key] = ActiveRun(
            run=run, confirmed_at=run.confirmed_at, confirmed_by=Source.POLL
        )
    for kind in RunKind:
        knowledge.confirm(WORKSPACE, kind, clock.now(), complete_at=clock.now())
    return Engine(
        bus=bus,
        view=knowledge.view,
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

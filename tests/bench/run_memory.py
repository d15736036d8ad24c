"""What a transition costs with few and with many active runs, and what an active run weighs.

Two observers over two stores of their own, one that knows 1,000 active runs and one that knows
100,000. In each repetition both derive, store and apply the same number of transitions, in batches
of 50 as polls and callbacks bring them, in turns within one run. Timed is the processor time of
this process, all threads of it: waiting for the disk is the same for both and would only hide a
difference. The weight of an active run is what the interpreter has allocated for 10,000 of them
after an observer loaded them from its store, which is how a daemon comes to them.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import time
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec import Struct
from prometheus_client import CollectorRegistry

from monitor import logs
from monitor.bus.contract import Change
from monitor.bus.sqlite.store import SqliteBus
from monitor.model.clock import SystemClock
from monitor.model.observations import Observation
from monitor.model.runs import (
    Parents,
    Pipeline,
    PipelineKind,
    Recipe,
    RunKey,
    RunKind,
    RunState,
    Source,
    Status,
    Trigger,
)
from monitor.tracking.live_state import LiveState
from monitor.tracking.observer import Observer
from monitor.tracking.settings import TrackingSettings
from tests.bench.figures import Figure, ratios, table

TITLE = "Transitions with many runs in memory"
_FLOWS = 50
_BATCH = 50
_COMMIT_SECONDS = 60.0
_STORED_AT_ONCE = 5_000


class Sizes(Struct, frozen=True, kw_only=True):
    """Sizes of the measurement."""

    repetitions: int = 5
    few: int = 1_000
    many: int = 100_000
    transitions: int = 1_000  # in each repetition
    weighed: int = 10_000


async def measure(sizes: Sizes | None = None) -> list[Figure]:
    """Return the cost of a transition on both sides, their ratio, and the weight of a run."""
    sizes = sizes or Sizes()
    logs.configure(level="warning")
    few: list[float] = []
    many: list[float] = []
    with TemporaryDirectory() as folder:
        async with (
            _observing(Path(folder) / "few.db", sizes.few) as with_few,
            _observing(Path(folder) / "many.db", sizes.many) as with_many,
        ):
            for number in range(-1, sizes.repetitions):
                for observer, costs in ((with_few, few), (with_many, many)):
                    cost = await _transitions(observer, sizes.transitions, number + 1)
                    if number >= 0:  # the first repetition only warms both up
                        costs.append(cost)
        weight = await _weight(Path(folder) / "weighed.db", sizes.weighed)
    few_figure = Figure(name=f"transition with {sizes.few:,} runs", values=tuple(few), unit="us")
    many_figure = Figure(name=f"transition with {sizes.many:,} runs", values=tuple(many), unit="us")
    return [
        few_figure,
        many_figure,
        ratios("many over few", many_figure, few_figure, target=1.5),
        Figure(name="memory of an active run", values=(weight,), unit="bytes"),
    ]


@asynccontextmanager
async def _observing(path: Path, runs: int) -> AsyncIterator[Observer]:
    clock, registry = SystemClock(), CollectorRegistry()
    bus = await SqliteBus.open(path, clock=clock, registry=registry)
    try:
        for start in range(0, runs, _STORED_AT_ONCE):
            states = tuple(_run(n) for n in range(start, min(runs, start + _STORED_AT_ONCE)))
            await bus.commit(Change(runs=states), timeout_seconds=_COMMIT_SECONDS)
        observer = Observer(
            bus=bus,
            live_state=LiveState(["acme"]),
            clock=clock,
            registry=registry,
            settings=TrackingSettings(),
        )
        await observer.open("acme")
        yield observer
    finally:
        await bus.close()


async def _transitions(observer: Observer, count: int, number: int) -> float:
    """Start and end new runs, so that the number in memory stays; return microseconds for each."""
    now, began = datetime.now(UTC), time.process_time()
    first = 10_000_000 + number * count
    for start in range(first, first + count // 2, _BATCH):
        ids = range(start, min(start + _BATCH, first + count // 2))
        for word in ("InProgress", "Complete"):
            await observer.observe([_observation(id_, word, now) for id_ in ids])
    return 1e6 * (time.process_time() - began) / (count // 2 * 2)


async def _weight(path: Path, runs: int) -> float:
    async with _observing(path, runs):
        pass
    clock, registry = SystemClock(), CollectorRegistry()
    bus = await SqliteBus.open(path, clock=clock, registry=registry)
    observer = Observer(
        bus=bus,
        live_state=LiveState(["acme"]),
        clock=clock,
        registry=registry,
        settings=TrackingSettings(),
    )
    tracemalloc.start()
    try:
        gc.collect()
        before, _ = tracemalloc.get_traced_memory()
        await observer.open("acme")
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        await bus.close()
    return (after - before) / runs


def _run(number: int) -> RunState:
    now = datetime.now(UTC)
    return RunState(
        key=_key(number),
        status=Status.RUNNING,
        native_status="InProgress",
        created_at=now,
        started_at=now,
        updated_at=now,
        pipeline=_flow(number),
        recipe=Recipe(id=str(number % _FLOWS), name="Clean orders"),
        parents=Parents(flow_run=str(number)),
        trigger=Trigger.SCHEDULE,
        ran_for="recipe",
        owner="ada@example.com",
        url=f"https://cloud.example.com/jobs/{number}",
        confirmed_at=now,
        confirmed_by=Source.POLL,
    )


def _observation(number: int, word: str, now: datetime) -> Observation:
    return Observation(
        key=_key(number),
        source=Source.POLL,
        observed_at=now,
        native_status=word,
        created_at=now,
        started_at=now,
        updated_at=now,
        pipeline=_flow(number),
    )


def _key(number: int) -> RunKey:
    return RunKey("acme", RunKind.JOB_GROUP, str(number))


def _flow(number: int) -> Pipeline:
    flow = number % _FLOWS
    return Pipeline(kind=PipelineKind.FLOW, id=str(flow), name=f"Orders of region {flow}")


if __name__ == "__main__":
    sys.stdout.write(table(TITLE, asyncio.run(measure())))

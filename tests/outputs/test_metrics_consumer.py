"""Each event counts once: over restarts, over kill -9, and while the store fails."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from monitor.bus.contract import Change, Retention, Step
from monitor.bus.sqlite import SqliteBus
from monitor.model.errors import BusUnavailableError
from monitor.model.events import Event
from monitor.model.runs import RunKind, Status
from monitor.outputs.metrics.consumer import CONSUMER, MetricsConsumer
from monitor.outputs.metrics.counter_rows import (
    DURATION_BOUNDS,
    NO_DURATIONS,
    OTHER,
    Identity,
    QueueCounts,
    RunCounts,
)
from monitor.outputs.metrics.counting import CountingLimits
from monitor.outputs.metrics.settings import MetricsSettings
from monitor.supervisor import Supervisor
from monitor.tracking.live_state import LiveState
from tests.clocks import ManualClock
from tests.outputs.metrics_examples import NOON, event, history, plan, run

ROOT = Path(__file__).parent.parent.parent
DAILY = Identity("one", RunKind.PLAN_RUN, "7")


class ConsumerScenario:
    """A store, and consumers built over it as a restart builds them."""

    def __init__(self, bus: SqliteBus, clock: ManualClock) -> None:
        self.bus = bus
        self.clock = clock
        self.live_state = LiveState(["one"])
        self.registry = CollectorRegistry()

    async def append(self, events: Sequence[Event]) -> None:
        await self.bus.commit(Change(events=tuple(events)), timeout_seconds=5)

    def consumer(self, *, batch_size: int = 3, places: int = 100) -> MetricsConsumer:
        self.registry = CollectorRegistry()
        return MetricsConsumer(
            bus=self.bus,
            live_state=self.live_state.view,
            clock=self.clock,
            registry=self.registry,
            settings=MetricsSettings(batch_size=batch_size, wait_seconds=0.1),
            limits=CountingLimits(places=places, forget_seconds=86_400),
        )


@pytest.fixture
async def scenario(tmp_path: Path) -> AsyncIterator[ConsumerScenario]:
    clock = ManualClock()
    bus = await SqliteBus.open(tmp_path / "state.db", clock=clock, registry=CollectorRegistry())
    yield ConsumerScenario(bus, clock)
    await bus.close()


async def drain(consumer: MetricsConsumer) -> None:
    await consumer.restore()
    while await consumer.count_some():
        pass


def ended(consumer: MetricsConsumer, identity: Identity = DAILY) -> dict[Status, int]:
    row = consumer.rows[identity.key]
    assert isinstance(row, RunCounts)
    return row.ended


def runs(count: int, *, first: int = 0) -> list[Event]:
    return [
        run_event
        for number in range(first, first + count)
        for run_event in history(run(number, Status.SUCCEEDED, pipeline=plan(7, "daily")))
    ]


async def test_a_new_consumer_begins_with_the_oldest_event(scenario: ConsumerScenario) -> None:
    """Events from before the consumer's first start are counted too."""
    await scenario.append(runs(4))
    consumer = scenario.consumer()
    await drain(consumer)
    assert ended(consumer) == {Status.SUCCEEDED: 4}


async def test_a_restart_continues_from_the_stored_position(scenario: ConsumerScenario) -> None:
    """A consumer after a restart has the same counts, and counts only new events."""
    await scenario.append(runs(4))
    first = scenario.consumer()
    await drain(first)
    await scenario.append(runs(2, first=10))
    second = scenario.consumer()
    await second.restore()
    assert second.rows == first.rows
    await drain(second)
    assert ended(second) == {Status.SUCCEEDED: 6}


async def test_a_consumer_that_stops_between_batches_counts_nothing_twice(
    scenario: ConsumerScenario,
) -> None:
    """Counts and position are one commit: any number of restarts gives the same sums."""
    await scenario.append(runs(10))
    for _ in range(40):
        consumer = scenario.consumer(batch_size=1)
        await consumer.restore()
        await consumer.count_some()
    assert ended(consumer) == {Status.SUCCEEDED: 10}
    assert not await consumer.count_some()


async def test_kill_9_counts_nothing_twice_and_loses_nothing(
    scenario: ConsumerScenario, tmp_path: Path
) -> None:
    """Processes that are killed while they count store exactly the true counts."""
    await scenario.append(runs(40))
    await scenario.bus.close()
    store = tmp_path / "state.db"
    for lines in (3, 1, 17):
        await asyncio.to_thread(_count_and_kill, store, lines)
    last = await asyncio.to_thread(_count_and_kill, store, None)
    assert last == "done"
    bus = await SqliteBus.open(store, clock=scenario.clock, registry=CollectorRegistry())
    try:
        consumer = ConsumerScenario(bus, scenario.clock).consumer()
        await consumer.restore()
        assert ended(consumer) == {Status.SUCCEEDED: 40}
        row = consumer.rows[DAILY.key]
        assert isinstance(row, RunCounts)
        assert (sum(row.durations.counts), sum(row.started.values())) == (40, 40)
    finally:
        await bus.close()


def _count_and_kill(store: Path, lines: int | None) -> str:
    """Let a process count some batches, or until it is done; return the last line it printed."""
    command = [sys.executable, "-m", "tests.outputs.metrics_counting_process", str(store)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        last_line = ""
        for number, line in enumerate(process.stdout, start=1):
            last_line = line.strip()
            if last_line == "done" or number == lines:
                break
        process.kill()
        return last_line


async def test_shown_counts_are_durable(scenario: ConsumerScenario) -> None:
    """A commit that the store refuses changes nothing on the page, and is repeated whole."""
    await scenario.append(runs(1))
    consumer = scenario.consumer()
    await drain(consumer)
    rows, position = consumer.rows, consumer.position
    await scenario.append(runs(1, first=5))
    await scenario.bus.close()
    with pytest.raises(BusUnavailableError):
        await consumer.count_some()
    assert (consumer.rows, consumer.position) == (rows, position)


async def test_counting_continues_by_itself_when_the_store_does_not_answer(
    scenario: ConsumerScenario,
) -> None:
    """While the store is gone the task stays alive and retries, with growing waits."""
    await scenario.bus.close()
    consumer = scenario.consumer()
    supervisor = Supervisor(clock=scenario.clock, registry=CollectorRegistry())
    task = asyncio.create_task(supervisor.supervise("metrics", consumer.run))
    for _ in range(6):
        await scenario.clock.advance(40)
        await asyncio.sleep(0)
    assert not task.done()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_running_consumer_counts_appended_events(scenario: ConsumerScenario) -> None:
    """New events wake the task; nothing else needs to."""
    consumer = scenario.consumer()
    task = asyncio.create_task(consumer.run())
    await scenario.append(runs(3))
    async with asyncio.timeout(30):
        while DAILY.key not in consumer.rows or ended(consumer) != {Status.SUCCEEDED: 3}:
            await scenario.bus.status()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended(consumer) == {Status.SUCCEEDED: 3}


async def test_a_gap_is_stepped_over(scenario: ConsumerScenario) -> None:
    """Events that retention removed before they were counted do not stop the consumer."""
    await scenario.append(runs(2))
    consumer = scenario.consumer()
    await consumer.restore()
    cap = Retention(events_count=1, events_hard_cap=1)
    await scenario.bus.prune(cap, now=NOON + timedelta(days=1))
    await drain(consumer)
    status = await scenario.bus.status()
    mine = next(
        consumer_status
        for consumer_status in status.consumers
        if consumer_status.consumer == CONSUMER
    )
    assert (mine.backlog, mine.lost > 0) == (0, True)


async def test_a_damaged_row_starts_over_and_the_others_stay(scenario: ConsumerScenario) -> None:
    """An unreadable row loses its own count only."""
    await scenario.append([*runs(1), *history(run(9, Status.FAILED, pipeline=plan(8)))])
    await drain(scenario.consumer())
    damage = Step(consumer=CONSUMER, state={DAILY.key: b"{"})
    await scenario.bus.advance(damage, timeout_seconds=5)
    consumer = scenario.consumer()
    await consumer.restore()
    assert DAILY.key not in consumer.rows
    assert ended(consumer, Identity("one", RunKind.PLAN_RUN, "8")) == {Status.FAILED: 1}


async def test_a_smaller_budget_is_applied_at_the_start_and_is_durable(
    scenario: ConsumerScenario,
) -> None:
    """After a restart with fewer series the rows fit them, and no count is lost."""
    for number in range(4):
        await scenario.append(history(run(number, Status.SUCCEEDED, pipeline=plan(number))))
    await drain(scenario.consumer())
    await scenario.consumer(places=1).restore()
    consumer = scenario.consumer(places=1)
    await consumer.restore()
    rows = [row for row in consumer.rows.values() if isinstance(row, RunCounts)]
    assert len(rows) == 2
    assert sum(row.ended[Status.SUCCEEDED] for row in rows) == 4
    assert ended(consumer, Identity("one", RunKind.PLAN_RUN, OTHER))[Status.SUCCEEDED] == 3


async def test_events_and_their_lag_are_counted_by_this_process(scenario: ConsumerScenario) -> None:
    """The lag is corrected by how far the workspace's clock is ahead of ours."""
    scenario.live_state.update_workspace("one", clock_skew_seconds=5.0)
    late = event(run(1, Status.SUCCEEDED, pipeline=plan(7)))
    untimed = msgspec.structs.replace(late, id="one:plan_run:2:succeeded", occurred_at=None)
    await scenario.append([late, untimed])
    await drain(scenario.consumer())
    value = scenario.registry.get_sample_value
    assert value("dataprep_monitor_events_total", {"type": "run.succeeded"}) == 2
    assert value("dataprep_monitor_events_total", {"type": "run.lost"}) == 0
    assert value("dataprep_monitor_event_lag_seconds_sum", {"source": "poll"}) == 7.0
    assert value("dataprep_monitor_event_lag_seconds_count", {"source": "poll"}) == 1


async def test_other_bounds_reset_the_histograms_and_no_counter(scenario: ConsumerScenario) -> None:
    """A version with other bounds cannot use the stored buckets; all else is counted on."""
    await scenario.append(runs(2))
    await drain(scenario.consumer())
    stored = await scenario.bus.consumer_state(CONSUMER)
    queue = QueueCounts(workspace="one", kind=RunKind.PLAN_RUN)
    changed: dict[str, bytes | None] = {
        key: with_bounds(value, (1.0, 60.0)) for key, value in stored.items()
    }
    await scenario.bus.advance(Step(consumer=CONSUMER, state=changed), timeout_seconds=5)

    consumer = scenario.consumer()
    await consumer.restore()
    row = consumer.rows[DAILY.key]
    assert isinstance(row, RunCounts)
    assert (row.ended, sum(row.started.values())) == ({Status.SUCCEEDED: 2}, 2)
    assert (row.durations, consumer.rows[queue.key]) == (NO_DURATIONS, queue)

    await scenario.append(runs(1, first=10))
    await drain(consumer)
    row = consumer.rows[DAILY.key]
    assert isinstance(row, RunCounts)
    assert (row.ended, sum(row.durations.counts)) == ({Status.SUCCEEDED: 3}, 1)


async def test_as_many_other_bounds_reset_the_histogram_too(scenario: ConsumerScenario) -> None:
    """The bounds are compared, not only their number: no count gets into a foreign bucket."""
    await scenario.append(runs(2))
    await drain(scenario.consumer())
    stored = (await scenario.bus.consumer_state(CONSUMER))[DAILY.key]
    shifted = with_bounds(stored, tuple(bound + 1.0 for bound in DURATION_BOUNDS))
    step = Step(consumer=CONSUMER, state={DAILY.key: shifted})
    await scenario.bus.advance(step, timeout_seconds=5)
    consumer = scenario.consumer()
    await consumer.restore()
    row = consumer.rows[DAILY.key]
    assert isinstance(row, RunCounts)
    assert (row.ended, row.durations) == ({Status.SUCCEEDED: 2}, NO_DURATIONS)


def with_bounds(value: bytes, bounds: tuple[float, ...]) -> bytes:
    """Return the row as a version with these bounds would have stored it."""
    row = msgspec.json.decode(value)
    for name in ("durations", "waits"):
        if name in row:
            buckets = {"bounds": bounds, "counts": [1] * (len(bounds) + 1), "sum": 9.0}
            row[name] = buckets
    return msgspec.json.encode(row)

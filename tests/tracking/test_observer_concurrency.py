"""Observations that overlap, are cancelled or meet a second start: memory and store agree."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from monitor.bus.contract import Change, Received
from monitor.bus.sqlite.store import SqliteBus
from monitor.model.observations import Observation
from monitor.model.runs import Pipeline, PipelineKind, RunKey, RunKind, RunState, Source, Status
from monitor.tracking.live_state import LiveState
from monitor.tracking.observer import Observer
from monitor.tracking.settings import TrackingSettings
from tests.clocks import ManualClock

FLOW = Pipeline(kind=PipelineKind.FLOW, id="11", name="Daily sales")


class DelayedReads(SqliteBus):
    """A store that answers with active runs only when the test lets it."""

    has_read: asyncio.Event
    may_answer: asyncio.Event

    @classmethod
    def around(cls, bus: SqliteBus) -> DelayedReads:
        delayed = cls.__new__(cls)
        delayed.__dict__.update(bus.__dict__)
        delayed.has_read = asyncio.Event()
        delayed.may_answer = asyncio.Event()
        return delayed

    async def active_runs(self, workspace: str) -> list[RunState]:
        runs = await super().active_runs(workspace)
        self.has_read.set()
        await self.may_answer.wait()
        return runs


class DelayedCommits(SqliteBus):
    """A store that commits only when the test lets it."""

    has_begun: asyncio.Event
    may_commit: asyncio.Event

    @classmethod
    def around(cls, bus: SqliteBus) -> DelayedCommits:
        delayed = cls.__new__(cls)
        delayed.__dict__.update(bus.__dict__)
        delayed.has_begun = asyncio.Event()
        delayed.may_commit = asyncio.Event()
        return delayed

    async def commit(
        self, change: Change, *, timeout_seconds: float, linger_seconds: float = 0.0
    ) -> tuple[Received, ...]:
        self.has_begun.set()
        await self.may_commit.wait()
        return await super().commit(
            change, timeout_seconds=timeout_seconds, linger_seconds=linger_seconds
        )


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def bus(tmp_path: Path, clock: ManualClock) -> AsyncIterator[SqliteBus]:
    opened = await SqliteBus.open(tmp_path / "state.db", clock=clock, registry=CollectorRegistry())
    yield opened
    await opened.close()


def observer_of(bus: SqliteBus, clock: ManualClock) -> tuple[Observer, LiveState]:
    live_state = LiveState(["acme"])
    observer = Observer(
        bus=bus,
        live_state=live_state,
        clock=clock,
        registry=CollectorRegistry(),
        settings=TrackingSettings(),
    )
    return observer, live_state


def key(number: int) -> RunKey:
    return RunKey("acme", RunKind.JOB_GROUP, str(number))


def observation_of(
    clock: ManualClock, number: int, word: str, pipeline: Pipeline | None = FLOW
) -> Observation:
    at = clock.now()
    return Observation(
        key=key(number),
        source=Source.POLL,
        observed_at=at,
        native_status=word,
        created_at=at,
        updated_at=at + timedelta(seconds=number),
        pipeline=pipeline,
    )


async def test_ends_observed_at_the_same_time_all_count(bus: SqliteBus, clock: ManualClock) -> None:
    """Two failures of one pipeline, observed by two polls at once, are two after a restart, too."""
    observer, live_state = observer_of(bus, clock)
    await asyncio.gather(
        *(observer.observe([observation_of(clock, number, "Failed")]) for number in range(1, 6))
    )
    again, after = observer_of(bus, clock)
    await again.open("acme")

    assert [status.consecutive_failures for status in live_state.view.pipeline_health()] == [5]
    assert after.view.pipeline_health() == live_state.view.pipeline_health()


@pytest.mark.parametrize("turns", range(6))
async def test_a_cancelled_observation_leaves_memory_and_store_alike(
    bus: SqliteBus, clock: ManualClock, turns: int
) -> None:
    """Whenever the observation is cancelled, store and live state agree on the run."""
    observer, live_state = observer_of(bus, clock)
    await observer.observe([observation_of(clock, 1, "InProgress")])
    observing = asyncio.create_task(observer.observe([observation_of(clock, 1, "Failed")]))
    for _ in range(turns):
        await asyncio.sleep(0)
    observing.cancel()
    await asyncio.gather(observing, return_exceptions=True)
    await bus.commit(Change(), timeout_seconds=5)
    stored = (await bus.runs([key(1)]))[key(1)]

    assert stored.status.is_terminal == (key(1) not in live_state.active)
    (status,) = live_state.view.pipeline_health()
    assert status.consecutive_failures == int(stored.status is Status.FAILED)


@pytest.mark.parametrize("cancellations", [1, 2, 3])
async def test_a_cancelled_observation_ends_only_with_its_commit(
    bus: SqliteBus, clock: ManualClock, cancellations: int
) -> None:
    """However often it is cancelled, no other has its turn before the commit is learned."""
    delayed = DelayedCommits.around(bus)
    observer, live_state = observer_of(delayed, clock)
    observing = asyncio.create_task(observer.observe([observation_of(clock, 1, "InProgress")]))
    await delayed.has_begun.wait()
    for _ in range(cancellations):
        observing.cancel()
        for _ in range(5):
            await asyncio.sleep(0)
        assert not observing.done()
    delayed.may_commit.set()

    with pytest.raises(asyncio.CancelledError):
        await observing
    assert key(1) in live_state.active


async def test_opening_again_does_not_bring_back_a_run_that_ends_meanwhile(
    bus: SqliteBus, clock: ManualClock
) -> None:
    """A task that starts again while another one sees an end leaves no run active forever."""
    first, _ = observer_of(bus, clock)
    await first.observe([observation_of(clock, 1, "InProgress")])
    delayed = DelayedReads.around(bus)
    delayed.may_answer.set()
    observer, live_state = observer_of(delayed, clock)
    await observer.open("acme")
    delayed.may_answer.clear()
    opening = asyncio.create_task(observer.open("acme"))
    await asyncio.wait(
        (opening, reading := asyncio.create_task(delayed.has_read.wait())),
        return_when=asyncio.FIRST_COMPLETED,
    )
    await observer.observe([observation_of(clock, 1, "Complete")])
    delayed.may_answer.set()
    await opening
    reading.cancel()

    assert live_state.active == {}


async def test_a_workspace_that_is_watched_again_is_read_again(
    bus: SqliteBus, clock: ManualClock
) -> None:
    """Left and opened again, it has its active runs and its begin of following back."""
    observer, live_state = observer_of(bus, clock)
    since = await observer.follow_since("acme", clock.now())
    await observer.open("acme")
    await observer.observe([observation_of(clock, 1, "InProgress")])
    observer.leave("acme")
    assert live_state.active == {}

    live_state.add_workspace("acme")
    assert await observer.open("acme") == since
    assert set(live_state.active) == {key(1)}


async def test_a_run_of_before_does_not_bring_back_an_old_name(
    bus: SqliteBus, clock: ManualClock
) -> None:
    """An observation without a name changes none, though the run was stored under another one."""
    observer, live_state = observer_of(bus, clock)
    await observer.observe([observation_of(clock, 1, "InProgress")])
    live_state.name_pipeline("acme", FLOW.kind, FLOW.id, "Weekly sales")
    await observer.observe([observation_of(clock, 1, "Complete", pipeline=None)])

    assert live_state.view.label("acme", FLOW) == "Weekly sales"


async def test_a_failure_of_the_observer_itself_is_raised_by_watch(
    bus: SqliteBus, clock: ManualClock
) -> None:
    """An unforeseen failure in the observer ends its watch, and with it the daemon."""
    observer, _ = observer_of(bus, clock)
    watching = asyncio.create_task(observer.watch())
    broken = observation_of(clock, 1, "Complete")
    broken = Observation(key=broken.key, source=broken.source, observed_at=None)  # type: ignore[arg-type]  # the fault
    with pytest.raises(TypeError):
        await observer.observe([broken])

    with pytest.raises(TypeError):
        await asyncio.wait_for(watching, timeout=30)


async def test_a_pipeline_that_is_gone_leaves_the_store(bus: SqliteBus, clock: ManualClock) -> None:
    """Its health leaves the store as well, and a restart shows it no more."""
    observer, live_state = observer_of(bus, clock)
    other = Pipeline(kind=PipelineKind.FLOW, id="12", name="Weekly sales")
    await observer.observe(
        [observation_of(clock, 1, "Failed"), observation_of(clock, 2, "Complete", other)]
    )
    await observer.forget_pipeline("acme", FLOW.kind, FLOW.id)
    again, after = observer_of(bus, clock)
    await again.open("acme")

    assert [status.pipeline.id for status in live_state.view.pipeline_health()] == ["12"]
    assert [status.pipeline.id for status in after.view.pipeline_health()] == ["12"]
    assert [pipeline.id for pipeline in after.view.pipelines()] == ["12"]

"""A callback that was expected and did not come is counted once, and nothing else is."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

import msgspec
import pytest

from monitor.bus.contract import Start, StoredCallback
from monitor.bus.sqlite.store import SqliteBus
from monitor.callbacks import own_tasks
from monitor.callbacks.missed_callbacks import MissedCallbackWatch
from monitor.callbacks.own_tasks import OwnTask
from monitor.callbacks.settings import CallbackSettings
from monitor.model.errors import BusUnavailableError
from monitor.model.observations import Observation
from monitor.model.runs import Parents, Pipeline, PipelineKind, RunKey, RunKind, Source
from monitor.tracking.clock_step import move
from monitor.tracking.live_state import LiveState
from monitor.tracking.observer import Observer
from tests.callbacks.conftest import job_group
from tests.clocks import ManualClock

MINUTE = timedelta(minutes=1)
FLOW = "11"


@dataclass
class Watched:
    """A flow with a task of ours, and the watch over its callbacks."""

    bus: SqliteBus
    observer: Observer
    live_state: LiveState
    clock: ManualClock
    position: int = 0

    async def ended(self, number: int = 9, **changes: object) -> None:
        """Observe in a poll the end of a job group that was created after the flow's task."""
        await self.observed(number, changes)

    async def observed(self, number: int, changes: Mapping[str, object]) -> None:
        observation = Observation(
            key=job_group(number),
            source=Source.POLL,
            observed_at=self.clock.now(),
            native_status="Complete",
            created_at=self.clock.now(),
            pipeline=Pipeline(kind=PipelineKind.FLOW, id=FLOW),
            ran_for="recipe",
        )
        await self.observer.observe([msgspec.structs.replace(observation, **changes)])

    async def called(self, number: int = 9) -> None:
        """Let a callback of that job group reach the observer."""
        await self.observer.observe(
            [
                Observation(
                    key=job_group(number),
                    source=Source.CALLBACK,
                    observed_at=self.clock.now(),
                    native_status="Complete",
                )
            ]
        )

    async def passes(self, seconds: float) -> int:
        """Advance the clock, evaluate, and return how many misses have been counted so far."""
        await self.clock.advance(seconds)
        while (reached := await self.watch().judge(self.position)) != self.position:
            self.position = reached
        return self.live_state.workspaces["acme"].callbacks_missed

    def watch(self) -> MissedCallbackWatch:
        return MissedCallbackWatch(
            "acme",
            settings=CallbackSettings(),
            bus=self.bus,
            live_state=self.live_state,
            clock=self.clock,
        )


@pytest.fixture
async def watched(
    bus: SqliteBus, observer: Observer, live_state: LiveState, clock: ManualClock
) -> Watched:
    task = OwnTask(
        flow_id=FLOW,
        task_id="1",
        task_key="k",
        created_at=clock.now() - MINUTE,
        fingerprint="f",
    )
    await own_tasks.remember(bus, "acme", task)
    await bus.subscribe(MissedCallbackWatch.consumer("acme"), start=Start.NEWEST)
    return Watched(bus=bus, observer=observer, live_state=live_state, clock=clock)


@pytest.mark.parametrize("word", ["Complete", "Failed"])
async def test_a_callback_that_did_not_come_is_counted_once(watched: Watched, word: str) -> None:
    """Up to two minutes after its end was observed it may come; after that it is missed, once."""
    await watched.ended(native_status=word)

    assert await watched.passes(119) == 0
    assert await watched.passes(2) == 1
    assert await watched.passes(600) == 1


@pytest.mark.parametrize("step", [timedelta(hours=1), -timedelta(hours=1)])
async def test_a_clock_that_is_set_moves_no_limit(watched: Watched, step: timedelta) -> None:
    """A callback is missed two minutes after its end, also where our clock is set in between."""
    created = watched.clock.now()  # by the workspace's clock, which is not set
    await watched.ended(8)
    assert await watched.passes(60) == 0
    await watched.ended(9)
    watched.clock.set_wall(watched.clock.now() + step)
    move(watched.live_state, step, now=watched.clock.now())
    await watched.clock.advance(1)
    await watched.ended(10, created_at=created)

    assert [await watched.passes(seconds) for seconds in (0, 58, 3, 56, 5)] == [0, 0, 1, 1, 3]


async def test_each_run_is_evaluated_by_itself(watched: Watched) -> None:
    """An overdue end does not count the others that are not overdue."""
    await watched.ended(1)
    await watched.ended(2)
    await watched.clock.advance(100)
    await watched.ended(3)
    await watched.called(2)

    assert await watched.passes(21) == 1
    assert await watched.passes(100) == 2


@pytest.mark.parametrize("is_late", [False, True])
async def test_a_callback_that_came_is_not_missed(watched: Watched, is_late: bool) -> None:  # noqa: FBT001 - a row
    """It counts whether it reported the end or came after a poll had reported it."""
    await watched.ended(native_status="Complete" if is_late else "InProgress")
    await watched.clock.advance(60)
    await watched.called()

    assert await watched.passes(600) == 0


@pytest.mark.parametrize(("task_flow_id", "missed"), [(None, 0), (FLOW, 0), ("12", 1)])
async def test_a_callback_that_waits_for_its_run_is_not_missed(
    watched: Watched, task_flow_id: str | None, missed: int
) -> None:
    """A callback in the inbox has come, unless the task of another flow has sent it."""
    await watched.bus.receive(
        StoredCallback(
            workspace="acme",
            kind=RunKind.JOB_GROUP,
            run_id="9",
            native_status="Complete",
            task_flow_id=task_flow_id,
            received_at=watched.clock.now(),
            fingerprint="f",
        ),
        inbox_bound=10,
        timeout_seconds=5,
    )
    await watched.ended()

    assert await watched.passes(600) == missed


@pytest.mark.parametrize(
    "changes",
    [
        {"native_status": "Canceled"},
        {"pipeline": None},
        {"pipeline": Pipeline(kind=PipelineKind.FLOW, id="12")},
        {"created_at": None},
        {"ran_for": "plan"},
        {"parents": Parents(plan_run="3")},
        {"key": RunKey("acme", RunKind.FLOW_RUN, "9")},
    ],
)
async def test_an_unexpected_callback_is_not_missed(
    watched: Watched, changes: dict[str, object]
) -> None:
    """Canceled, of a flow without our task, in a plan, or no job group: nothing is expected."""
    await watched.observed(9, changes)

    assert await watched.passes(600) == 0


async def test_a_run_older_than_the_task_is_not_expected_to_call(watched: Watched) -> None:
    """A job group that was created before its flow's task need not call it."""
    await watched.ended(created_at=watched.clock.now() - 2 * MINUTE)

    assert await watched.passes(600) == 0


async def test_a_parent_that_becomes_known_late_still_counts(watched: Watched) -> None:
    """The plan run of a flow run is often known only after the job group's end."""
    flow_run = RunKey("acme", RunKind.FLOW_RUN, "5")
    await watched.ended(parents=Parents(flow_run=flow_run.id))
    await watched.ended(10)
    for key in (flow_run, job_group(10)):
        await watched.ended(key=key, parents=Parents(plan_run="3"))

    assert await watched.passes(600) == 0


async def test_a_restart_counts_nothing_again(watched: Watched) -> None:
    """Ends evaluated before a restart are not evaluated again; the others are."""
    await watched.ended(1)
    counted = await watched.passes(121)
    await watched.ended(2)
    watched.live_state = LiveState(["acme"])
    watched.position = await watched.bus.subscribe(
        MissedCallbackWatch.consumer("acme"), start=Start.NEWEST
    )

    assert counted == 1
    assert await watched.passes(119) == 0
    assert await watched.passes(2) == 1


async def test_a_store_that_fails_counts_nothing(watched: Watched) -> None:
    """A store that cannot be read ends the watch, for its restart, and nothing is counted."""
    await watched.ended()
    running = asyncio.create_task(watched.watch().run())
    await watched.clock.advance(1)
    await watched.bus.close()
    await watched.clock.advance(600)

    with pytest.raises(BusUnavailableError):
        await asyncio.wait_for(running, 60)
    assert watched.live_state.workspaces["acme"].callbacks_missed == 0

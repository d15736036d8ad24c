"""What was confirmed before a restart: repeated with its age, and only where that is known."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from monitor.bus.sqlite import SqliteBus
from monitor.model.live_state import (
    ActiveRun,
    DoubtedList,
    Reachability,
    RefusedCapability,
    UnsharedPipeline,
)
from monitor.model.runs import Pipeline, PipelineKind, RunKind, Source
from monitor.tracking.live_state import LiveState
from monitor.tracking.status_memory import StatusMemory
from tests.app.eventually import eventually
from tests.clocks import ManualClock
from tests.full_size import counting_steps
from tests.outputs.histories import run_state

ACTIVE_RUNS = 40_000


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def bus(tmp_path: Path, clock: ManualClock) -> AsyncIterator[SqliteBus]:
    opened = await SqliteBus.open(tmp_path / "state.db", clock=clock, registry=CollectorRegistry())
    yield opened
    await opened.close()


async def life(bus: SqliteBus, clock: ManualClock) -> tuple[LiveState, StatusMemory]:
    """Return what is known just after a start: a run that was stored long ago, and the rest."""
    live_state = LiveState(["w"])
    run = run_state("2", confirmed_at=clock.now() - timedelta(days=1))
    live_state.active[run.key] = ActiveRun(
        run=run, confirmed_at=run.confirmed_at, confirmed_by=Source.POLL
    )
    memory = StatusMemory("w", bus=bus, live_state=live_state, clock=clock)
    await memory.restore()
    return live_state, memory


async def confirmed(bus: SqliteBus, clock: ManualClock) -> LiveState:
    """Live once, confirm everything now, and store it."""
    live_state, memory = await life(bus, clock)
    now = clock.now()
    refused = RefusedCapability(capability="list_plan_runs", since=now, reason="refused")
    doubted = DoubtedList(name="job groups", since=now, reason="it lacks 7")
    unshared = UnsharedPipeline(
        pipeline=Pipeline(kind=PipelineKind.FLOW, id="5"), since=now, hidden_from=now, reason="403"
    )
    live_state.update_workspace(
        "w",
        reachability=Reachability.DEGRADED,
        since=now,
        known_at=now,
        reason="plan runs",
        refused=(refused,),
        doubted=(doubted,),
        unshared={"5": unshared},
        is_remembered=False,
    )
    live_state.confirm("w", RunKind.FLOW_RUN, now)
    (active,) = live_state.active.values()
    live_state.active[active.run.key] = ActiveRun(
        run=active.run, confirmed_at=now, confirmed_by=Source.POLL
    )
    await memory.store()
    return live_state


async def test_a_restart_repeats_the_status_with_its_time(
    bus: SqliteBus, clock: ManualClock
) -> None:
    """The workspace, its lists and its active runs are as old as they are, and not older."""
    before = await confirmed(bus, clock)
    await clock.advance(40)
    after, memory = await life(bus, clock)
    known, remembered = before.workspaces["w"], after.workspaces["w"]

    assert remembered.is_remembered
    for field in ("reachability", "since", "known_at", "reason", "refused", "doubted", "unshared"):
        assert getattr(remembered, field) == getattr(known, field)
    assert after.confirmed == before.confirmed
    assert not after.complete  # no rule judges by what was not read in this life
    assert [run.confirmed_at for run in after.active.values()] == [known.known_at]

    # What was not confirmed is not stored as if it were new.
    await clock.advance(40)
    await memory.store()
    again, _ = await life(bus, clock)
    assert again.workspaces["w"].known_at == known.known_at


async def test_a_workspace_that_answered_and_confirmed_nothing_is_remembered_too(
    bus: SqliteBus, clock: ManualClock
) -> None:
    """A daemon that was stopped before its first list starts again."""
    first, now = LiveState(["w"]), clock.now()
    memory = StatusMemory("w", bus=bus, live_state=first, clock=clock)
    first.update_workspace("w", reachability=Reachability.REACHABLE, known_at=now)
    await memory.store()
    second = LiveState(["w"])
    await StatusMemory("w", bus=bus, live_state=second, clock=clock).restore()
    assert second.workspaces["w"].known_at == now


async def test_a_clock_that_was_set_back_makes_it_unknown(
    bus: SqliteBus, clock: ManualClock
) -> None:
    """A status from the future would stay fresh for as long as the jump was.

    What was wrong is known all the same: what was hidden is not well because no poll has asked yet.
    """
    before = (await confirmed(bus, clock)).workspaces["w"]
    clock.set_wall(clock.now() - timedelta(hours=1))
    after, _ = await life(bus, clock)

    status = after.workspaces["w"]
    assert status.reachability is Reachability.UNKNOWN
    assert not after.confirmed
    for field in ("refused", "doubted"):
        (known,), (was,) = getattr(status, field), getattr(before, field)
        assert known == msgspec.structs.replace(was, since=clock.now())
    assert status.unshared.keys() == before.unshared.keys()


async def test_a_killed_daemon_remembers_all_but_seconds(
    bus: SqliteBus, clock: ManualClock
) -> None:
    """The status is stored while the daemon runs, not only when it stops."""
    before, memory = await life(bus, clock)
    before.update_workspace("w", reachability=Reachability.REACHABLE, known_at=clock.now())

    async def is_stored() -> bool:
        return bool(await bus.state_entries("w", "status"))

    task = asyncio.create_task(memory.run())
    try:
        await clock.advance(16)
        await eventually(is_stored, why="not stored")
    finally:
        task.cancel()
        await asyncio.wait([task])
    after, _ = await life(bus, clock)
    assert after.workspaces["w"].reachability is Reachability.REACHABLE


async def test_of_two_pipelines_with_one_name_each_keeps_its_label(
    bus: SqliteBus, clock: ManualClock
) -> None:
    """A run names one of them before the list shows both: its series stays its own."""
    before, memory = await life(bus, clock)
    before.update_workspace("w", reachability=Reachability.REACHABLE, known_at=clock.now())
    for pipeline_id, name in (("7", "Sales"), ("12", "Sales"), ("9", "Alone")):
        before.name_pipeline("w", PipelineKind.FLOW, pipeline_id, name)
    await memory.store()
    after, _ = await life(bus, clock)
    later = Pipeline(kind=PipelineKind.FLOW, id="12", name="Sales")
    after.name_pipeline("w", PipelineKind.FLOW, later.id, later.name)

    assert before.view.label("w", later) == after.view.label("w", later) == "Sales#12"
    assert not after.view.knows("w", Pipeline(kind=PipelineKind.FLOW, id="9"))


async def test_storing_the_status_beside_many_active_runs_does_not_hold_the_loop(
    bus: SqliteBus, clock: ManualClock
) -> None:
    """The runs are gone through in slices, without a copy of each."""
    live_state, memory = await life(bus, clock)
    now = clock.now()
    live_state.update_workspace(
        "w", reachability=Reachability.REACHABLE, since=now, known_at=now, is_remembered=False
    )
    for number in range(ACTIVE_RUNS):
        run = run_state(str(number), confirmed_at=now)
        live_state.active[run.key] = ActiveRun(run=run, confirmed_at=now, confirmed_by=Source.POLL)
    with counting_steps() as longest:
        await asyncio.create_task(memory.store(), name="status memory")

    assert (await life(bus, clock))[0].workspaces["w"].known_at == now
    longest.assert_short()

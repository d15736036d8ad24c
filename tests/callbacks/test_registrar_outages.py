"""While a workspace fails its webhook tasks stay as known; afterwards they are made soon."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.app.eventually import eventually, pause
from tests.callbacks.registering import Scenario, open_scenario
from tests.callbacks.test_registrar import states
from tests.clocks import ManualClock


@pytest.fixture
async def rl(clock: ManualClock, tmp_path: Path) -> AsyncIterator[Scenario]:
    async with open_scenario(clock, tmp_path) as opened:
        yield opened


async def test_a_flow_that_cannot_be_read_delays_no_other(rl: Scenario, clock: ManualClock) -> None:
    """The refused flow fails with its reason and is read less and less; the others are served."""
    closed = rl.flow_ids()[1]
    rl.gate.refuse("GET", f"/v4/flows/{closed}", 403, "AccessControlException")
    registrar = rl.registrar(rl.settings("*"))
    task_statuses = await registrar.sync()
    failed = next(status for status in task_statuses if status.flow_id == str(closed))

    assert (failed.state, "403" in (failed.reason or "")) == ("failed", True)
    assert states(rl) == {"registered": len(rl.flow_ids()) - 1, "failed": 1}
    rl.gate.requests.clear()
    for _ in range(3_600):
        await clock.advance(1)
        await registrar.work_on_next()
    assert 3 <= rl.gate.count("GET", f"/v4/flows/{closed}") <= 9
    rl.gate.refused.clear()
    await registrar.sync(str(closed))
    assert states(rl) == {"registered": len(rl.flow_ids())}


async def test_an_outage_changes_nothing_that_was_known(rl: Scenario, clock: ManualClock) -> None:
    """While the workspace fails no task is failed, and it is requested ever less often."""
    registrar = rl.registrar(rl.settings("*", verify_seconds=60.0))
    await registrar.sync()
    before = registrar.task_statuses()
    await clock.advance(61)
    rl.gate.refuse("GET", "/", 503, "Unavailable")
    rl.gate.requests.clear()
    passed = 0.0
    while passed < 600:
        pause = await registrar.work_on_next()
        await clock.advance(pause)
        passed += pause

    assert registrar.task_statuses() == before
    assert 1 <= len(rl.gate.requests) <= 12
    rl.gate.refused.clear()
    with_delay = [await registrar.work_on_next() for _ in range(2)]
    assert all(pause <= 5 for pause in with_delay)


@pytest.mark.parametrize("which", ["one", "all"])
async def test_the_end_of_an_outage_ends_the_wait(
    rl: Scenario, clock: ManualClock, which: str
) -> None:
    """However long it was, all tasks are made within a minute of the workspace's first answer."""
    flows = rl.flow_ids() if which == "all" else rl.flow_ids()[:1]
    registrar = rl.registrar(rl.settings(*map(str, flows)))
    answering = rl.client.requester.answering
    for method in ("GET", "POST"):
        rl.gate.refuse(method, "/", 503, "Unavailable")
    running = asyncio.create_task(registrar.run(), name="registrar of a test")
    try:
        await eventually(lambda: bool(rl.gate.requests), why="nothing was asked")
        answering.clear()  # as the polls find out
        for _ in range(360):
            await clock.advance(10)
            await pause(0.005)
        rl.gate.refused.clear()
        answering.set()
        began = clock.monotonic()

        async def are_made() -> bool:
            await clock.advance(1)
            return rl.flows_with_tasks() == flows

        await eventually(are_made, why=rl.flows_with_tasks)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    assert clock.monotonic() - began <= 60
    assert len(rl.gate.requests) <= 40 + 4 * len(flows)

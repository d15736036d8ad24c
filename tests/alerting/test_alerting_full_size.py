"""No cycle of alerting holds the event loop, however many runs are active."""

from __future__ import annotations

from pathlib import Path

import msgspec

from monitor.model.runs import RunKey, RunKind
from tests.alerting.engine_scenario import WORKSPACE, engine_scenario
from tests.full_size import LINES_IN_A_STEP, counting_steps, fill

ACTIVE_RUNS = 40_000


async def test_no_cycle_over_many_active_runs_holds_the_loop(tmp_path: Path) -> None:
    """Each step of a cycle goes over some of the active runs, never over all of them."""
    async with engine_scenario(tmp_path) as scenario:
        fill(scenario.live_state, WORKSPACE, now=scenario.clock.now())
        active = scenario.live_state.active
        some = list(active.values())
        for number in range(ACTIVE_RUNS - len(some)):
            sample = some[number % len(some)]
            key = RunKey(WORKSPACE, RunKind.JOB_GROUP, f"b{number}")
            run = msgspec.structs.replace(sample.run, key=key)
            active[key] = msgspec.structs.replace(sample, run=run)
        await scenario.round()

        with counting_steps() as longest:
            await scenario.round()

    assert longest.lines <= LINES_IN_A_STEP, f"{longest.name}: {longest.lines} lines in one step"

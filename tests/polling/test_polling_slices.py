"""Work over many items lets other tasks have their turn: counted in items for each turn."""

from __future__ import annotations

import asyncio
from itertools import pairwise

from tests.polling.conftest import Scenario
from tests.polling.test_polling_woken import commits
from tests.polling.tiny_workspace import TinyWorkspace

_MANY = 1_000
_AT_ONCE = 50


async def test_names_are_learned_in_slices(scenario: Scenario, workspace: TinyWorkspace) -> None:
    """Of a thousand flows, no more than fifty are named before others have their turn."""
    workspace.tables["flows"] = {
        number: {"id": number, "name": f"flow {number}"} for number in range(1, _MANY + 1)
    }
    naming = asyncio.create_task(scenario.polls.pipeline_names.poll(), name="names")
    named = [0]
    while not naming.done():
        named.append(len(scenario.live_state.names.all()))
        await asyncio.sleep(0)
    await naming
    named.append(len(scenario.live_state.names.all()))

    steps = [after - before for before, after in pairwise(named)]
    assert named[-1] == _MANY
    assert max(steps) <= _AT_ONCE


async def test_rows_are_observed_in_slices(scenario: Scenario, workspace: TinyWorkspace) -> None:
    """A thousand ends of one poll hold the observer for fifty at a time."""
    for number in range(1, _MANY + 1):
        workspace.put_job_group(number, "Complete")
    stored = commits(scenario)
    await scenario.polls.changes.poll()

    assert commits(scenario) - stored >= _MANY / _AT_ONCE

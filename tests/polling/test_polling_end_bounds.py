"""A run is known to go on as of when it was read, not as of when the answer was handled."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from monitor.model.runs import RunKind
from tests.clocks import ManualClock
from tests.polling.conftest import Scenario, until
from tests.polling.tiny_workspace import TinyWorkspace

POLLS = {
    "job_groups": (RunKind.JOB_GROUP, "jobLibrary", "changes"),
    "plan_runs": (RunKind.PLAN_RUN, "planSnapshotRuns", "plan_runs"),
}


@pytest.mark.parametrize("name", list(POLLS))
async def test_a_slow_answer_shows_no_more_than_when_it_was_requested(
    name: str, scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """The run may have ended while the answer was on its way."""
    kind, path, poll = POLLS[name]
    await scenario.poll(poll)
    put = workspace.put_job_group if kind is RunKind.JOB_GROUP else workspace.put_plan_run
    put(1)
    requested_at = workspace.now()
    workspace.holds[path] = asyncio.Event()
    before = workspace.count(path)
    polling = asyncio.create_task(_poll(scenario, poll), name="poll")
    await until(lambda: workspace.count(path) > before)
    await clock.advance(20)
    workspace.holds[path].set()
    await polling

    state = await scenario.state(1, kind)
    assert state is not None
    assert state.unfinished_at is not None
    assert abs(state.unfinished_at - requested_at) <= timedelta(seconds=1)


async def test_a_slow_read_by_id_shows_no_more_either(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """The same for a run that is read by its id."""
    workspace.put_job_group(1)
    requested_at = workspace.now()
    workspace.holds["jobGroups/1"] = asyncio.Event()
    reading = asyncio.create_task(_confirm(scenario), name="read")
    await until(lambda: workspace.count("jobGroups/1") > 0)
    await clock.advance(20)
    workspace.holds["jobGroups/1"].set()
    await reading

    state = await scenario.state(1)
    assert state is not None
    assert state.unfinished_at is not None
    assert abs(state.unfinished_at - requested_at) <= timedelta(seconds=1)


async def _poll(scenario: Scenario, name: str) -> None:
    await scenario.poll(name)


async def _confirm(scenario: Scenario) -> None:
    assert await scenario.polls.by_id.confirm(scenario.key(1))

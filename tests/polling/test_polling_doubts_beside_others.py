"""Doubts of a list beside a restart, another list that is read meanwhile, and another kind."""

from __future__ import annotations

from typing import Any

import pytest

from monitor.model.errors import MonitorError
from monitor.model.runs import RunKind
from tests.clocks import ManualClock
from tests.polling.conftest import Scenario
from tests.polling.test_polling_lying_lists import BOTH, KINDS, NAMES, TABLES, doubted, fails, put
from tests.polling.tiny_workspace import TinyWorkspace


@BOTH
async def test_a_restart_does_not_believe_what_was_doubted(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock, poll: str
) -> None:
    """Rows that the store knows to be in the window must be listed also after a restart."""
    put(workspace, poll, 1, "Complete")
    await scenario.poll(poll)
    workspace.unlisted[TABLES[poll]] = workspace.EVERYTHING
    await clock.advance(30)
    await fails(scenario, poll)
    stood_at = getattr(scenario.polls, poll).watermark.at
    await scenario.restart()
    put(workspace, poll, 2, "Failed")
    await fails(scenario, poll)
    assert getattr(scenario.polls, poll).watermark.at == stood_at
    assert doubted(scenario) == [NAMES[poll]]

    workspace.unlisted.clear()
    await clock.advance(600)
    await scenario.poll(poll)
    assert "2:failed" in await scenario.run_events(KINDS[poll])
    assert doubted(scenario) == []


@BOTH
async def test_a_write_that_only_its_id_has_shown_may_come_late_over_a_restart(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock, poll: str
) -> None:
    """The next life's first list may be as late as any other: it is doubted no sooner."""
    for number in (1, 2):
        put(workspace, poll, number)
    await scenario.poll(poll)
    await clock.advance(30)
    put(workspace, poll, 1, "Complete")
    workspace.unlisted[TABLES[poll]] = {1}
    await scenario.poll("reconciliation")
    assert "1:succeeded" in await scenario.run_events(KINDS[poll])
    await scenario.restart()
    await scenario.poll(poll)
    assert doubted(scenario) == []

    await clock.advance(scenario.context.settings.overlap_seconds + 1)
    assert "lacks 1" in await fails(scenario, poll)


@BOTH
async def test_a_run_that_another_list_shows_meanwhile_is_not_missed(
    scenario: Scenario, workspace: TinyWorkspace, poll: str
) -> None:
    """A run that begins after the answer of the change list need not be in that answer."""
    put(workspace, poll, 1)
    await scenario.poll(poll)
    requester = scenario.client.requester
    answered = requester.request

    async def reconcile_behind(operation_id: str, *values: object, **more: Any) -> Any:
        answer = await answered(operation_id, *values, **more)
        if "status" not in (more.get("query") or {}) and 2 not in workspace.tables[TABLES[poll]]:
            put(workspace, poll, 2)
            await scenario.poll("reconciliation")
        return answer

    requester.request = reconcile_behind  # type: ignore[method-assign]  # the answer is on its way
    await scenario.poll(poll)
    assert doubted(scenario) == []
    assert [kind for kind in ("2:queued", "2:started") if kind in await scenario.run_events()]


@BOTH
async def test_a_kind_that_vanishes_is_not_recognized_by_the_other(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock, poll: str
) -> None:
    """Three runs of one kind are denied beside an empty list, while the other kind is as ever."""
    other = "plan_runs" if poll == "changes" else "changes"
    for number in (1, 2, 3):
        put(workspace, poll, number)
        put(workspace, other, 10 + number)
    await scenario.poll(poll)
    await scenario.poll(other)
    kept = dict(workspace.tables[TABLES[poll]])
    workspace.tables[TABLES[poll]].clear()
    for _ in range(5):
        await clock.advance(300)
        put(workspace, other, 11)
        await scenario.poll(other)
        with pytest.raises(MonitorError):
            await scenario.poll("reconciliation")
        await fails(scenario, poll)
    assert doubted(scenario) == [NAMES[poll]]

    workspace.tables[TABLES[poll]].update(kept)
    await scenario.poll(poll)
    assert not [event for event in await scenario.run_events() if event.endswith("lost")]


async def test_a_flow_run_that_answers_does_not_vouch_for_its_job_groups(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """Job groups denied by list and id are not lost while only their flow run answers."""
    workspace.put_flow_run(71)
    for number in (1, 2, 3):
        workspace.put_job_group(number, flowRun={"id": 71})
    await scenario.poll("changes")
    assert scenario.key(71, RunKind.FLOW_RUN) in scenario.live_state.active
    kept = dict(workspace.tables["jobLibrary"])
    workspace.tables["jobLibrary"].clear()
    for _ in range(5):
        await clock.advance(300)
        with pytest.raises(MonitorError):
            await scenario.poll("reconciliation")
    assert doubted(scenario) == ["job groups"]

    workspace.tables["jobLibrary"].update(kept)
    await scenario.poll("changes")
    assert not [event for event in await scenario.run_events() if event.endswith("lost")]

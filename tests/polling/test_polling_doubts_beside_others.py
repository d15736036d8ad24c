"""Doubts of a list beside a restart, another list that is read meanwhile, and another kind."""

from __future__ import annotations

from typing import Any

import pytest

from monitor.model.errors import MonitorError
from monitor.model.runs import RunKind
from tests.clocks import ManualClock
from tests.polling.conftest import Scene
from tests.polling.test_polling_lying_lists import BOTH, KINDS, NAMES, TABLES, doubted, fails, put
from tests.polling.tiny_workspace import TinyWorkspace


@BOTH
async def test_a_restart_does_not_believe_what_was_doubted(
    scene: Scene, workspace: TinyWorkspace, clock: ManualClock, poll: str
) -> None:
    """What the store knows to be in the window must be listed also after a restart."""
    put(workspace, poll, 1, "Complete")
    await scene.poll(poll)
    workspace.unlisted[TABLES[poll]] = workspace.EVERYTHING
    await clock.advance(30)
    await fails(scene, poll)
    stood_at = getattr(scene.polls, poll).watermark.at
    await scene.restart()
    put(workspace, poll, 2, "Failed")
    await fails(scene, poll)
    assert getattr(scene.polls, poll).watermark.at == stood_at
    assert doubted(scene) == [NAMES[poll]]

    workspace.unlisted.clear()
    await clock.advance(600)
    await scene.poll(poll)
    assert "2:failed" in await scene.run_events(KINDS[poll])
    assert doubted(scene) == []


@BOTH
async def test_a_write_that_only_its_id_has_shown_may_come_late_over_a_restart(
    scene: Scene, workspace: TinyWorkspace, clock: ManualClock, poll: str
) -> None:
    """The next life's first list may be as late as any other: it is doubted no sooner."""
    for number in (1, 2):
        put(workspace, poll, number)
    await scene.poll(poll)
    await clock.advance(30)
    put(workspace, poll, 1, "Complete")
    workspace.unlisted[TABLES[poll]] = {1}
    await scene.poll("reconciliation")
    assert "1:succeeded" in await scene.run_events(KINDS[poll])
    await scene.restart()
    await scene.poll(poll)
    assert doubted(scene) == []

    await clock.advance(scene.context.settings.overlap_seconds + 1)
    assert "lacks 1" in await fails(scene, poll)


@BOTH
async def test_what_another_list_shows_meanwhile_is_not_missed(
    scene: Scene, workspace: TinyWorkspace, poll: str
) -> None:
    """A run that begins after the answer of the change list need not be in that answer."""
    put(workspace, poll, 1)
    await scene.poll(poll)
    requester = scene.client.requester
    answered = requester.request

    async def reconcile_behind(operation_id: str, *values: object, **more: Any) -> Any:
        answer = await answered(operation_id, *values, **more)
        if "status" not in (more.get("query") or {}) and 2 not in workspace.tables[TABLES[poll]]:
            put(workspace, poll, 2)
            await scene.poll("reconciliation")
        return answer

    requester.request = reconcile_behind  # type: ignore[method-assign]  # the answer is on its way
    await scene.poll(poll)
    assert doubted(scene) == []
    assert [kind for kind in ("2:queued", "2:started") if kind in await scene.run_events()]


@BOTH
async def test_a_kind_that_vanishes_is_not_recognized_by_the_other(
    scene: Scene, workspace: TinyWorkspace, clock: ManualClock, poll: str
) -> None:
    """Three runs of one kind are denied beside an empty list, while the other kind is as ever."""
    other = "plan_runs" if poll == "changes" else "changes"
    for number in (1, 2, 3):
        put(workspace, poll, number)
        put(workspace, other, 10 + number)
    await scene.poll(poll)
    await scene.poll(other)
    kept = dict(workspace.tables[TABLES[poll]])
    workspace.tables[TABLES[poll]].clear()
    for _ in range(5):
        await clock.advance(300)
        put(workspace, other, 11)
        await scene.poll(other)
        with pytest.raises(MonitorError):
            await scene.poll("reconciliation")
        await fails(scene, poll)
    assert doubted(scene) == [NAMES[poll]]

    workspace.tables[TABLES[poll]].update(kept)
    await scene.poll(poll)
    assert not [event for event in await scene.run_events() if event.endswith("lost")]


async def test_a_flow_run_that_answers_does_not_vouch_for_its_job_groups(
    scene: Scene, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """Job groups denied by list and id are not lost while only their flow run answers."""
    workspace.put_flow_run(71)
    for number in (1, 2, 3):
        workspace.put_job_group(number, flowRun={"id": 71})
    await scene.poll("changes")
    assert scene.key(71, RunKind.FLOW_RUN) in scene.live_state.active
    kept = dict(workspace.tables["jobLibrary"])
    workspace.tables["jobLibrary"].clear()
    for _ in range(5):
        await clock.advance(300)
        with pytest.raises(MonitorError):
            await scene.poll("reconciliation")
    assert doubted(scene) == ["job groups"]

    workspace.tables["jobLibrary"].update(kept)
    await scene.poll("changes")
    assert not [event for event in await scene.run_events() if event.endswith("lost")]

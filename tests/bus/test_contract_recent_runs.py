"""Runs found by their newest creation: by pipeline, by time, and page by page."""

from __future__ import annotations

from msgspec.structs import replace

from monitor.bus.contract import Change, EventBus
from monitor.model.runs import Pipeline, PipelineKind, RunKind, RunState, Status
from tests.bus.examples import SOON, at, key, run


def of_flow(state: RunState, flow: str) -> RunState:
    return replace(state, pipeline=Pipeline(kind=PipelineKind.FLOW, id=flow))


async def test_pages_show_every_run_once(bus: EventBus) -> None:
    """Page by page every run comes once in order, though several were created at one time."""
    kinds, statuses = list(RunKind), list(Status)
    stored = [
        run(
            number,
            statuses[number % 6],
            kind=kinds[number % 3],
            workspace=f"w{number % 2}",
            created_at=at(number // 7),
        )
        for number in range(40)
    ]
    await bus.commit(Change(runs=tuple(stored)), timeout_seconds=SOON)

    shown: list[RunState] = await bus.recent_runs(limit=9)
    while page := await bus.recent_runs(before=shown[-1].key, limit=9):
        shown += page

    assert shown == stored[::-1]


async def test_nothing_comes_after_a_run_that_is_not_stored(bus: EventBus) -> None:
    """A run that was forgotten, or never known, has no place to go on from."""
    await bus.commit(Change(runs=(run(1), run(2))), timeout_seconds=SOON)

    assert await bus.recent_runs(before=key(3), limit=9) == []
    assert await bus.recent_runs(before=key(1), limit=9) == []


async def test_runs_of_some_pipelines_and_statuses(bus: EventBus) -> None:
    """Pipelines, statuses, first creation and the place in the list each narrow the answer."""
    stored = [
        of_flow(run(number, status), flow)
        for number, (status, flow) in enumerate(
            (status, flow)
            for status in (Status.FAILED, Status.RUNNING, Status.SUCCEEDED)
            for flow in ("7", "8", "9")
        )
    ]
    await bus.commit(Change(runs=tuple(stored)), timeout_seconds=SOON)
    seven, eight = (("marketing", RunKind.JOB_GROUP, flow) for flow in ("7", "8"))
    find = bus.recent_runs

    assert await find(pipelines=[seven, eight], limit=9) == [stored[i] for i in (7, 6, 4, 3, 1, 0)]
    assert await find(pipelines=[], limit=9) == []
    assert await find(pipelines=[seven], workspaces=["other"], limit=9) == []
    assert await find(pipelines=[seven], kind=RunKind.FLOW_RUN, limit=9) == []
    ended = [Status.FAILED, Status.SUCCEEDED]
    assert await find(pipelines=[eight], statuses=ended, limit=9) == [stored[7], stored[1]]
    assert await find(statuses=ended, since=at(2), limit=9) == [*stored[:5:-1], stored[2]]
    behind = stored[6].key
    assert await find(pipelines=[seven], since=at(1), before=behind, limit=9) == [stored[3]]

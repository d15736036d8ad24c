"""Faults of lists, observed over HTTP: rows late, moved, swapped or unreadable."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from typing import Any

import pytest

from monitor.sandbox.api.response.faults import POISON_ID
from tests.sandbox.http_workspace import Workspace, open_workspace

LIBRARY = "/v4/jobLibrary"
LISTS = ("/v4/jobLibrary", "/v4/jobGroups")
COUNTS = ("/v4/jobLibrary/count", "/v4/planSnapshotRuns/count")


@pytest.fixture
async def workspace() -> AsyncIterator[Workspace]:
    async with open_workspace() as opened:
        yield opened


async def pages(workspace: Workspace, *, size: int, **query: str) -> list[list[Any]]:
    """Read the job library by pages in the order of ids until a page is not full."""
    found: list[list[Any]] = []
    while not found or len(found[-1]) == size:
        offset = str(size * len(found))
        answer = await workspace.get(LIBRARY, sort="id", limit=str(size), offset=offset, **query)
        found.append(answer.body["data"])
    return found


def ids(page: list[Any]) -> list[int]:
    return [row["id"] for row in page]


@pytest.mark.parametrize("path", LISTS)
async def test_a_late_row_appears_before_the_overlap(workspace: Workspace, path: str) -> None:
    """It is readable by its id at once, and listed late with the stamp of its change."""
    workspace.world.options.late_rows = 1.0
    workspace.world.options.late_seconds = 90.0
    job_group = workspace.job_group()
    changed_at = (await workspace.get(f"/v4/jobGroups/{job_group.id}")).body["updatedAt"]
    await workspace.clock.advance(89)
    assert (await workspace.get(path)).ids == []
    await workspace.clock.advance(2)
    (row,) = (await workspace.get(path)).body["data"]
    assert (row["id"], row["updatedAt"]) == (job_group.id, changed_at)
    workspace.engine.edit(job_group, name="renamed")
    assert (await workspace.get(path)).ids == []


async def test_plan_runs_and_counts_are_late_too(workspace: Workspace) -> None:
    """Counts agree with the lists that they count."""
    workspace.world.options.late_rows = 1.0
    plan_run = workspace.engine.start_plan_run(
        workspace.things.nightly, by=workspace.things.owner.id
    )
    workspace.job_group()
    assert (await workspace.get("/v4/planSnapshotRuns")).ids == []
    assert [(await workspace.get(path)).body["count"] for path in COUNTS] == [0, 0]
    await workspace.clock.advance(121)
    assert (await workspace.get("/v4/planSnapshotRuns")).ids == [plan_run.id]
    assert [(await workspace.get(path)).body["count"] for path in COUNTS] == [1, 1]


async def test_only_some_rows_are_late(workspace: Workspace) -> None:
    """The ratio chooses runs, not requests: the same are missing in every answer."""
    workspace.world.options.late_rows = 0.4
    everything = {workspace.job_group().id for _ in range(40)}
    first = set((await workspace.get(LIBRARY, limit="100")).ids)
    assert first == set((await workspace.get(LIBRARY, limit="100")).ids)
    assert 8 <= len(everything - first) <= 24


async def test_missing_rows_are_in_no_list_and_no_count(workspace: Workspace) -> None:
    """Their ids still show them; with the ratio of 1 every list is empty."""
    made = {workspace.job_group().id for _ in range(40)}
    workspace.world.options.missing_rows = 0.5
    some = (await workspace.get(LIBRARY, limit="100", includeCount="true")).body
    shown = {row["id"] for row in some["data"]}
    assert 8 <= len(made - shown) <= 32
    assert some["count"] == len(shown)
    assert [
        (await workspace.get(f"/v4/jobGroups/{id_}")).status for id_ in sorted(made - shown)
    ] == [200] * len(made - shown)

    workspace.world.options.missing_rows = 1.0
    for path in ("/v4/jobLibrary", "/v4/flows", "/v4/plans", "/v4/schedules"):
        assert (await workspace.get(path)).ids == []


async def test_a_page_has_at_most_the_capped_rows(workspace: Workspace) -> None:
    """Whatever the limit says, and the count still counts them all."""
    made = [workspace.job_group().id for _ in range(10)]
    workspace.world.options.page_cap = 4
    query = {"sort": "id", "limit": "100", "includeCount": "true"}
    answers = [await workspace.get(LIBRARY, offset=str(at), **query) for at in (0, 4, 8)]
    assert [id_ for answer in answers for id_ in answer.ids] == made
    assert [len(answer.ids) for answer in answers] == [4, 4, 2]
    assert {answer.body["count"] for answer in answers} == {10}


@pytest.mark.parametrize(
    ("shift", "positions"), [(1, [0, 1, 2, 4, 5, 6]), (-1, [0, 1, 2, 2, 3, 4])]
)
async def test_a_page_boundary_moves(
    workspace: Workspace, shift: int, positions: list[int]
) -> None:
    """Between two pages rows move: one is hidden at the boundary, or shown twice."""
    made = [workspace.job_group().id for _ in range(8)]
    workspace.world.options.shifted_pages = 1.0
    workspace.world.options.page_shift = shift
    first, second, *_ = await pages(workspace, size=3)
    assert ids(first) + ids(second) == [made[position] for position in positions]


async def test_boundaries_move_by_chance(workspace: Workspace) -> None:
    """Without a number the rows move by one, now forward and now back."""
    for _ in range(60):
        workspace.job_group()
    workspace.world.options.shifted_pages = 0.5
    read = [row for page in await pages(workspace, size=3) for row in ids(page)]
    steps = {after - before for before, after in itertools.pairwise(read)}
    assert {0, 1, 2} <= steps <= {-1, 0, 1, 2, 3}


async def test_rows_are_swapped_in_a_page(workspace: Workspace) -> None:
    """The page has its rows, in another order than the requested one."""
    made = [workspace.job_group().id for _ in range(12)]
    workspace.world.options.shuffled_pages = 1.0
    (page,) = await pages(workspace, size=50)
    assert ids(page) != made
    assert sorted(ids(page)) == made


@pytest.mark.parametrize("kind", ["types", "id", "text"])
async def test_a_poison_row_stays_first(workspace: Workspace, kind: str) -> None:
    """Whatever the order, it is the first row; the pages still hold every other row once."""
    made = [workspace.job_group().id for _ in range(7)]
    workspace.world.options.poison_row = kind  # type: ignore[assignment]  # one of its words
    future = str(int(workspace.clock.now().timestamp() * 1_000) + 10**9)
    (alone,) = await pages(workspace, size=5, **{"dateFilter[updatedAt][gte]": future})
    (poison,) = alone
    assert not isinstance(poison, dict) or not isinstance(poison.get("updatedAt"), int)
    read = await pages(workspace, size=3, includeCount="true")
    assert read[0][0] == poison
    assert [row["id"] for row in [*read[0][1:], *read[1], *read[2]]] == made
    assert (await workspace.get(LIBRARY, limit="1")).body["data"] == [poison]
    assert (await workspace.get("/v4/jobLibrary/count")).body["count"] == 8
    assert (await workspace.get(f"/v4/jobGroups/{POISON_ID}")).status == 404
    assert (await workspace.get("/v4/jobGroups", limit="100")).ids == made[::-1]


async def test_snapshots_may_be_forbidden(workspace: Workspace) -> None:
    """The id that a plan run names is refused, the plan's own id is not."""
    workspace.world.options.forbidden_snapshots = True
    owner, plan = workspace.things.owner, workspace.things.nightly
    run = workspace.engine.start_plan_run(plan, by=owner.id)
    shown = (await workspace.get(f"/v4/planSnapshotRuns/{run.id}")).body["plan"]["id"]
    assert shown != plan.id
    answer = await workspace.get(f"/v4/plans/{shown}/full")
    assert answer.is_refused(403, "AccessControlException", str(shown))
    assert (await workspace.get(f"/v4/plans/{plan.id}/full")).status == 200


@pytest.mark.parametrize("named", ["at once", "late"])
async def test_a_plans_record_may_name_its_results_late(workspace: Workspace, named: str) -> None:
    """With the fault, what a plan run started is named after its end; without it, at once."""
    workspace.world.options.late_plan_results = named == "late"
    plan = workspace.things.nightly
    run = workspace.engine.start_plan_run(plan, by=workspace.things.owner.id)

    async def results() -> list[Any]:
        full = (await workspace.get(f"/v4/plans/{run.snapshot_id}/full")).body
        runs = [node["planTaskSnapshotRuns"]["data"] for node in full["planNodes"]["data"]]
        return [
            result["jobGroup"]["id"]
            for task_run in itertools.chain(*runs)
            for result in task_run["planFlowTaskRunResults"]["data"]
        ]

    work = asyncio.create_task(workspace.engine.run(), name="engine")
    while not list(workspace.world.job_groups.live()):
        await workspace.clock.advance(1)
    assert bool(await results()) is (named == "at once")
    while not run.status.is_over:
        await workspace.clock.advance(10)
    assert await results()
    work.cancel()
    await asyncio.wait({work})


async def test_rows_are_bare(workspace: Workspace) -> None:
    """Rows of the job library show neither flow nor flow run, and by its id a run shows them."""
    workspace.world.options.library_rows = "bare"
    workspace.engine.start_flow_run(workspace.things.orders, by=workspace.things.owner.id)
    row = (await workspace.get(LIBRARY)).body["data"][0]
    assert "flowRun" not in row
    assert "flow" not in row["wrangledDataset"]
    assert (await workspace.get(f"/v4/jobGroups/{row['id']}")).body["flowRun"] is not None

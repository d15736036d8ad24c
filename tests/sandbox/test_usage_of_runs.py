"""Usage is the sum of the jobs that worked, cut in different ways."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from monitor.catalogue.operations import Edition
from monitor.sandbox.world.records.runs import JobGroup
from tests.sandbox.http_workspace import Workspace, open_workspace

COMPUTE = "/v4/usages/jobMetrics/compute"
DETAILED = "/v4/usages/jobMetrics/detailedReport/compute"
PROJECT = "/v4/usages/userMetrics/projects/sandbox"
ENTITLEMENT = "/v4/usages/userMetrics/entitlements/sandbox-entitlement"
ALL = (COMPUTE, DETAILED, PROJECT, ENTITLEMENT)
TOTALS = ("jobGroups", "jobs", "computeSeconds")


def worked(workspace: Workspace, job_group: JobGroup, *, after: timedelta, seconds: float) -> None:
    """Let all jobs of a job group work one after the other, from ``after`` now on."""
    at = workspace.clock.now() + after
    for job in workspace.world.jobs_of(job_group):
        job.started_at, at = at, at + timedelta(seconds=seconds)
        job.finished_at = at


async def report(workspace: Workspace, root: str, start: str, end: str) -> dict[str, Any]:
    answer = await workspace.get(f"{root}/from/{start}/to/{end}")
    assert answer.status == 200, answer.content
    body: dict[str, Any] = answer.body
    return body


def sums(rows: list[dict[str, Any]]) -> dict[str, float]:
    return {name: sum(row[name] for row in rows) for name in TOTALS}


async def furnish(workspace: Workspace) -> tuple[JobGroup, JobGroup]:
    """Let the owner's job group work today and the colleague's tomorrow; a third one waits."""
    things = workspace.things
    mine = workspace.job_group(things.clean, profiling=True)
    theirs = workspace.job_group(things.count, by=things.colleague)
    workspace.job_group(things.totals)
    worked(workspace, mine, after=timedelta(0), seconds=10)
    worked(workspace, theirs, after=timedelta(days=1), seconds=2.5)
    return mine, theirs


async def test_all_reports_have_the_same_totals() -> None:
    """Days and engines, job groups and people add up to the seconds that the jobs worked."""
    async with open_workspace(Edition.PL) as workspace:
        mine, theirs = await furnish(workspace)
        reports = [await report(workspace, root, "2026-11-21", "2026-11-22") for root in ALL]

    expected = {
        "jobGroups": 2,
        "jobs": len(mine.job_ids) + len(theirs.job_ids),
        "computeSeconds": 10.0 * len(mine.job_ids) + 2.5 * len(theirs.job_ids),
    }
    for other_report in reports:
        assert {name: other_report[name] for name in TOTALS} == expected
        assert sums(other_report["data"])["jobs"] == expected["jobs"]
        assert sums(other_report["data"])["computeSeconds"] == expected["computeSeconds"]
    assert [row["jobGroupId"] for row in reports[1]["data"]] == [mine.id, theirs.id]
    assert {row["date"] for row in reports[0]["data"]} == {"2026-11-21", "2026-11-22"}
    assert [row["jobGroups"] for row in reports[2]["data"]] == [1, 1, 0]
    assert reports[2]["users"] == 2


async def test_a_day_as_the_end_is_included_and_an_instant_is_not() -> None:
    """Jobs that began in the last day count; one that began at the last instant does not."""
    async with open_workspace(Edition.PL) as workspace:
        await furnish(workspace)
        day = await report(workspace, COMPUTE, "2026-11-20", "2026-11-21")
        until = await report(workspace, COMPUTE, "2026-11-20", "2026-11-21T10:00:00Z")
        milliseconds = await report(workspace, COMPUTE, "1795255200000", "1795255200001")
        none = await report(workspace, COMPUTE, "2026-11-23", "2026-11-23")

    assert (day["jobGroups"], until["jobGroups"]) == (1, 0)
    assert day["to"] == "2026-11-22T00:00:00.000Z"
    assert milliseconds["from"] == "2026-11-21T10:00:00.000Z"
    assert milliseconds["jobs"] == 1
    assert (none["jobGroups"], none["computeSeconds"], none["data"]) == (0, 0, [])


@pytest.mark.parametrize("root", ALL)
@pytest.mark.parametrize(
    ("start", "end", "field"),
    [
        ("soon", "2026-11-21", "from"),
        ("2026-11-21", "2026-13-01", "to"),
        ("2026-11-21", "2026-11-01", "to"),
        ("0001-01-01T00:00:00+10:00", "2026-11-21", "from"),
    ],
)
async def test_a_value_that_is_no_period_is_refused(
    root: str, start: str, end: str, field: str
) -> None:
    """The refusal names the end of the period that is wrong."""
    async with open_workspace(Edition.PL) as workspace:
        answer = await workspace.get(f"{root}/from/{start}/to/{end}")

    assert answer.is_refused(400, "ValidationFailed", f'"{field}"')


async def test_the_ends_of_time_are_a_period() -> None:
    """From the first day to the last one everything is there."""
    async with open_workspace(Edition.PL) as workspace:
        await furnish(workspace)
        dates = await report(workspace, COMPUTE, "0001-01-01", "9999-12-31")
        numbers = await report(workspace, COMPUTE, "-" + "9" * 18, "9" * 18)

    assert dates["jobGroups"] == numbers["jobGroups"] == 2


async def test_unknown_projects_and_entitlements_are_not_found() -> None:
    """Only the workspace's own project and entitlement have usage."""
    async with open_workspace(Edition.PL) as workspace:
        for root in (f"{PROJECT}-2", f"{ENTITLEMENT}-2"):
            answer = await workspace.get(f"{root}/from/2026-11-01/to/2026-11-30")
            assert answer.is_refused(404, "DataNotFoundException", "sandbox")


async def test_the_work_of_the_engine_is_what_is_reported() -> None:
    """Job groups that really ran add up to the reported usage, engine by engine."""
    async with open_workspace(Edition.PL) as workspace:
        things, world = workspace.things, workspace.world
        workspace.engine.start_flow_run(things.orders, by=things.owner.id)
        workspace.engine.start_job_group(things.count, by=things.colleague.id)
        work = asyncio.create_task(workspace.engine.run(), name="engine")
        for _ in range(100):
            await workspace.clock.advance(10)
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
        usage = await report(workspace, COMPUTE, "2026-11-21", "2026-11-22")

    assert all(job_group.status.is_over for job_group in world.job_groups)
    seconds = [
        (job.finished_at - job.started_at).total_seconds()
        for job in world.jobs
        if job.started_at is not None and job.finished_at is not None
    ]
    assert usage["jobs"] == len(seconds) > 0
    assert usage["computeSeconds"] == pytest.approx(sum(seconds), abs=0.001)
    assert sum(seconds) > 0
    assert {row["engine"] for row in usage["data"]} == {"photon"}


async def test_reports_at_the_same_time_agree() -> None:
    """Reading is without effect: ten readers at once get the same."""
    async with open_workspace(Edition.PL) as workspace:
        await furnish(workspace)
        path = f"{DETAILED}/from/2026-11-01/to/2026-11-30"
        answers = await asyncio.gather(*(workspace.get(path) for _ in range(10)))

    assert len({answer.content for answer in answers}) == 1

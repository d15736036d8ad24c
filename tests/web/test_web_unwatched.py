"""Hidden parts of runs that are followed: page and JSON name them beside what is not watched."""

from __future__ import annotations

import html
from datetime import timedelta
from typing import Any

from monitor.model.live_state import ActiveRun, UnlistedRuns
from monitor.model.runs import JobDetails, RunKind, RunState, Source, Status
from tests.web.site import Site


async def said(site: Site) -> dict[str, str]:
    """Return the reason of each thing that is not watched; every face must give the same."""
    await site.clock.advance(11)  # longer than a rendering is kept
    (row,) = (await site.get("/api/v1/workspaces")).document["data"]
    details = (await site.get("/api/v1/workspaces/acme")).document
    assert details["unwatched_because"] == row["unwatched_because"]
    assert [known["what"] for known in row["unwatched_because"]] == row["unwatched"]
    for page in ("/workspaces", "/workspaces/acme"):
        text = html.unescape((await site.get(page)).text)
        for known in row["unwatched_because"]:
            assert known["reason"] in text
    return {known["what"]: known["reason"] for known in row["unwatched_because"]}


def active(site: Site, run_id: str, jobs: JobDetails | None, **more: Any) -> None:
    run: RunState = site.run(run_id, jobs=jobs, **more)
    site.live_state.active[run.key] = ActiveRun(
        run=run,
        confirmed_at=run.confirmed_at,
        confirmed_by=Source.POLL,
        percent_complete=None if jobs is None else jobs.percent_complete,
        heartbeat_at=None if jobs is None else jobs.heartbeat_at,
    )


async def test_runs_that_no_list_shows_are_named(site: Site) -> None:
    """With some of their ids, and by what alone others like them are seen."""
    before = await said(site)
    unlisted = UnlistedRuns(kind=RunKind.JOB_GROUP, ids=("17", "18", "19"), count=7)
    site.live_state.update_workspace("acme", unlisted=(unlisted,))
    assert await said(site) == {
        **before,
        "unlisted_job_group": "no list shows 7 runs, such as 17 and 18, which the workspace shows "
        "by id: others like that are seen only where a callback or `track` names them",
    }
    assert "unlisted job groups</span>" in (await site.get("/workspaces")).text


async def test_jobs_that_show_no_progress_are_named(site: Site) -> None:
    """Neither heartbeat nor percentage, for some minutes: run_stuck can judge nothing of them."""
    can_read = site.live_state.workspaces["acme"].capabilities | {
        "read_jobs",
        "list_flows",
    }
    site.live_state.update_workspace("acme", capabilities=can_read)
    before = await said(site)
    now = site.clock.now()

    def confirm() -> None:
        active(site, "1", JobDetails(read_at=now), created_at=now)
        active(site, "2", JobDetails(read_at=now, percent_complete=0.0), created_at=now)
        active(site, "3", JobDetails(read_at=now, heartbeat_at=now), created_at=now)
        active(site, "4", None, created_at=now)  # its job records are not read yet
        active(site, "5", JobDetails(read_at=now), created_at=now, status=Status.PENDING)

    await site.clock.advance(280)
    confirm()
    assert await said(site) == before
    await site.clock.advance(20)
    confirm()
    what, why = "progress_of_job_group", "job records show neither heartbeat nor percentage"
    assert await said(site) == {**before, what: f"run_stuck cannot judge run 1: {why}"}
    assert "progress of job groups</span>" in (await site.get("/workspaces/acme")).text

    active(site, "6", JobDetails(read_at=now), created_at=now - timedelta(hours=1))
    both = f"run_stuck cannot judge 2 runs, such as 1 and 6: {why}"
    assert (await said(site))[what] == both
    site.live_state.update_workspace("acme", capabilities=can_read - {"read_jobs"})
    why = "the workspace shows no job records, as far as this token sees"
    assert (await said(site))[what] == f"run_stuck cannot judge 5 runs, such as 1 and 2: {why}"

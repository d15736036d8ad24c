"""The strips of runs: which run has a cell, and which stands for others."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from monitor.model.runs import Parents, RunKey, RunKind, RunState, Status
from monitor.web.views.overview.grid_history import strips_of
from tests.web.site import Site


async def test_job_groups_stand_for_flow_runs_that_are_not_stored(site: Site) -> None:
    """A flow with one known flow run keeps the week before it: a cell a former run."""
    hour = timedelta(hours=1)
    begin = site.clock.now() - 10 * hour

    def run(run_id: str, kind: RunKind, at: int, status: Status, **more: Any) -> RunState:
        started = begin + at * hour
        return site.run(
            run_id,
            status,
            key=RunKey("acme", kind, run_id),
            created_at=started,
            finished_at=started + timedelta(seconds=60 + at),
            **more,
        )

    in_old, in_new = Parents(flow_run="1"), Parents(flow_run="2")
    await site.observe(
        run("11", RunKind.JOB_GROUP, 1, Status.SUCCEEDED, parents=in_old),
        run("12", RunKind.JOB_GROUP, 1, Status.FAILED, parents=in_old),
        run("13", RunKind.JOB_GROUP, 2, Status.SUCCEEDED),
        run("14", RunKind.JOB_GROUP, 3, Status.SUCCEEDED, parents=in_new),
        run("2", RunKind.FLOW_RUN, 3, Status.SUCCEEDED),
    )
    key = ("acme", RunKind.FLOW_RUN, "7")
    overview = await site.server.sites.whole.views.overview.get()
    cells = (await strips_of([key], overview, stored=site.bus))[key]
    assert [(cell.kind, cell.id, cell.status) for cell in cells] == [
        (RunKind.JOB_GROUP, "12", Status.FAILED),
        (RunKind.JOB_GROUP, "13", Status.SUCCEEDED),
        (RunKind.FLOW_RUN, "2", Status.SUCCEEDED),
    ]
    assert cells[0].duration_seconds == 61

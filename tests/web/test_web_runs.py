"""The list of runs: filters, pages, and which pipelines fail most."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from monitor.bus.contract import Retention
from monitor.model.runs import (
    FailedPart,
    Parents,
    Pipeline,
    PipelineKind,
    Recipe,
    RunKey,
    RunKind,
    Status,
)
from tests.web.site import Site

FLOW_RUN, PLAN_RUN = RunKind.FLOW_RUN, RunKind.PLAN_RUN


def flow(flow_id: str, name: str) -> Pipeline:
    return Pipeline(kind=PipelineKind.FLOW, id=flow_id, name=name)


async def listed(site: Site, query: str = "") -> list[str]:
    """Return the ids of all pages of the list."""
    ids: list[str] = []
    cursor = ""
    while True:
        mark = "&" if query else "?"
        answer = await site.get(f"/api/v1/runs{query}{cursor and f'{mark}cursor={cursor}'}")
        assert answer.status == 200, answer.text
        ids += [run["id"] for run in answer.document["data"]]
        if (cursor := answer.document["next"] or "") == "":
            return ids


async def test_every_run_is_on_one_page_of_the_list(site: Site) -> None:
    """The pages hold every run once, though several were created at the same time."""
    for number in range(0, 9, 3):
        await site.observe(*(site.run(str(number + more)) for more in range(3)))
        await site.clock.advance(1)
    await site.observe(site.run("9", key=RunKey("acme", PLAN_RUN, "9")))

    assert await listed(site, "?limit=2") == [str(number) for number in range(9, -1, -1)]


async def test_runs_are_chosen_by_state_pipeline_and_time(site: Site) -> None:
    """Active ones, those of pipelines whose name holds a text, and those of the last hours."""
    for flow_id, name in (("7", "orders"), ("8", "Daily orders"), ("9", "prices")):
        site.live_state.name_pipeline("acme", PipelineKind.FLOW, flow_id, name)
        run = site.run(flow_id, Status.SUCCEEDED, pipeline=flow(flow_id, name))
        await site.observe(run)
        await site.clock.advance(3600)
    await site.observe(site.run("10"), site.run("11", Status.PENDING))

    assert set(await listed(site, "?status=active")) == {"10", "11"}
    assert await listed(site, "?pipeline=ORDERS&status=succeeded") == ["8", "7"]
    assert await listed(site, "?pipeline=9") == ["9"]
    assert await listed(site, "?pipeline=nothing") == []
    assert await listed(site, "?since=2h&status=succeeded") == ["9", "8"]
    since = (site.clock.now()).isoformat().replace("+", "%2B")
    assert set(await listed(site, f"?since={since}")) == {"10", "11"}
    assert await listed(site, f"?until={since}") == ["9", "8", "7"]
    assert await listed(site, "?since=2h&until=1h&limit=1") == ["8"]


@pytest.mark.parametrize("path", ["/api/v1/runs", "/api/v1/failures", "/runs"])
async def test_a_time_that_ends_before_it_begins_is_refused(site: Site, path: str) -> None:
    """The answer names both instants; an end alone is taken."""
    query = "since=2026-11-21T10:00:00Z&until=2026-11-21T08:00:00Z"
    answer = await site.get(f"{path}?{query}")
    assert answer.status == 400
    assert "until: 2026-11-21 08:00 UTC is not after since, 2026-11-21 10:00 UTC" in answer.text
    assert (await site.get(f"{path}?until=2026-11-21T08:00:00Z")).status == 200


async def test_failures_are_counted_up_to_an_instant(site: Site) -> None:
    """Without a begin it is the seven days before the end."""
    await site.observe(site.run("1", Status.FAILED))
    await site.clock.advance(20 * 86_400)
    await site.observe(site.run("2", Status.FAILED))
    old = (await site.get("/api/v1/failures?until=19d")).document
    new = (await site.get("/api/v1/failures")).document
    assert [old["data"][0]["newest"]["id"], new["data"][0]["newest"]["id"]] == ["1", "2"]


async def test_the_page_of_runs_shows_reasons_and_keeps_its_filters(site: Site) -> None:
    """A failure has its reason in its row; the form shows what is asked for, as text."""
    error = "<script>alert(1)</script>"
    await site.observe(site.run("1", Status.FAILED, error=error), site.run("2"))
    page = (await site.get("/runs?status=failed&workspace=acme")).text

    assert 'href="/runs/acme/job_group/1"' in page
    assert 'href="/runs/acme/job_group/2"' not in page
    assert 'href="/pipelines/acme/flow/7"' in page
    assert "&lt;script&gt;alert(1)" in page
    assert error not in page
    assert "<option selected>failed</option>" in page
    assert 'value="acme"' in page
    hint = "No flow or plan has this name or id."
    assert hint in (await site.get("/runs?pipeline=nothing")).text
    assert "No run fits these filters." in (await site.get("/runs?status=lost")).text


async def test_a_flow_run_stands_for_its_job_groups(site: Site) -> None:
    """The page lists a flow run once; its job groups stand there where their kind is chosen."""
    flow_run = RunKey("acme", FLOW_RUN, "20")
    elsewhere = RunKey("other", RunKind.JOB_GROUP, "3")
    await site.observe(
        site.run("20", key=flow_run),
        site.run("1", parents=Parents(flow_run="20")),
        site.run("2", parents=Parents(flow_run="19")),
        site.run("3", key=elsewhere, parents=Parents(flow_run="20")),
    )
    page = (await site.get("/runs")).text
    assert 'id="run-acme-job_group-1"' not in page
    assert 'id="run-acme-job_group-2"' in page
    assert 'id="run-other-job_group-3"' in page
    assert "1 job group of these flow runs" in page
    assert 'id="run-acme-job_group-1"' in (await site.get("/runs?kind=job_group")).text


async def test_the_page_of_a_forgotten_run_says_so(site: Site) -> None:
    """A cursor whose run retention has removed, or that is none, leads back to the beginning."""
    await site.observe(*(site.run(str(number), Status.SUCCEEDED) for number in range(3)))
    cursor = (await site.get("/api/v1/runs?limit=1")).document["next"]
    assert "is not one of this list" in (await site.get(f"/runs?cursor={cursor}x")).text

    now = site.clock.now() + timedelta(days=31)
    await site.bus.prune(Retention(), now=now)
    page = await site.get(f"/runs?cursor={cursor}")
    assert page.status == 400
    assert "is no longer stored; leave it out" in page.text
    assert 'href="/runs"' in page.text


async def test_the_pipelines_that_fail_most_stand_first(site: Site) -> None:
    """A flow run and its failed parts count as one failure; what succeeded counts as none."""
    in_flow_run: dict[str, Any] = {"parents": Parents(flow_run="20"), "error": "no such table"}
    part = FailedPart(key=RunKey("acme", RunKind.JOB_GROUP, "1"), error="no such table")
    await site.observe(
        site.run("20", Status.FAILED, key=RunKey("acme", FLOW_RUN, "20"), failed_part=part),
        site.run("1", Status.FAILED, **in_flow_run),
        site.run("2", Status.FAILED, **in_flow_run),
        site.run("3", Status.FAILED, pipeline=flow("8", "prices"), parents=Parents(flow_run="9")),
        site.run("4", Status.FAILED, pipeline=flow("8", "prices")),
        site.run("5", Status.SUCCEEDED),
    )
    document = (await site.get("/api/v1/failures")).document
    shown = [(row["pipeline"], row["failed"]) for row in document["data"]]

    assert shown == [("prices", 2), ("orders", 1)]
    assert document["data"][1]["newest"]["reason"] == "job group 1 failed: no such table"
    assert (document["failed"], document["pipelines"]) == (3, 2)
    await site.clock.advance(8 * 86_400)
    assert (await site.get("/api/v1/failures")).document["data"] == []
    assert "Most failures since" in (await site.get("/runs?since=30d")).text


async def test_an_early_run_shows_the_name_that_its_recipe_has_now(site: Site) -> None:
    """Its list showed the id alone; the name was read later, for the recipe and not the run."""
    await site.observe(site.run("1", recipe=Recipe(id="45")), site.run("2"))
    site.live_state.recipe_names["acme", "45"] = "Clean orders"

    answer = await site.get("/api/v1/runs?limit=9")
    assert {run["id"]: run["recipe"] for run in answer.document["data"]} == {
        "1": "Clean orders",
        "2": None,
    }


async def test_runs_of_a_pipeline_that_is_no_longer_listed_are_found_by_its_id(site: Site) -> None:
    """A deleted flow or plan has runs as long as they are stored; no other text finds it."""
    plan = Pipeline(kind=PipelineKind.PLAN, id="78", name="gone")
    await site.observe(
        site.run("1", Status.FAILED, pipeline=flow("77", "gone")),
        site.run("2", pipeline=plan, key=RunKey("acme", PLAN_RUN, "2")),
        site.run("3"),
    )
    site.live_state.name_pipeline("acme", PipelineKind.FLOW, "7", "orders 77")

    assert await listed(site, "?pipeline=77") == ["3", "1"]
    assert await listed(site, "?pipeline=78&workspace=acme") == ["2"]
    assert await listed(site, "?pipeline=gone") == []
    assert (await site.get("/api/v1/runs?pipeline=77")).document["fitting"] == 2
    assert (await site.get("/api/v1/failures?pipeline=77")).document["failed"] == 1


async def test_failed_runs_of_an_unknown_pipeline_are_counted(site: Site) -> None:
    """They are in no row, since there is none to be in, but the count and the page have them."""
    await site.observe(site.run("1", Status.FAILED), site.run("2", Status.FAILED, pipeline=None))
    failures = (await site.get("/api/v1/failures")).document

    assert (failures["failed"], failures["of_unknown"], failures["pipelines"]) == (2, 1, 1)
    assert [row["failed"] for row in failures["data"]] == [1]
    page = (await site.get("/runs")).text
    assert "2 failed runs of 1 pipeline" in page
    assert "1 failed run of pipelines that are not known" in page


@pytest.mark.parametrize("since", ["0001-01-01T00:00:00%2B14:00", "9999-12-31T23:59:59-12:00"])
async def test_an_instant_outside_the_calendar_is_refused(site: Site, since: str) -> None:
    """An instant that UTC cannot express is a wrong value, for the API and for the page."""
    for path in ("/api/v1/runs", "/api/v1/failures", "/runs", "/api/v1/alerts"):
        assert (await site.get(f"{path}?since={since}")).status == 400

"""The list of pipelines: a row a pipeline, its runs drawn, filters, orders and pages in the URL."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest

from monitor.model.alerts import Alert, AlertState, LearnedLimit
from monitor.model.live_state import Reachability
from monitor.model.runs import Pipeline, PipelineKind, Recipe, RunKey, RunKind, Status
from tests.app.eventually import eventually
from tests.pipeline_healths import end_at, failures_until, health_after, show
from tests.web.site import Site
from tests.web.test_overview_boxes import box, see


async def rows(site: Site, query: str = "") -> list[dict[str, Any]]:
    answer = await site.get_recomputed(f"/api/v1/pipelines{query}")
    assert answer.status == 200, answer.text
    found: list[dict[str, Any]] = answer.document["data"]
    return found


async def names(site: Site, query: str) -> list[str]:
    return [row["pipeline"] for row in await rows(site, query)]


def named_flow(site: Site, number: int) -> Pipeline:
    flow = Pipeline(kind=PipelineKind.FLOW, id=str(number), name=f"flow {number}")
    site.live_state.name_pipeline("acme", flow.kind, flow.id, flow.name)
    return flow


def stand(site: Site, number: int, status: Status) -> Pipeline:
    """Let the newest job group of a flow have ended so."""
    flow = named_flow(site, number)
    site.stand(flow, status)
    return flow


async def test_a_flow_is_one_row(site: Site) -> None:
    """Known by its job groups and then by its flow runs, it stands there once, by flow runs."""
    see(site)
    flow = stand(site, 7, Status.SUCCEEDED)
    (row,) = await rows(site)
    assert (row["run_kind"], row["has_parts"]) == ("job_group", False)
    flow_run = end_at(site.clock.now(), run_id="2")
    show(site.live_state, health_after(flow_run, pipeline=flow, kind=RunKind.FLOW_RUN))
    (row,) = await rows(site)
    assert (row["run_kind"], row["has_parts"]) == ("flow_run", True)


async def test_a_pipeline_shows_what_is_expected_of_it(site: Site) -> None:
    """The learned limit, the next start and missed starts are shown with its last run."""
    see(site)
    flow = stand(site, 7, Status.SUCCEEDED)
    identity = ("acme", RunKind.JOB_GROUP, "7")
    limit = LearnedLimit(
        workspace="acme", kind=RunKind.JOB_GROUP, pipeline=flow, seconds=754.0, runs=12
    )
    site.alerting.show(
        limits=(limit,),
        expected={identity: site.clock.now() + timedelta(hours=1)},
        missed={identity: 2},
    )
    (row,) = await rows(site)
    assert (row["limit_seconds"], row["limit_runs"], row["missed_starts"]) == (754.0, 12, 2)
    assert row["expected_start_at"] == "2026-11-21T11:00:00Z"
    text = box((await site.get("/")).text, "pipelines")
    assert 'title="learned from 12 runs">limit 12 min 34 s' in text


async def test_the_runs_of_a_row_are_links_with_words(site: Site) -> None:
    """The newest at the right, each by its result and duration; a new one comes by its event."""
    see(site)
    now = site.clock.now()
    for number, status in enumerate((Status.SUCCEEDED, Status.FAILED)):
        at = now - timedelta(hours=2 - number)
        await site.observe(
            site.run(str(number), status, created_at=at, finished_at=at + timedelta(seconds=90))
        )
    stand(site, 7, Status.FAILED)
    (row,) = await rows(site)
    assert [run["status"] for run in row["runs"]] == ["succeeded", "failed"]
    assert (row["usual_seconds"], row["success_ratio"]) == (90.0, 0.5)
    text = box((await site.get("/")).text, "pipelines")
    links = re.findall(r'<a href="([^"]*)" tabindex="-1"><title>([^<]*)</title>', text)
    assert links == [
        ("/runs/acme/job_group/0", "succeeded in 1 min 30 s · 21 Nov 08:00 UTC"),
        ("/runs/acme/job_group/1", "failed in 1 min 30 s · 21 Nov 09:00 UTC"),
    ]
    assert "last 2 runs: 1 succeeded, 1 failed" in text

    async def has_a_third() -> bool:
        return len((await rows(site))[0]["runs"]) == 3

    await site.observe(site.run("2", created_at=now))
    await eventually(has_a_third, why="the event has changed nothing")


async def test_a_missed_start_and_an_outage_are_drawn_as_what_they_are(site: Site) -> None:
    """Between the runs around them, with words: neither is a run, and neither is nothing."""
    see(site)
    now, hour = site.clock.now(), timedelta(hours=1)
    for number, at in enumerate((now - 3 * hour, now - hour)):
        await site.observe(site.run(str(number), Status.SUCCEEDED, created_at=at, finished_at=at))
    flow = stand(site, 7, Status.SUCCEEDED)
    site.alerting.show(
        site.alerting.alert(
            rule="schedule_missed", pipeline=flow, starts_at=now - 2 * hour, facts={"missed": 2.0}
        )
    )
    text = box((await site.get("/")).text, "pipelines")
    order = re.findall(r'<rect class="(succeeded|missed)"', text)
    assert order == ["succeeded", "missed", "succeeded"]
    assert "did not start at 21 Nov 08:00 UTC, nor once after that" in text
    assert "no older run is known" in text


async def test_a_missed_start_that_is_over_stays_in_the_row(site: Site) -> None:
    """A missed start stays, however long its alert is over; the next start is not marked.

    Not one from before the oldest run that is shown, nor one that came before its grace was over,
    nor one that came in time and was seen late: its alert ended as of the expected time.
    """
    see(site)
    now, hour = site.clock.now(), timedelta(hours=1)
    for number, hours in enumerate((6, 4, 1)):
        at = now - hours * hour
        await site.observe(site.run(str(number), Status.SUCCEEDED, created_at=at, finished_at=at))
    flow = stand(site, 7, Status.SUCCEEDED)

    def over(starts: float, ends: float, state: AlertState = AlertState.RESOLVED) -> Alert:
        return site.alerting.alert(
            rule="schedule_missed",
            name="daily",
            pipeline=flow,
            state=state,
            starts_at=now - starts * hour,
            ends_at=now - ends * hour,
            facts={"missed": 3.0},
        )

    site.alerting.over["9f86d081884c7d65"] = [
        over(9, 8),
        over(5, 4),
        over(3, 2.9, AlertState.PENDING),
        over(4.5, 4.499),
    ]
    site.alerting.show(over(2, 0.5))
    text = box((await site.get("/")).text, "pipelines")
    order = re.findall(r'<rect class="(succeeded|missed)"', text)
    assert order == ["succeeded", "missed", "succeeded", "missed", "succeeded"]
    words = "did not start at 21 Nov 08:00 UTC, nor 2 times after that; over since 21 Nov 09:30 UTC"
    assert words in text
    assert "last 3 runs: 3 succeeded, 6 missed" in text
    assert 'class="mark missed"' not in text
    site.alerting.over["9f86d081884c7d65"].append(over(2, 0.5))
    site.alerting.show()  # which does not show it any more after an hour
    await site.clock.advance(901)
    (row,) = await rows(site)
    assert [start["at"] for start in row["missed"]] == [
        "2026-11-21T05:00:00Z",
        "2026-11-21T08:00:00Z",
    ]


async def test_runs_from_before_the_monitoring_are_drawn_fainter(site: Site) -> None:
    """A run that ended before its workspace was followed is drawn fainter, and says so."""
    see(site)
    await site.observe(site.run("1", Status.SUCCEEDED, historical=True))
    stand(site, 7, Status.SUCCEEDED)
    text = box((await site.get("/")).text, "pipelines")
    assert 'class="succeeded old"' in text
    assert "before it was followed" in text


async def test_job_groups_fold_out_by_recipe(site: Site) -> None:
    """A link in the row shows them, for it alone, and hides them again."""
    see(site)
    flow = stand(site, 7, Status.SUCCEEDED)
    for recipe in ("r1", "r2"):
        status = Status.FAILED if recipe == "r2" else Status.SUCCEEDED
        end = end_at(site.clock.now(), status, run_id=recipe)
        show(site.live_state, health_after(end, pipeline=flow, recipe_id=recipe))
        await site.observe(
            site.run(recipe, Status.SUCCEEDED, recipe=Recipe(id=recipe, name="clean"))
        )
    text = box((await site.get("/")).text, "pipelines")
    assert "job groups of recipe" not in text
    (link,) = re.findall(r'<a href="([^"]*)#row-acme/flow/7" aria-expanded="false">', text)
    opened = box((await site.get(link)).text, "pipelines")
    assert "job groups of recipe r1" in opened
    assert "job groups of recipe r2" in opened
    assert 'aria-expanded="true"' in opened
    (row,) = await rows(site, "?open=acme/flow/7")
    assert [(part["recipe_id"], len(part["runs"])) for part in row["parts"]][1:] == [
        ("r1", 1),
        ("r2", 1),
    ]


@pytest.fixture
def full(site: Site) -> Site:
    """Return a site with thirty flows of two owners, every fifth failing, and one plan."""
    see(site)
    for number in range(30):
        at = site.clock.now() - timedelta(minutes=number)
        ends = [end_at(at, seconds=number)]
        if number % 5 == 0:
            ends = failures_until(at, max(1, number), seconds=number)
        show(site.live_state, health_after(*ends, pipeline=named_flow(site, number)))
        site.live_state.names.place(
            ("acme", PipelineKind.FLOW, str(number)),
            folder="Sales" if number < 10 else None,
            owner="ann@x" if number % 2 else "Bob@x",
        )
    site.live_state.name_pipeline("acme", PipelineKind.PLAN, "p", "Nightly")
    return site


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("?state=failing", {"flow 0", "flow 5", "flow 10", "flow 15", "flow 20", "flow 25"}),
        ("?state=new", {"Nightly"}),
        ("?kind=plan", {"Nightly"}),
        (
            "?q=FLOW%202&owner=bob",
            {"flow 2", "flow 20", "flow 22", "flow 24", "flow 26", "flow 28"},
        ),
        ("?folder=sales&state=failing", {"flow 0", "flow 5"}),
        ("?q=nothing+has+this", set()),
        ("?q=p&kind=plan", {"Nightly"}),
        ("?workspace=acme&q=flow+29", {"flow 29"}),
    ],
)
async def test_filters_work_together(full: Site, query: str, expected: set[str]) -> None:
    """Each takes away rows, in any case; the total counts what is left."""
    answer = (await full.get(f"/api/v1/pipelines{query}")).document
    assert {row["pipeline"] for row in answer["data"]} == expected
    assert answer["total"] == len(expected)
    assert (answer["states"]["failing"], answer["states"]["healthy"]) == (6, 24)
    text = box((await full.get(f"/{query}")).text, "pipelines")
    assert text.count('<tr id="row-') == len(expected)
    assert ("No pipeline fits these filters." in text) == (not expected)


@pytest.mark.parametrize(
    ("sort", "first"),
    [
        ("state", ["flow 0", "flow 10", "flow 15"]),
        ("name", ["flow 0", "flow 1", "flow 10"]),
        ("last_end", ["flow 0", "flow 1", "flow 2"]),
        ("failures", ["flow 25", "flow 20", "flow 15"]),
        ("duration", ["flow 29", "flow 28", "flow 27"]),
        ("next_start", ["Nightly", "flow 3", "flow 0"]),
    ],
)
async def test_the_list_is_sorted(full: Site, sort: str, first: list[str]) -> None:
    """The worst, newest, most, longest and nearest first; equal ones by name."""
    now = full.clock.now()
    full.alerting.show(
        expected={
            ("acme", RunKind.PLAN_RUN, "p"): now + timedelta(minutes=1),
            ("acme", RunKind.FLOW_RUN, "3"): now + timedelta(minutes=2),
        }
    )
    assert (await names(full, f"?sort={sort}"))[:3] == first


@pytest.mark.parametrize("sort", ["state", "name", "failures"])
@pytest.mark.parametrize("more", ["", "&owner=x"])
async def test_pages_show_every_row_once(full: Site, sort: str, more: str) -> None:
    """The cursor leads through all rows in order, also where the last row of a page is gone."""
    seen: list[str] = []
    query = f"?sort={sort}&limit=7{more}"
    cursor = ""
    while True:
        page = (await full.get(f"/api/v1/pipelines{query}{cursor}")).document
        seen += [row["pipeline"] for row in page["data"]]
        if page["next"] is None:
            break
        last = page["data"][-1]["pipeline_id"]
        full.live_state.forget_pipeline("acme", PipelineKind.FLOW, last)
        cursor = f"&cursor={page['next']}"
    assert len(seen) == len(set(seen)) == (30 if more else 31)


@pytest.mark.parametrize(
    ("query", "detail"),
    [
        ("?state=broken", "state: 'broken' is none of failing, missed, warning, unknown"),
        ("?sort=size", "sort: 'size' is none of state, name, last_end"),
        ("?workspace=acm", "workspace: 'acm' is not known; did you mean acme?"),
        ("?cursor=x", "cursor: 'x' is not one of this list"),
        ("?limit=0", "limit: '0' is not a number from 1 to 200"),
        ("?nonsense=1", "query: 'nonsense' is not known"),
    ],
)
async def test_a_query_that_is_no_filter_is_named(site: Site, query: str, detail: str) -> None:
    """A problem in JSON, and a page with a way back in HTML."""
    answer = await site.get(f"/api/v1/pipelines{query}")
    assert answer.status == 400
    assert answer.document["detail"].startswith(detail)
    page = await site.get(f"/{query}")
    assert page.status == 400
    assert '<a href="/">' in page.text


async def test_links_keep_what_was_chosen(full: Site) -> None:
    """The next page, another state and folding out leave the other filters as they are."""
    text = box((await full.get("/?q=flow&sort=name&limit=5")).text, "pipelines")
    links = [link.replace("&amp;", "&") for link in re.findall(r'href="(/\?[^"]*)"', text)]
    assert len(links) >= 4
    for link in links:
        assert "q=flow" in link
        assert "sort=name" in link
        assert (await full.get(link)).status == 200


async def test_an_outage_of_the_past_is_a_gap(site: Site) -> None:
    """A gap without observations between two runs is shown between them, with its reason."""
    see(site)
    now = site.clock.now()
    old = now - timedelta(minutes=30)
    await site.observe(site.run("1", Status.SUCCEEDED, created_at=old, finished_at=old))
    stand(site, 7, Status.SUCCEEDED)
    site.live_state.update_workspace(
        "acme", reachability=Reachability.UNREACHABLE, since=now, known_at=now, reason="no route"
    )
    await site.clock.advance(300)
    (row,) = await rows(site)
    (gap,) = row["gaps"]
    assert (gap["since"], gap["until"], gap["why"]) == ("2026-11-21T10:00:00Z", None, "no route")
    assert "not seen from 21 Nov 10:00 UTC: no route" in (await site.get("/")).text


async def test_only_rows_of_the_page_read_runs(full: Site) -> None:
    """Without cells nothing is read; the others keep what they have read until an event."""
    assert all(row["runs"] == [] for row in await rows(full, "?cells=0"))
    key = RunKey("acme", RunKind.JOB_GROUP, "1")
    await full.observe(full.run("1", Status.SUCCEEDED, key=key))
    assert [len(row["runs"]) for row in await rows(full, "?q=flow+7")] == [1]

"""The page of one flow or plan: figures, history, charts, recipes, alerts and runs."""

from __future__ import annotations

import html
import re
from datetime import timedelta
from typing import Any

import msgspec

from monitor.model.alerts import LearnedLimit
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

HOUR = 3600
ORDERS = Pipeline(kind=PipelineKind.FLOW, id="7", name="orders")
PATH = "/pipelines/acme/flow/7"


async def observe_hours(site: Site, *results: Status, seconds: float = 60) -> None:
    """Store a job group an hour, the oldest first; each waits 10 s for its start."""
    begin = site.clock.now() - timedelta(hours=len(results))
    for number, result in enumerate(results):
        created_at = begin + timedelta(hours=number)
        started_at = created_at + timedelta(seconds=10)
        run = site.run(
            str(100 + number),
            result,
            created_at=created_at,
            started_at=started_at,
            finished_at=started_at + timedelta(seconds=seconds),
            recipe=Recipe(id=str(number % 2), name=f"recipe {number % 2}"),
            error="no such table" if result is Status.FAILED else None,
        )
        await site.observe(run)


async def document(site: Site, query: str = "") -> Any:
    answer = await site.get(f"/api/v1{PATH}{query}")
    assert answer.status == 200, answer.text
    return answer.document


async def test_figures_answer_what_people_ask(site: Site) -> None:
    """How often it succeeds, how long it takes and waits, when it last succeeded, and its limit."""
    await observe_hours(site, *[Status.SUCCEEDED] * 6, Status.FAILED, Status.FAILED)
    limit = LearnedLimit(
        workspace="acme", kind=RunKind.JOB_GROUP, pipeline=ORDERS, seconds=90, runs=6
    )
    site.alerting.show(limits=(limit,))
    shown = await document(site)
    figures = shown["figures"]

    assert figures["results"] == {"succeeded": 6, "failed": 2}
    assert figures["success_ratio"] == 0.75
    assert (figures["typical_seconds"], figures["typical_queue_seconds"]) == (60, 10)
    assert figures["failures_in_a_row"] == 2
    assert shown["last_success"]["id"] == "105"
    assert shown["last_failure"]["reason"] == "no such table"
    assert (shown["limit_seconds"], shown["limit_runs"]) == (90, 6)
    page = (await site.get(PATH)).text
    assert "failed 2 times in a row" in page
    assert "75 % succeeded" in page
    assert "1 min 30 s, learned from 6 runs" in page


async def test_a_history_goes_as_far_back_as_is_asked(site: Site) -> None:
    """A run of the day before is in the week and not in the day; the last success is in both."""
    await observe_hours(site, Status.SUCCEEDED)
    await site.clock.advance(25 * HOUR)

    assert (await document(site))["figures"]["runs"] == 1
    day = await document(site, "?range=24h")
    assert day["history"] == []
    assert day["last_success"]["id"] == "100"
    assert "It has not run in this time" in (await site.get(f"{PATH}?range=24h")).text


async def test_a_flow_run_and_its_job_groups_are_one_run(site: Site) -> None:
    """Job groups are shown inside a flow run that is stored, and by themselves where it is not."""
    flow_run = RunKey("acme", RunKind.FLOW_RUN, "20")
    await site.observe(
        site.run("20", Status.SUCCEEDED, key=flow_run),
        site.run("21", Status.SUCCEEDED, parents=Parents(flow_run="20")),
        site.run("22", Status.SUCCEEDED, parents=Parents(flow_run="19")),
    )
    assert {run["id"] for run in (await document(site))["history"]} == {"20", "22"}
    runs = (await site.get(f"/api/v1{PATH}/runs")).document
    assert {run["id"] for run in runs["data"]} == {"20", "22"}


async def test_recipes_of_a_flow_stand_by_themselves(site: Site) -> None:
    """Each recipe has its own results, and the one that failed last stands first."""
    await observe_hours(site, Status.SUCCEEDED, Status.FAILED, Status.SUCCEEDED, Status.FAILED)
    recipes = (await document(site))["recipes"]
    shown = [(row["recipe"], row["results"], row["newest"]["id"]) for row in recipes]
    assert shown == [
        ("recipe 1", {"failed": 2}, "103"),
        ("recipe 0", {"succeeded": 2}, "102"),
    ]


async def test_charts_need_neither_scripts_nor_styles(site: Site) -> None:
    """The server draws them; the browser's script gets its numbers from an attribute."""
    await observe_hours(site, Status.SUCCEEDED, Status.FAILED)
    page = (await site.get(PATH)).text
    assert "<script>" not in page
    assert "style=" not in page
    assert page.count('<svg class="dots"') == 2
    found = re.search(r'id="plot-durations" data-series="([^"]*)"', page)
    assert found is not None
    series = msgspec.json.decode(html.unescape(found[1]))
    assert (series["seconds"], series["failed"], series["limit"]) == ([60, 60], [0, 1], None)
    assert 'href="/runs/acme/job_group/101"' in page


async def test_a_chart_moves_on_by_steps(site: Site) -> None:
    """A page that is rendered again a second later has the same charts."""
    await observe_hours(site, Status.SUCCEEDED, Status.SUCCEEDED)
    await site.clock.advance(30)

    async def drawn() -> list[str]:
        page = (await site.get(PATH)).text
        return re.findall(r"<rect[^>]*>|data-series=\"[^\"]*\"| d=\"[^\"]*\"", page)

    first = await drawn()
    await site.clock.advance(15)
    assert await drawn() == first


async def test_many_runs_share_bars(site: Site) -> None:
    """Hundreds of runs are drawn as some bars, and each says how many it stands for."""
    begin = site.clock.now()
    times = [begin - timedelta(minutes=number) for number in range(600)]
    runs = [
        site.run(str(number), Status.SUCCEEDED, created_at=at, finished_at=at)
        for number, at in enumerate(times)
    ]
    await site.observe(*runs)
    page = (await site.get(f"{PATH}?range=24h")).text
    bars = re.findall(r"<title>(\d+) runs from", page)
    assert 0 < len(bars) <= 240
    assert 590 <= sum(map(int, bars)) <= 600


async def test_its_runs_are_listed_page_by_page(site: Site) -> None:
    """Each run once, newest first, with the reason of its failure in one line."""
    await observe_hours(site, *[Status.FAILED] * 5)
    ids: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        page = (await site.get(f"/api/v1{PATH}/runs?limit=2{cursor}")).document
        ids += [run["id"] for run in page["data"]]
        assert {run["reason"] for run in page["data"]} == {"no such table"}
        cursor = None if page["next"] is None else f"&cursor={page['next']}"
    assert ids == ["104", "103", "102", "101", "100"]


async def test_its_alerts_stand_on_its_page(site: Site) -> None:
    """Open alerts of the flow are shown, those of others are not."""
    other = Pipeline(kind=PipelineKind.FLOW, id="8", name="prices")
    site.alerting.show(site.alerting.alert(), site.alerting.alert("1" * 16, pipeline=other))
    await observe_hours(site, Status.FAILED)
    shown = (await site.get(f"/api/v1{PATH}/alerts")).document
    assert [alert["fingerprint"] for alert in shown["open"]] == ["9f86d081884c7d65"]
    assert "orders has failed" in (await site.get(PATH)).text


async def test_an_unknown_pipeline_or_range_is_a_page_with_a_way_back(site: Site) -> None:
    """An unknown pipeline is 404, and an unknown range is 400 with the known ones."""
    site.live_state.name_pipeline("acme", PipelineKind.FLOW, "7", "orders")
    assert "No run in the last 7 days" in (await site.get(PATH)).text
    for path in ("/pipelines/acme/flow/9", "/pipelines/acme/table/7", "/pipelines/acm/flow/7"):
        answer = await site.get(path)
        assert (answer.status, "the overview" in answer.text) == (404, True)
    wrong = await site.get(f"{PATH}?range=1y")
    assert (wrong.status, "is none of 24h, 7d, 30d" in wrong.text) == (400, True)


async def test_a_success_that_hides_a_failed_part_says_so(site: Site) -> None:
    """The head names the part and why it failed, and so does its row."""
    part = FailedPart(
        key=RunKey("acme", RunKind.JOB_GROUP, "21"), name="clean", error="no such column"
    )
    flow_run = RunKey("acme", RunKind.FLOW_RUN, "20")
    await site.observe(site.run("20", Status.SUCCEEDED, key=flow_run, failed_part=part))

    page = (await site.get(PATH)).text
    words = " ".join(re.sub("<[^>]*>", " ", page).split())
    assert "is reported as succeeded, but its part clean failed: no such column" in words
    assert "succeeded a part failed: clean" in words
    shown = (await document(site))["last_success"]
    assert shown["failed_part"]["name"] == "clean"

"""The time line: runs by the clock, what was expected, what could not be observed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from monitor.model.live_state import Reachability, ReachabilityStretch
from monitor.model.runs import Parents, Pipeline, PipelineKind, RunKey, RunKind, Status, Trigger
from tests.web.site import Site
from tests.web.test_web_schedules import follow, schedule

MONDAY = datetime(2026, 11, 23, tzinfo=UTC)
NOON = MONDAY + timedelta(days=3, hours=12)
HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)


@pytest.fixture(autouse=True)
def _thursday(site: Site) -> None:
    """It is Thursday noon, and one flow is known."""
    site.clock.set_wall(NOON)
    follow(site)


async def lanes(site: Site, query: str = "") -> list[dict[str, Any]]:
    answer = await site.get(f"/api/v1/timeline{query}")
    assert answer.status == 200, answer.text
    rows: list[dict[str, Any]] = answer.document["data"]
    return rows


async def ran(site: Site, run_id: str, begin: datetime, length: timedelta, **more: Any) -> None:
    status = more.pop("status", Status.SUCCEEDED)
    more.setdefault("trigger", Trigger.SCHEDULE)
    end = begin + length if status.is_terminal else None
    await site.observe(
        site.run(run_id, status, created_at=begin, started_at=begin, finished_at=end, **more)
    )


async def test_runs_that_overlap_the_time_are_bars(site: Site) -> None:
    """A run that began before the time and one that lasts are there, one that was over is not."""
    await ran(site, "over", NOON - 30 * HOUR, HOUR)
    await ran(site, "across", NOON - 25 * HOUR, 4 * HOUR, status=Status.FAILED)
    await ran(site, "within", NOON - 5 * HOUR, HOUR)
    await ran(site, "lasts", NOON - HOUR, HOUR, status=Status.RUNNING)

    (lane,) = await lanes(site)

    assert [(bar["run_id"], bar["status"], bar["until"] is None) for bar in lane["bars"]] == [
        ("across", "failed", False),
        ("within", "succeeded", False),
        ("lasts", "running", True),
    ]
    assert lane["counts"] == {"failed": 1, "succeeded": 1, "running": 1}


async def test_a_run_that_lasts_for_days_is_seen(site: Site) -> None:
    """However long ago it began, and however many runs have followed it."""
    await ran(site, "stuck", NOON - 240 * HOUR, HOUR, status=Status.RUNNING)
    for number in range(9):
        await ran(site, f"{number}", NOON - (100 - number) * HOUR, MINUTE)
    (lane,) = await lanes(site)
    assert [bar["run_id"] for bar in lane["bars"]] == ["stuck"]


async def test_many_short_runs_share_a_bar_that_says_the_worst(site: Site) -> None:
    """Sixty runs of a minute are few bars; one of them leads to a time that shows them apart."""
    for number in range(60):
        status = Status.FAILED if number == 30 else Status.SUCCEEDED
        await ran(site, f"{number}", NOON - 2 * HOUR + number * MINUTE, MINUTE / 4, status=status)

    (lane,) = await lanes(site)
    assert len(lane["bars"]) < 20
    assert sum(sum(bar["counts"].values()) for bar in lane["bars"]) == 60
    assert [bar["status"] for bar in lane["bars"]].count("failed") == 1

    page = (await site.get("/timeline")).text
    assert " runs from 2026-11-26 10:" in page
    assert "60 runs: 59 succeeded, 1 failed" in page
    begin, end = (NOON - 2 * HOUR).isoformat()[:16], (NOON - HOUR).isoformat()[:16]
    (closer,) = await lanes(site, f"?since={begin}&until={end}&zone=UTC")
    assert len(closer["bars"]) == 60


async def test_expected_starts_and_deadlines_are_marks(site: Site) -> None:
    """A start that came has its bar; missed ones and those to come are marks."""
    follow(site, schedule())
    await ran(site, "came", MONDAY + timedelta(days=3, hours=6, minutes=30), MINUTE)

    (lane,) = await lanes(site, "?since=2026-11-25T00:00Z&until=2026-11-28T00:00Z")

    assert [(mark["at"], mark["kind"]) for mark in lane["marks"]] == [
        ("2026-11-25T06:30:00Z", "missed"),
        ("2026-11-27T06:30:00Z", "coming"),
    ]
    assert lane["missed"] == 1


async def test_outages_are_shaded(site: Site) -> None:
    """The time in which a workspace did not answer stands in each of its lanes, with the reason."""
    site.live_state.reachability["acme"] = (
        ReachabilityStretch(
            reachability=Reachability.REACHABLE, since=NOON - 9 * HOUR, until=NOON - 5 * HOUR
        ),
        ReachabilityStretch(
            reachability=Reachability.UNREACHABLE,
            since=NOON - 5 * HOUR,
            until=NOON - 4 * HOUR,
            reason="connection refused",
        ),
        ReachabilityStretch(reachability=Reachability.REACHABLE, since=NOON - 4 * HOUR, until=NOON),
    )
    (lane,) = await lanes(site)
    gap = next(gap for gap in lane["gaps"] if gap["why"] == "connection refused")
    assert (gap["since"], gap["until"]) == ("2026-11-26T07:00:00Z", "2026-11-26T08:00:00Z")
    assert "connection refused" in (await site.get("/timeline")).text


@pytest.mark.parametrize(
    ("query", "since", "until"),
    [
        ("", "2026-11-25T13:00:00Z", "2026-11-26T13:00:00Z"),
        ("?period=night", "2026-11-25T18:00:00Z", "2026-11-26T08:00:00Z"),
        ("?period=night&zone=Europe/Berlin", "2026-11-25T17:00:00Z", "2026-11-26T07:00:00Z"),
        ("?period=today&zone=Europe/Berlin", "2026-11-25T23:00:00Z", "2026-11-26T23:00:00Z"),
        ("?period=7d", "2026-11-20T00:00:00Z", "2026-11-27T00:00:00Z"),
        ("?since=3h", "2026-11-26T09:00:00Z", "2026-11-26T13:00:00Z"),
        (
            "?since=2026-11-26T00:00&until=2026-11-26T06:00&zone=Europe/Berlin",
            "2026-11-25T23:00:00Z",
            "2026-11-26T05:00:00Z",
        ),
    ],
)
async def test_the_time_is_chosen_by_a_word_or_from_and_to(
    site: Site, query: str, since: str, until: str
) -> None:
    """Words mean days and nights of the reader's zone; wall times without a zone are his too."""
    answer = (await site.get(f"/api/v1/timeline{query}")).document
    assert (answer["since"], answer["until"]) == (since, until)


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        (
            "?since=2026-11-26T06:00Z&until=2026-11-26T00:00Z",
            "since: 2026-11-26 06:00 UTC is not before until, 2026-11-26 00:00 UTC",
        ),
        (
            "?since=2016-11-26T06:00Z",
            "since: a time line covers at most 62 days, of the last 400 and the next 8",
        ),
        ("?zone=Mars/Olympus", "zone: 'Mars/Olympus' is no time zone; write Europe/Berlin"),
        ("?zone=../etc", "zone: '../etc' is no time zone; write Europe/Berlin"),
        ("?until=tomorrow", "until: 'tomorrow' is not an ISO 8601 instant"),
        ("?since=0001-01-01T00:00%2B14:00", "since: '0001-01-01T00:00+14:00' is outside"),
        ("?since=9999-12-31T23:59", "since: 9999-12-31 23:59 UTC is not before until"),
        ("?period=night&since=3h", "period: night has its own since and until; leave them out"),
        ("?group=colour", "group: 'colour' is none of workspace, plan, folder, owner"),
        ("?cursor=xyz", "cursor: 'xyz' is not one of this list"),
    ],
)
async def test_bad_times_have_one_clear_answer(site: Site, query: str, problem: str) -> None:
    """The page and the API name what is wrong and the way out."""
    answer = await site.get(f"/api/v1/timeline{query}")
    assert answer.status == 400
    assert answer.document["detail"].startswith(problem)
    assert (await site.get(f"/timeline{query}")).status == 400


async def test_lanes_are_grouped_and_go_on_after_a_cursor(site: Site) -> None:
    """By folder, those without one last; page after page each lane comes once."""
    for number, folder in enumerate(("b", None, "a", "b"), 20):
        site.live_state.name_pipeline("acme", PipelineKind.FLOW, f"{number}", f"flow {number}")
        site.live_state.names.place(
            ("acme", PipelineKind.FLOW, f"{number}"), folder=folder, owner=None
        )
    await site.clock.advance(2)
    found: list[tuple[str | None, str]] = []
    cursor: str | None = ""
    while cursor is not None:
        answer = (await site.get(f"/api/v1/timeline?group=folder&limit=2{cursor}")).document
        found += [(lane["group"], lane["id"]) for lane in answer["data"]]
        cursor = f"&cursor={answer['next']}" if answer["next"] else None
    assert found == [("a", "22"), ("b", "20"), ("b", "23"), (None, "21"), (None, "7")]


async def test_flows_stand_below_the_plan_that_runs_them(site: Site) -> None:
    """By plan: the plan, then the flows of its newest run, then flows of no plan."""
    for kind, key, name in (
        (PipelineKind.PLAN, "3", "nightly"),
        (PipelineKind.FLOW, "8", "another"),
    ):
        site.live_state.name_pipeline("acme", kind, key, name)
    await ran(
        site,
        "31",
        NOON - HOUR,
        MINUTE,
        key=RunKey("acme", RunKind.PLAN_RUN, "31"),
        pipeline=Pipeline(kind=PipelineKind.PLAN, id="3", name="nightly"),
    )
    await ran(site, "1", NOON - HOUR, MINUTE, parents=Parents(plan_run="31"))
    await site.clock.advance(2)
    found = await lanes(site, "?group=plan")
    assert [(lane["group"], lane["kind"], lane["id"]) for lane in found] == [
        ("nightly", "plan", "3"),
        ("nightly", "flow", "7"),
        (None, "flow", "8"),
    ]


async def test_what_is_not_drawn_is_said(site: Site) -> None:
    """Of more runs than are read the newest are drawn, and from when on."""
    await ran(site, "first", NOON - 20 * HOUR, MINUTE)
    begin = NOON - 19 * HOUR
    await site.observe(
        *(
            site.run(
                f"r{number}",
                Status.SUCCEEDED,
                created_at=begin + number * MINUTE / 4,
                finished_at=begin + number * MINUTE / 4,
            )
            for number in range(2_500)
        )
    )
    (lane,) = await lanes(site)
    assert lane["drawn_since"] == begin.isoformat().replace("+00:00", "Z")
    assert "are not drawn; choose a shorter time" in (await site.get("/timeline")).text


async def test_a_hostile_name_is_text(site: Site) -> None:
    """Names and reasons are escaped in the drawing as beside it."""
    site.live_state.name_pipeline("acme", PipelineKind.FLOW, "7", "<script>alert(1)</script>")
    await ran(site, "1/../<x>", NOON - HOUR, HOUR / 2)
    page = (await site.get("/timeline")).text
    assert "<script>alert" not in page
    assert "1%2F..%2F%3Cx%3E" in page

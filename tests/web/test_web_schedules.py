"""The calendar of schedules: what was expected, what came, what is unknown."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from monitor.model.days_off import DaysOff
from monitor.model.live_state import Reachability, ScheduleKnown
from monitor.model.runs import Pipeline, PipelineKind, RunKey, RunKind, RunState, Status, Trigger
from monitor.model.triggers import CronTrigger, ScheduleTrigger
from tests.web.site import Site

ORDERS = Pipeline(kind=PipelineKind.FLOW, id="7", name="orders")
DAILY = CronTrigger(expression="0 30 6 * * ?")
MONDAY = datetime(2026, 11, 23, tzinfo=UTC)
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


def schedule(
    schedule_id: str = "1", trigger: ScheduleTrigger = DAILY, **more: Any
) -> ScheduleKnown:
    made: dict[str, Any] = {
        "id": schedule_id,
        "name": f"nightly {schedule_id}",
        "is_enabled": True,
        "triggers": (trigger,),
        "pipelines": (ORDERS,),
        "created_at": LONG_AGO,
        "updated_at": LONG_AGO,
    }
    return ScheduleKnown(**{**made, **more})


@pytest.fixture(autouse=True)
def _thursday(site: Site) -> None:
    """It is Thursday noon of the week 2026-W48."""
    site.clock.set_wall(MONDAY + timedelta(days=3, hours=12))


def follow(site: Site, *schedules: ScheduleKnown, **more: Any) -> None:
    """Let these be the schedules, and all runs be known until now."""
    now = site.clock.now()
    for kind in RunKind:
        site.live_state.confirm("acme", kind, now, complete_at=now)
    status = {
        "schedules_of": "ann@example.com",
        "schedules_read_at": now,
        "followed_since": LONG_AGO,
    }
    site.live_state.update_workspace("acme", schedules=schedules, **{**status, **more})
    site.live_state.name_pipeline("acme", PipelineKind.FLOW, "7", "orders")


def started(site: Site, run_id: str, at: datetime, **more: Any) -> RunState:
    return site.run(
        run_id, Status.SUCCEEDED, created_at=at, finished_at=at, trigger=Trigger.SCHEDULE, **more
    )


async def states(site: Site, query: str = "") -> list[list[str]]:
    """Return the states of each day of the first row."""
    rows = (await site.get(f"/api/v1/schedules/starts{query}")).document["data"]
    return [[start["state"] for start in day["starts"]] for day in rows[0]["days"]]


async def test_a_week_shows_what_came_what_did_not_and_what_is_coming(site: Site) -> None:
    """Starts that came link to their runs; past ones without a run are missed."""
    follow(site, schedule())
    at = MONDAY + timedelta(hours=6, minutes=30, seconds=2)
    await site.observe(started(site, "1", at), started(site, "3", at + timedelta(days=2)))
    assert await states(site) == [
        ["met"], ["missed"], ["met"], ["missed"], ["coming"], ["coming"], ["coming"],
    ]  # fmt: skip
    page = (await site.get("/schedules")).text
    assert 'href="/runs/acme/job_group/1"' in page
    assert page.count('class="start missed" id="s-acme-1-flow-7-') == 2
    assert "every day at 06:30, UTC <code>0 30 6 * * ?</code>" in page
    assert "The API lists only the schedules of the token's owner." in page.replace("&#39;", "'")


async def test_starts_that_could_not_be_observed_are_unknown(site: Site) -> None:
    """Before a schedule was changed, and since the workspace does not answer, nothing is missed."""
    follow(
        site,
        schedule(updated_at=MONDAY + timedelta(days=1)),
        reachability=Reachability.UNREACHABLE,
    )
    site.live_state.complete["acme", RunKind.JOB_GROUP] = MONDAY + timedelta(days=2)
    site.live_state.complete["acme", RunKind.FLOW_RUN] = MONDAY + timedelta(days=2)
    assert (await states(site))[:4] == [["unknown"], ["missed"], ["unknown"], ["unknown"]]
    row = (await site.get("/api/v1/schedules/starts")).document["data"][0]
    reasons = [day["starts"][0].get("reason") for day in row["days"][:3]]
    assert reasons == ["the schedule was changed later", None, "the workspace is unreachable"]


async def test_a_start_on_a_day_off_of_its_rule_is_not_missed(site: Site) -> None:
    """The page names the calendar; a start that came there is shown, and other days as ever."""
    follow(site, schedule())
    days = tuple(f"{MONDAY + timedelta(days=number):%Y-%m-%d}" for number in (0, 1, 4))
    site.alerting.days_off["acme", "7"] = [DaysOff(dates=days)]
    await site.observe(started(site, "1", MONDAY + timedelta(days=1, hours=6, minutes=30)))
    assert (await states(site))[:5] == [
        ["not_expected"], ["met"], ["missed"], ["missed"], ["not_expected"],
    ]  # fmt: skip
    page = (await site.get("/schedules")).text
    assert "not expected: schedule_missed expects no start on days of its own" in page
    assert "2 missed" in page
    detail = (await site.get("/api/v1/pipelines/acme/flow/7/schedule")).document
    assert detail["counts"]["not_expected"] == 1
    shown = (await site.get("/pipelines/acme/flow/7")).text
    assert "schedule_missed expects no start on days of its own" in shown


async def test_holidays_of_a_week_on_which_clocks_change(site: Site) -> None:
    """Reformation Day 2027 is the Sunday on which summer time ends: off there, and on in Berlin."""
    sunday = datetime(2027, 10, 31, tzinfo=UTC)
    site.clock.set_wall(sunday + timedelta(days=1, hours=12))
    daily = CronTrigger(expression="0 30 2 * * ?", timezone="Europe/Berlin")
    follow(site, schedule(trigger=daily))
    query = "?zone=Europe/Berlin&week=2027-W43"
    for regions, state in (
        (("DE-BB",), "not_expected"),
        (("DE-BB", "DE-BE"), "missed"),
        (("DE-BB", None), "missed"),
        ((), "missed"),
    ):
        site.alerting.days_off["acme", "7"] = [DaysOff(region=region) for region in regions]
        found = await states(site, query)
        assert (found[5], found[6]) == (["missed"], [state])


async def test_a_start_is_due_until_its_grace_is_over(site: Site) -> None:
    """A start that is a few minutes late is neither missed nor unknown."""
    follow(site, schedule(trigger=CronTrigger(expression="0 55 11 * * ?")))
    assert (await states(site))[3] == ["due"]


@pytest.mark.parametrize("passes", [(0,), (1,), (0, 1)], ids=str)
async def test_in_the_repeated_hour_either_pass_is_met(
    site: Site, passes: tuple[float, ...]
) -> None:
    """Half past two comes twice on that Sunday: due until the second is over, met by either."""
    sunday, berlin = datetime(2026, 10, 25, tzinfo=UTC), "?zone=Europe/Berlin"
    daily = CronTrigger(expression="0 30 2 * * ?", timezone="Europe/Berlin")
    for minute, state in ((35, "due"), (41, "missed")):
        site.clock.set_wall(sunday + timedelta(hours=1, minutes=minute))
        follow(site, schedule(trigger=daily, updated_at=sunday))
        assert (await states(site, berlin))[6] == [state]
    for hours in passes:
        at = sunday + timedelta(hours=hours, minutes=30, seconds=2)
        await site.observe(started(site, f"{hours}", at))
    assert (await states(site, berlin))[6] == ["met"]


async def test_a_flow_run_and_its_job_groups_are_one_start(site: Site) -> None:
    """Two job groups of a flow run meet one expected start, and none of another day."""
    follow(site, schedule())
    at = MONDAY + timedelta(days=1, hours=6, minutes=30)
    flow_run = RunKey("acme", RunKind.FLOW_RUN, "70")
    parents = msgspec.structs.replace(site.run().parents, flow_run="70")
    await site.observe(
        started(site, "1", at, key=flow_run),
        *[started(site, run_id, at, parents=parents) for run_id in ("11", "12")],
    )
    assert (await states(site))[:3] == [["missed"], ["met"], ["missed"]]


async def test_a_start_that_nothing_expects_is_shown_as_that(site: Site) -> None:
    """A disabled schedule expects nothing; what a schedule has started is shown nevertheless."""
    follow(site, schedule(is_enabled=False, disable_reason="paused by ann"))
    at = MONDAY + timedelta(days=1, hours=9)
    await site.observe(started(site, "1", at), site.run("2", created_at=at, trigger=Trigger.MANUAL))
    assert await states(site) == [[], ["unplanned"], [], [], [], [], []]
    assert "disabled: paused by ann" in (await site.get("/schedules")).text


async def test_many_starts_of_a_day_are_counted(site: Site) -> None:
    """A schedule of every minute draws 24 bars a day, not 1,440 marks."""
    follow(site, schedule(trigger=CronTrigger(expression="0 * 0-22 * * ?")))
    await site.observe(*[started(site, str(n), MONDAY + timedelta(minutes=n)) for n in range(60)])
    answer = await site.get("/api/v1/schedules/starts")
    monday_row = answer.document["data"][0]["days"][0]
    assert monday_row["counts"] == {"met": 60, "missed": 1_320}
    assert [hour["counts"] for hour in monday_row["hours"][:2]] == [{"met": 60}, {"missed": 60}]
    assert len(answer.text) < 20_000
    page = (await site.get("/schedules")).text
    assert "1,320 missed, 60 started" in page
    assert page.count("<rect ") == 7 * 24


async def test_week_and_zone_are_of_the_url(site: Site) -> None:
    """The week before has its own link, and days are those of the zone."""
    follow(site, schedule(trigger=CronTrigger(expression="0 30 23 ? * SUN")))
    assert "week=2026-W47" in (await site.get("/schedules")).text
    utc = await states(site, "?week=2026-W47")
    assert [bool(day) for day in utc] == [False] * 6 + [True]
    # In Tokyo it is Monday already: that of the Sunday before, and the one of this Sunday is not.
    tokyo = await states(site, "?week=2026-W47&zone=Asia/Tokyo")
    assert [bool(day) for day in tokyo] == [True] + [False] * 6


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ("week=2026-W54", "week: '2026-W54' is no week; write 2026-W47"),
        ("week=9999-W01", "week: '9999-W01' is no week; write 2026-W47"),
        ("zone=Berlin", "zone: 'Berlin' is no time zone; write Europe/Berlin"),
        ("zone=../../etc/passwd", "zone: '../../etc/passwd' is no time zone"),
        ("workspace=acm", "workspace: 'acm' is not known; did you mean acme?"),
        ("cursor=x", "cursor: 'x' is not one of this list"),
    ],
)
async def test_a_mistyped_filter_is_named(site: Site, query: str, problem: str) -> None:
    """The JSON API answers with a problem, the page with the same sentence and a way back."""
    answer = await site.get(f"/api/v1/schedules/starts?{query}")
    assert (answer.status, answer.document["detail"][: len(problem)]) == (400, problem)
    page = await site.get(f"/schedules?{query}")
    assert page.status == 400
    assert problem.split("'", maxsplit=1)[0] in page.text


async def test_hundreds_of_schedules_come_in_pages(site: Site) -> None:
    """A page has 25 rows and a cursor; all pages together have each schedule once."""
    follow(site, *[schedule(str(number)) for number in range(60)])
    ids: list[str] = []
    query = ""
    while True:
        answer = (await site.get(f"/api/v1/schedules/starts{query}")).document
        ids += [row["schedule"]["id"] for row in answer["data"]]
        assert len(answer["data"]) <= 25
        if answer["next"] is None:
            break
        query = f"?cursor={answer['next']}"
    assert sorted(ids, key=int) == [str(number) for number in range(60)]


async def test_schedules_are_found_by_what_they_start(site: Site) -> None:
    """The pipeline is named by its id or a part of its name; nothing found has a way back."""
    plan = Pipeline(kind=PipelineKind.PLAN, id="9", name="month end")
    follow(site, schedule("1"), schedule("2", pipelines=(plan,)))
    site.live_state.name_pipeline("acme", PipelineKind.PLAN, "9", "Month end")
    for text, ids in (("END", ["2"]), ("7", ["1"]), ("nothing", [])):
        answer = (await site.get(f"/api/v1/schedules?pipeline={text}")).document["data"]
        assert [known["id"] for known in answer[0]["schedules"]] == ids
        rows = (await site.get(f"/api/v1/schedules/starts?pipeline={text}")).document["data"]
        assert [row["schedule"]["id"] for row in rows] == ids
    assert "No schedule fits these filters." in (await site.get("/schedules?pipeline=nothing")).text


async def test_of_what_was_deleted_nothing_is_expected(site: Site) -> None:
    """A schedule may outlive all that it started; it says so, and misses nothing."""
    follow(site, schedule(deleted=(ORDERS,)))
    assert await states(site) == [[]] * 7
    assert "starts nothing: what it started was deleted" in (await site.get("/schedules")).text


async def test_a_trigger_that_cannot_be_computed_says_why(site: Site) -> None:
    """A broken expression costs its own row its times, and no other."""
    broken = CronTrigger(expression="0 0 99 * * ?")
    follow(site, schedule("1", trigger=broken), schedule("2"))
    rows = (await site.get("/api/v1/schedules/starts")).document["data"]
    assert "cron hour '99'" in rows[0]["problem"]
    assert rows[1]["problem"] is None
    assert "Not compared: its times cannot be computed" in (await site.get("/schedules")).text


async def test_schedules_that_fire_too_often_are_not_compared(site: Site) -> None:
    """Times of every second are not listed in part, as if the rest of the week expected nothing."""
    follow(site, schedule("1", trigger=CronTrigger(expression="* * * * * ?")), schedule("2"))
    await site.observe(started(site, "1", MONDAY + timedelta(hours=9)))
    rows = (await site.get("/api/v1/schedules/starts")).document["data"]
    assert rows[0]["problem"] == "it fires too often to compare start by start"
    assert [day["counts"] for day in rows[0]["days"][:2]] == [{}, {}]
    assert rows[1]["problem"] is None

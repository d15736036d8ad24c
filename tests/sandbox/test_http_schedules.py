"""Schedules: their life, what they accept, and to whom they belong."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest

from monitor.model.triggers import (
    CronTrigger,
    DailyTrigger,
    HourlyTrigger,
    MonthlyTrigger,
    MonthlyWeekdayTrigger,
    OneTimeTrigger,
    ScheduleTrigger,
    UnsupportedTrigger,
    Weekday,
    WeeklyTrigger,
)
from monitor.sandbox.world.records.objects import Schedule, ScheduleTask
from tests.sandbox.http_workspace import ADMIN_TOKEN, COLLEAGUE_TOKEN, Workspace, open_workspace

SCHEDULES = "/v4/schedules"
FLOW_ID, PLAN_ID, FOREIGN_FLOW_ID = 101, 51, 102


@pytest.fixture
async def workspace() -> AsyncIterator[Workspace]:
    async with open_workspace() as opened:
        yield opened


def trigger(kind: str, timezone: str = "Europe/Berlin", **values: Any) -> dict[str, Any]:
    return {"timeBased": {kind: values, "timezone": timezone}}


DAILY = trigger("daily", hourOfDay=6, minuteOfHour=30, onlyWorkingDays=True)
AT_SIX: dict[str, Any] = {"hourOfDay": 6, "minuteOfHour": 0}
RUN_FLOW = {"runFlow": {"flowId": FLOW_ID}}


def schedule(**values: Any) -> dict[str, Any]:
    return {"name": "morning", "triggers": [DAILY], "tasks": [RUN_FLOW], **values}


async def create(workspace: Workspace, **values: Any) -> int:
    answer = await workspace.post(SCHEDULES, schedule(**values))
    assert answer.status == 201, answer.content
    schedule_id = answer.body["id"]
    assert isinstance(schedule_id, int)
    return schedule_id


async def test_a_schedule_is_made_and_read(workspace: Workspace) -> None:
    """A new schedule answers 201 and is read with triggers as sent and tasks expanded."""
    schedule_id = await create(workspace)

    answer = await workspace.get(f"{SCHEDULES}/{schedule_id}")

    document = answer.body
    assert document["triggers"] == [DAILY]
    assert document["tasks"][0]["runFlow"]["flowId"] == FLOW_ID
    assert document["tasks"][0]["runFlow"]["name"] == "Orders"
    assert document["enabled"] is True
    assert document["createdBy"] == workspace.things.owner.id
    assert document["disableReason"] is None
    assert workspace.engine.changed_schedules.is_set()


async def test_hourly_and_cron_are_accepted(workspace: Workspace) -> None:
    """Several triggers of the accepted kinds stand side by side."""
    triggers = [
        trigger("cron", expression="0 15 10 ? * MON-FRI"),
        trigger("hourly", minuteOfHour=5, utcEndDateTime="2027-01-01T00:00:00Z"),
    ]

    schedule_id = await create(workspace, triggers=triggers)

    assert (await workspace.get(f"{SCHEDULES}/{schedule_id}")).body["triggers"] == triggers


@pytest.mark.parametrize(
    "sent",
    [
        trigger("weekly", **AT_SIX, daysOfWeek=["MONDAY", "FRIDAY"], onlyWorkingDays=True),
        trigger("monthly", **AT_SIX, daysOfMonth=[1, 15, 31]),
        trigger("monthlyWeekday", **AT_SIX, dayOfWeek="MONDAY", nthWeekDayOfMonth=5),
        trigger("oneTime", utcDateTime="2030-01-01T00:00:00Z"),
        {"fileWatcher": {"path": "/in", "interval": 60_000, "eventType": "ONCHANGE"}},
        {"tableWatcher": {"table": "orders"}},
    ],
    ids=lambda character: next(iter(character.get("timeBased", character))),
)
async def test_every_published_kind_is_accepted(workspace: Workspace, sent: dict[str, Any]) -> None:
    """Each kind is kept and shown as it was sent, and can be switched off and on."""
    path = f"{SCHEDULES}/{await create(workspace, triggers=[sent])}"

    off = await workspace.post(f"{path}/disable")
    on = await workspace.post(f"{path}/enable")

    assert (await workspace.get(path)).body["triggers"] == [sent]
    assert (off.body["enabled"], on.body["enabled"]) == (False, True)


async def test_a_trigger_that_was_not_sent_is_shown_like_one_that_was(
    workspace: Workspace,
) -> None:
    """A trigger that is read from a document is written as that document again."""
    values: dict[str, Any] = {"hour_of_day": 6, "minute_of_hour": 30, "timezone": "Asia/Tokyo"}
    until = datetime(2030, 1, 1, tzinfo=UTC)
    triggers: tuple[ScheduleTrigger, ...] = (
        CronTrigger(expression="0 0 6 * * ?"),
        HourlyTrigger(minute_of_hour=5, valid_until=until),
        DailyTrigger(**values, only_working_days=True, valid_from=until),
        WeeklyTrigger(**values, days_of_week=(Weekday.MONDAY, Weekday.SUNDAY)),
        MonthlyTrigger(**values, days_of_month=(1, 31)),
        MonthlyWeekdayTrigger(**values, day_of_week=Weekday.FRIDAY, nth_week_day_of_month=5),
        OneTimeTrigger(at=until),
        UnsupportedTrigger(kind="tableWatcher"),
    )
    made = workspace.world.create(
        Schedule,
        by=workspace.things.owner.id,
        name="kept",
        triggers=triggers,
        tasks=(ScheduleTask(kind="flow", target_id=FLOW_ID),),
    )
    shown = (await workspace.get(f"{SCHEDULES}/{made.id}")).body["triggers"]

    again = await create(workspace, triggers=shown)

    kept = workspace.world.schedules.get(again)
    assert kept is not None
    assert kept.triggers == triggers


async def test_plans_are_scheduled(workspace: Workspace) -> None:
    """A schedule of a plan is found through the plan."""
    schedule_id = await create(workspace, tasks=[{"runPlan": {"planId": PLAN_ID}}])

    answer = await workspace.get(f"/v4/plans/{PLAN_ID}/schedules")

    assert answer.ids == [schedule_id]
    assert answer.body["data"][0]["tasks"][0]["runPlan"]["name"] == "Nightly"


@pytest.mark.parametrize(
    ("values", "code", "field"),
    [
        ({"name": None}, None, '"name"'),
        ({"name": 7}, None, '"name"'),
        ({"name": "x" * 300}, "SCHEDULE_NAME_TOO_LONG", '"name"'),
        ({"triggers": None}, None, '"triggers"'),
        ({"triggers": []}, None, '"triggers"'),
        ({"triggers": ["daily"]}, None, '"triggers[0]"'),
        ({"triggers": [{}]}, None, '"triggers[0].timeBased"'),
        ({"triggers": [{"timeBased": {}}]}, None, "timeBased"),
        ({"triggers": [trigger("daily", hourOfDay=25, minuteOfHour=0)]}, None, "hourOfDay"),
        ({"triggers": [trigger("hourly")]}, None, "minuteOfHour"),
        ({"triggers": [trigger("hourly", "Mars/Base", minuteOfHour=1)]}, None, "Mars/Base"),
        ({"triggers": [trigger("hourly", 7, minuteOfHour=1)]}, None, "timezone"),  # type: ignore[arg-type] # a wrong type on purpose
        (
            {"triggers": [trigger("hourly", minuteOfHour=1, utcEndDateTime="soon")]},
            None,
            "utcEndDateTime",
        ),
        ({"triggers": [trigger("cron", expression="x")]}, "INVALID_CRON_EXPRESSION", "cron"),
        ({"triggers": [trigger("cron", expression="* * *")]}, "INVALID_CRON_EXPRESSION", "cron"),
        (
            {"triggers": [trigger("cron", expression="0 0 0 1 1 ? 1999")]},
            "TRIGGER_WILL_NEVER_FIRE",
            "timeBased",
        ),
        (
            {"triggers": [trigger("oneTime", utcDateTime="2020-01-01T00:00:00Z")]},
            "TRIGGER_WILL_NEVER_FIRE",
            "timeBased",
        ),
        ({"triggers": [trigger("oneTime")]}, None, "utcDateTime"),
        ({"triggers": [trigger("weekly", **AT_SIX)]}, None, "daysOfWeek"),
        ({"triggers": [trigger("weekly", **AT_SIX, daysOfWeek=[])]}, None, "daysOfWeek"),
        ({"triggers": [trigger("weekly", **AT_SIX, daysOfWeek=["MON"])]}, None, "daysOfWeek[0]"),
        ({"triggers": [trigger("weekly", **AT_SIX, daysOfWeek=[[]])]}, None, "daysOfWeek[0]"),
        (
            {
                "triggers": [
                    trigger("weekly", **AT_SIX, daysOfWeek=["SUNDAY"], onlyWorkingDays=True)
                ]
            },
            "TRIGGER_WILL_NEVER_FIRE",
            "timeBased",
        ),
        ({"triggers": [trigger("monthly", **AT_SIX, daysOfMonth=[32])]}, None, "daysOfMonth 32"),
        ({"triggers": [trigger("monthly", **AT_SIX)]}, None, "daysOfMonth"),
        (
            {"triggers": [trigger("monthlyWeekday", **AT_SIX, dayOfWeek="MONDAY")]},
            None,
            "nthWeekDayOfMonth",
        ),
        (
            {
                "triggers": [
                    trigger("monthlyWeekday", **AT_SIX, dayOfWeek="DAY", nthWeekDayOfMonth=1)
                ]
            },
            None,
            "dayOfWeek",
        ),
        ({"triggers": [trigger("yearly", **AT_SIX)]}, None, "yearly"),
        ({"triggers": [{"fileWatcher": "/in"}]}, None, "fileWatcher"),
        (
            {"triggers": [trigger("hourly", minuteOfHour=1, utcEndDateTime="2020-01-01")]},
            "TRIGGER_WILL_NEVER_FIRE",
            "timeBased",
        ),
        ({"tasks": None}, None, '"tasks"'),
        ({"tasks": [{}]}, None, '"tasks[0].runFlow"'),
        ({"tasks": [{"runWorkflow": {}}]}, None, '"tasks[0].runFlow"'),
        ({"tasks": [{"runFlow": {}}]}, None, '"tasks[0].runFlow.flowId"'),
        ({"tasks": [{"runFlow": {"flowId": 9}}]}, "CANNOT_USE_FLOW_IN_SCHEDULE", "9"),
        (
            {"tasks": [{"runFlow": {"flowId": FOREIGN_FLOW_ID}}]},
            "CANNOT_USE_FLOW_IN_SCHEDULE",
            str(FOREIGN_FLOW_ID),
        ),
        ({"tasks": [{"runPlan": {"planId": 9}}]}, "CANNOT_USE_PLAN_IN_SCHEDULE", "9"),
    ],
)
async def test_the_error_names_what_is_wrong_in_a_schedule(
    workspace: Workspace, values: dict[str, Any], code: str | None, field: str
) -> None:
    """A document that is no schedule is 400, with the API's code where it has one."""
    answer = await workspace.post(SCHEDULES, schedule(**values))

    assert answer.is_refused(400, "ValidationFailed", field), answer.content
    assert answer.exception.get("code") == code
    assert len(workspace.world.schedules) == 0


async def test_a_schedule_is_changed(workspace: Workspace) -> None:
    """An update replaces what it names and answers the short form."""
    schedule_id = await create(workspace)
    path = f"{SCHEDULES}/{schedule_id}"
    hourly = trigger("hourly", minuteOfHour=5)

    answer = await workspace.request("PUT", path, body={"name": "often", "triggers": [hourly]})

    assert answer.status == 200
    assert answer.body.keys() == {"id", "updater", "createdAt", "updatedAt"}
    changed = (await workspace.get(path)).body
    assert changed["name"] == "often"
    assert changed["triggers"] == [hourly]
    assert changed["tasks"][0]["runFlow"]["flowId"] == FLOW_ID
    bad = await workspace.request("PUT", path, body={"triggers": []})
    assert bad.is_refused(400, "ValidationFailed", '"triggers"')


async def test_a_schedule_is_switched_off_and_on(workspace: Workspace) -> None:
    """Disable and enable answer the schedule as it is now, with or without a body."""
    path = f"{SCHEDULES}/{await create(workspace)}"

    off = await workspace.post(f"{path}/disable", {})
    on = await workspace.post(f"{path}/enable")

    assert (off.status, off.body["enabled"]) == (200, False)
    assert (on.status, on.body["enabled"]) == (200, True)


async def test_a_disabled_schedule_shows_why(workspace: Workspace) -> None:
    """The reason names who did it, stays over a second disable, and goes with enable."""
    path = f"{SCHEDULES}/{await create(workspace)}"
    email = workspace.things.owner.email

    for _ in range(2):
        await workspace.post(f"{path}/disable")
        assert (await workspace.get(path)).body["disableReason"] == f"disabled by {email}"
    await workspace.post(f"{path}/enable")

    assert (await workspace.get(path)).body["disableReason"] is None


async def test_a_schedule_that_will_never_fire_cannot_be_enabled(workspace: Workspace) -> None:
    """A schedule whose last time has passed stays off."""
    ending = trigger("hourly", minuteOfHour=5, utcEndDateTime="2026-11-21T12:00:00Z")
    path = f"{SCHEDULES}/{await create(workspace, triggers=[ending])}"
    await workspace.clock.advance(6 * 3600)

    answer = await workspace.post(f"{path}/enable")

    assert answer.is_refused(400, "ValidationFailed")
    assert answer.exception["code"] == "TRIGGER_WILL_NEVER_FIRE"


async def test_a_schedule_whose_flow_is_deleted_is_off_for_good(workspace: Workspace) -> None:
    """It shows why, and cannot be switched on until it is given something else to start."""
    path = f"{SCHEDULES}/{await create(workspace)}"
    assert (await workspace.request("DELETE", f"/v4/flows/{FLOW_ID}")).status == 204

    shown = (await workspace.get(path)).body
    refused = await workspace.post(f"{path}/enable")

    assert (shown["enabled"], shown["disableReason"]) == (
        False,
        "the flow that it starts was deleted",
    )
    assert refused.is_refused(400, "ValidationFailed", str(FLOW_ID))
    assert refused.exception["code"] == "CANNOT_USE_FLOW_IN_SCHEDULE"
    await workspace.request("PUT", path, body={"tasks": [{"runPlan": {"planId": PLAN_ID}}]})
    assert (await workspace.post(f"{path}/enable")).body["enabled"] is True


async def test_a_schedule_is_deleted(workspace: Workspace) -> None:
    """Delete answers 204 without a body; afterwards the schedule is not found."""
    path = f"{SCHEDULES}/{await create(workspace)}"

    deleted = await workspace.request("DELETE", path)

    assert (deleted.status, deleted.content) == (204, b"")
    for answer in (
        await workspace.get(path),
        await workspace.request("DELETE", path),
        await workspace.request("PUT", path, body={}),
        await workspace.post(f"{path}/enable"),
    ):
        assert answer.is_refused(404, "DataNotFoundException")


async def test_lists_show_ten_of_ones_own(workspace: Workspace) -> None:
    """A page is ten schedules of the caller; others', an administrator's too, are not seen."""
    ids = [await create(workspace, name=f"n{number}") for number in range(12)][::-1]

    assert (await workspace.get(SCHEDULES)).ids == ids[:10]
    assert (await workspace.get(SCHEDULES, limit="1000")).ids == ids
    assert (await workspace.get(SCHEDULES, sort="id", limit="1")).ids == ids[-1:]
    assert (await workspace.get(f"{SCHEDULES}/count")).body == {"count": 12}
    for token in (COLLEAGUE_TOKEN, ADMIN_TOKEN):
        workspace.token = token
        assert (await workspace.get(SCHEDULES)).ids == []


async def test_schedules_are_found_by_what_they_start(workspace: Workspace) -> None:
    """The filter matches the names of flows and plans; kind and id of the target select too."""
    of_flow = await create(workspace)
    of_plan = await create(workspace, tasks=[{"runPlan": {"planId": PLAN_ID}}])

    assert (await workspace.get(SCHEDULES, filter="Orders")).ids == [of_flow]
    assert (await workspace.get(SCHEDULES, **{"taskTypeFilter[]": "runPlan"})).ids == [of_plan]
    assert (await workspace.get(SCHEDULES, assetId=str(FLOW_ID))).ids == [of_flow]


async def test_only_the_owner_changes_a_schedule(workspace: Workspace) -> None:
    """Others are refused with 403, whatever they try."""
    path = f"{SCHEDULES}/{await create(workspace)}"
    workspace.token = COLLEAGUE_TOKEN

    for answer in (
        await workspace.request("PUT", path, body={"name": "mine"}),
        await workspace.request("DELETE", path),
        await workspace.post(f"{path}/enable"),
        await workspace.post(f"{path}/disable"),
    ):
        assert answer.is_refused(403, "AccessControlException")

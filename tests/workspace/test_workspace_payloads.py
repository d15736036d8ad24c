"""The recorded answers of real workspaces, and shapes that the documents promise."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from monitor.model.runs import Pipeline, PipelineKind
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
from monitor.workspace import row_kinds
from monitor.workspace.decoding import decode_rows, decode_text
from monitor.workspace.payloads import JobGroupRow, PlanChild, ScheduleRow
from tests.workspace.scripted import PAYLOADS, recorded


def raw(name: str) -> bytes:
    return (PAYLOADS / f"{name}.json").read_bytes()


def job_group(**fields: Any) -> JobGroupRow:
    return row_kinds.JOB_GROUP.decode(msgspec.json.encode({"id": 1, **fields}))


def schedule(**fields: Any) -> ScheduleRow:
    return row_kinds.SCHEDULE.decode(msgspec.json.encode({"id": 1, **fields}))


def test_a_recorded_job_group() -> None:
    """The answer of release 6.4, with real milliseconds and without the flow run's key."""
    row = row_kinds.JOB_GROUP.decode(raw("jobGroup_get_r064-docs"))
    assert (row.id, row.native_status, row.name, row.ran_from) == ("8", "Complete", None, "ui")
    assert row.created_at == datetime(2018, 1, 25, 18, 1, 16, 456_000, tzinfo=UTC)
    assert (row.recipe_id, row.flow_id, row.shows_flow_run) == ("12", None, False)


def test_a_recorded_job_group_of_text_ids() -> None:
    """Ids may be text, and a flow run that is null means none."""
    row = row_kinds.JOB_GROUP.decode(raw("jobGroup_get_inprogress_2019-stackoverflow59240362"))
    assert row.native_status == "InProgress"
    assert row.id.startswith("<JOB_GROUP_ID")
    assert (row.shows_flow_run, row.flow_run_id) == (True, None)


def test_a_recorded_list_row_names_its_flow() -> None:
    """The list of 2019 carried the flow unasked."""
    page = decode_rows(raw("jobGroups_list_item_r060-docs"), row_kinds.JOB_GROUP)
    (row,) = page.rows
    assert (row.flow_id, row.flow_name, row.recipe_id) == ("11", "2013 POS", "45")
    assert page.bad_rows == ()


def test_recorded_incomplete_rows() -> None:
    """The rows of 2026 show neither flow nor flow run; a list without envelope is read too."""
    page = decode_rows(raw("jobLibrary_rows_live2026"), row_kinds.JOB_GROUP)
    assert [row.id for row in page.rows] == ["4087561", "4087554"]
    assert page.rows[0].updated_at == datetime(2026, 7, 7, 23, 25, 34, tzinfo=UTC)
    assert not any(row.flow_id or row.shows_flow_run for row in page.rows)


def test_a_recorded_creator_is_the_owner() -> None:
    """The creator's address names the owner."""
    row = job_group(**recorded("jobGroup_embed_creator_2026"))
    assert (row.owner_id, row.owner) == ("590534", "analyst@yourcompany.com")


def test_recorded_jobs() -> None:
    """Job records carry type, progress and heartbeat; a null error is none."""
    page = decode_rows(raw("jobGroup_jobs_r060-docs"), row_kinds.JOB)
    assert [job.job_type for job in page.rows] == ["wrangle", "filewriter"]
    first = page.rows[0]
    assert (first.id, first.job_group_id, first.percent_complete) == ("41", "20", 100)
    assert first.heartbeat_at == datetime(2019, 2, 11, 23, 55, 32, 604_000, tzinfo=UTC)
    assert (first.error, first.started_at) == (None, None)


def test_a_recorded_status_is_a_plain_string() -> None:
    """Status operations answer one JSON string."""
    assert decode_text(raw("jobGroup_status_bare_string")) == "Complete"


def test_a_plan_run() -> None:
    """A plan run names its plan or snapshot and what scheduled it."""
    row = row_kinds.PLAN_RUN.decode(raw("planSnapshotRun_shape"))
    assert (row.id, row.native_status, row.plan_id) == ("7", "Failed", "13")
    assert row.schedule_history_id == "3"
    assert row.finished_at == datetime(2024, 1, 1, 0, 5, tzinfo=UTC)


def test_a_recorded_full_plan() -> None:
    """The plan read whole, as recorded in 2022: no original, so it is no snapshot."""
    row = row_kinds.PLAN_FULL.decode(raw("plan_full_extract_2022-ui-fixture"))
    assert (row.id, row.name) == ("13", "Created using tf plans")
    assert (row.is_snapshot, row.original_plan_id) == (False, None)
    assert (row.flow_ids, row.children) == ((), ())


@pytest.mark.parametrize("wrap", [lambda many: many, lambda many: {"data": many}])
def test_a_snapshot_shows_what_its_runs_started(wrap: Any) -> None:
    """A snapshot's nodes name their flows, and the runs that each plan run started."""
    results = [{"jobGroup": {"id": 31}}, {"flowRun": {"id": 41}, "jobGroup": None}]
    node = {
        "taskType": "flow",
        "task": {"flow": {"id": 5, "name": "sales"}},
        "planTaskSnapshotRuns": wrap(
            [{"planSnapshotRun": {"id": 7}, "planFlowTaskRunResults": wrap(results)}]
        ),
    }
    plan = {
        "id": 99,
        "snapshotted": True,
        "originalPlanId": 13,
        "planNodes": wrap([node, node, {"task": "unreadable"}, {"httpTask": {}}]),
        "planSnapshots": wrap([{"id": 98}]),
    }
    row = row_kinds.PLAN_FULL.decode(msgspec.json.encode(plan))
    assert (row.is_snapshot, row.original_plan_id, row.flow_ids) == (True, "13", ("5",))
    assert row.snapshot_ids == ("98",)
    assert row.children[:2] == (
        PlanChild(plan_run_id="7", job_group_id="31"),
        PlanChild(plan_run_id="7", flow_run_id="41"),
    )


@pytest.mark.parametrize(
    ("fields", "is_snapshot"),
    [
        ({"originalPlanId": 13}, True),
        ({"snapshotted": False, "originalPlanId": 13}, False),
        ({"snapshotted": True}, True),
        ({}, False),
    ],
)
def test_a_plan_that_was_made_of_another_is_no_snapshot(
    fields: dict[str, Any], *, is_snapshot: bool
) -> None:
    """The row's own fields win over what follows from the plan that it names."""
    row = row_kinds.PLAN.decode(msgspec.json.encode({"id": 99, "name": "made", **fields}))
    assert row.is_snapshot is is_snapshot


def test_a_plan_of_the_list_shows_its_newest_run() -> None:
    """The plan list is what maps runs of snapshots back to plans."""
    latest = {"id": 7, "status": "Complete", "createdAt": "2026-01-02T03:04:05.000Z"}
    plan = {
        "id": 13,
        "name": "nightly",
        "latestPlanSnapshot": {"id": 99},
        "latestPlanSnapshotRun": latest,
    }
    row = row_kinds.PLAN.decode(msgspec.json.encode(plan))
    assert (row.latest_run_id, row.latest_run_native_status) == ("7", "Complete")
    assert row.latest_run_created_at == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert (row.latest_snapshot_id, row.is_snapshot) == ("99", False)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, (False, None)),
        ({"flowRun": None}, (True, None)),
        ({"flowRun": {"id": 71}}, (True, "71")),
        ({"flowrun": {"id": "71"}}, (True, "71")),
        ({"flowRun": None, "flowrun": {"id": 71}}, (True, "71")),
        ({"flowRun": 71}, (True, "71")),
        ({"flowRun": {}}, (False, None)),
    ],
)
def test_both_spellings_of_the_flow_run(fields: dict[str, Any], expected: tuple[bool, Any]) -> None:
    """`flowRun` and `flowrun` are read; null means none, absence means unknown."""
    row = job_group(**fields)
    assert (row.shows_flow_run, row.flow_run_id) == expected


@pytest.mark.parametrize("word", ["Cancelled", "Canceled", "Pending", "SomethingNew", ""])
def test_status_words_are_kept(word: str) -> None:
    """A row keeps the workspace's own word, known or not."""
    assert job_group(status=word).native_status == word


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("2019-12-08T21:49:33.000Z", datetime(2019, 12, 8, 21, 49, 33, tzinfo=UTC)),
        ("2019-12-08T21:49:33Z", datetime(2019, 12, 8, 21, 49, 33, tzinfo=UTC)),
        ("2019-12-08T21:49:33.123456Z", datetime(2019, 12, 8, 21, 49, 33, 123_456, tzinfo=UTC)),
        ("2019-12-08T22:49:33+01:00", datetime(2019, 12, 8, 21, 49, 33, tzinfo=UTC)),
        ("2019-12-08T21:49:33", datetime(2019, 12, 8, 21, 49, 33, tzinfo=UTC)),
        (None, None),
    ],
)
def test_instants(text: str | None, at: datetime | None) -> None:
    """Dates come with or without milliseconds and zone, and leave as aware UTC."""
    assert job_group(updatedAt=text).updated_at == at


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, None),
        ("", None),
        ({}, None),
        ("disk full", "disk full"),
        ({"message": "disk full", "code": 3}, "disk full"),
        ({"code": 3}, '{"code": 3}'),
        (["a"], '["a"]'),
    ],
)
def test_error_fields_become_text(value: Any, text: str | None) -> None:
    """An error is text, an object or null; its text is kept."""
    assert job_group(workloadError=value).error == text
    job = row_kinds.JOB.decode(msgspec.json.encode({"id": 1, "errorMessage": value}))
    assert job.error == text


def test_a_recorded_schedule() -> None:
    """The schedule that a live workspace accepted: its trigger is kept, its task is not ours."""
    row = schedule(**recorded("schedule_create_request_live2026"))
    assert row.triggers == (
        DailyTrigger(
            hour_of_day=0,
            minute_of_hour=0,
            valid_from=datetime(2030, 1, 1, tzinfo=UTC),
            valid_until=datetime(2030, 1, 2, tzinfo=UTC),
        ),
    )
    assert (row.name, row.is_enabled, row.pipelines) == ("canary", True, ())


@pytest.mark.parametrize(
    ("trigger", "read"),
    [
        (
            {"timeBased": {"cron": {"expression": "0 0 6 ? * MON"}, "timezone": "Europe/Berlin"}},
            CronTrigger(expression="0 0 6 ? * MON", timezone="Europe/Berlin"),
        ),
        ({"timeBased": {"hourly": {"minuteOfHour": 5}}}, HourlyTrigger(minute_of_hour=5)),
        (
            {"id": 4, "timeBased": {"timezone": "UTC", "weekly": {"daysOfWeek": ["MONDAY"]}}},
            WeeklyTrigger(hour_of_day=0, minute_of_hour=0, days_of_week=(Weekday.MONDAY,)),
        ),
        (
            {"timeBased": {"weekly": {"daysOfWeek": ["MOONDAY"]}}},
            UnsupportedTrigger(kind="weekly"),
        ),
        (
            {"timeBased": {"monthly": {"daysOfMonth": [1, 31], "hourOfDay": 6}}},
            MonthlyTrigger(hour_of_day=6, minute_of_hour=0, days_of_month=(1, 31)),
        ),
        ({"timeBased": {"monthly": {"daysOfMonth": [0]}}}, UnsupportedTrigger(kind="monthly")),
        (
            {
                "timeBased": {
                    "monthlyWeekday": {"dayOfWeek": "FRIDAY", "nthWeekDayOfMonth": 5},
                    "timezone": "Asia/Tokyo",
                }
            },
            MonthlyWeekdayTrigger(
                hour_of_day=0,
                minute_of_hour=0,
                day_of_week=Weekday.FRIDAY,
                nth_week_day_of_month=5,
                timezone="Asia/Tokyo",
            ),
        ),
        (
            {"timeBased": {"oneTime": {"utcDateTime": "2030-01-01T00:00:00Z"}}},
            OneTimeTrigger(at=datetime(2030, 1, 1, tzinfo=UTC)),
        ),
        ({"timeBased": {"oneTime": {"utcDateTime": "soon"}}}, UnsupportedTrigger(kind="oneTime")),
        ({"id": 4, "fileWatcher": {"path": "/in"}}, UnsupportedTrigger(kind="fileWatcher")),
        (
            {"timeBased": {"hourly": {"minuteOfHour": 75}, "timezone": "UTC"}},
            UnsupportedTrigger(kind="hourly"),
        ),
        ({"timeBased": {"cron": {"expression": 5}}}, UnsupportedTrigger(kind="cron")),
        (
            {"timeBased": {"cron": {"expression": "0 0 6 * * ?"}, "timezone": 3}},
            UnsupportedTrigger(kind="unreadable"),
        ),
        ({"timeBased": 5}, UnsupportedTrigger(kind="unreadable")),
        ("daily", UnsupportedTrigger(kind="unreadable")),
        ({}, UnsupportedTrigger(kind="unreadable")),
    ],
)
def test_triggers(trigger: Any, read: ScheduleTrigger) -> None:
    """A trigger that can be computed is typed; every other one stays visible by its kind."""
    assert schedule(triggers=[trigger]).triggers == (read,)


def test_a_schedule_names_what_it_starts() -> None:
    """Flows and plans, by the key of the request or that of the answer, with their names."""
    row = schedule(
        tasks=[
            {"runFlow": {"flowId": 11}},
            {"runFlow": {"id": 12, "name": "sales"}},
            {"runPlan": {"planId": "13", "name": "nightly"}},
            {"runReport": {"id": 14}},
            "unreadable",
        ],
        enabled=False,
        disableReason="owner left",
    )
    assert row.pipelines == (
        Pipeline(kind=PipelineKind.FLOW, id="11"),
        Pipeline(kind=PipelineKind.FLOW, id="12", name="sales"),
        Pipeline(kind=PipelineKind.PLAN, id="13", name="nightly"),
    )
    assert (row.is_enabled, row.disable_reason) == (False, "owner left")

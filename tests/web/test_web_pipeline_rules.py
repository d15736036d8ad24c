"""What starts a pipeline, and what may be said of it: schedules, alerts, rules, jobs."""

from __future__ import annotations

from datetime import timedelta

from monitor.model.alerts import AlertState, AppliedRule, Severity
from monitor.model.live_state import ScheduleKnown
from monitor.model.runs import (
    JobDetails,
    JobRecord,
    Pipeline,
    PipelineKind,
    RunKind,
    Status,
    Trigger,
)
from monitor.model.triggers import HourlyTrigger
from tests.web.fake_alerting import KNOWN_RUN
from tests.web.site import Site

ORDERS = Pipeline(kind=PipelineKind.FLOW, id="7", name="orders")
PATH = "/pipelines/acme/flow/7"


def follow(site: Site) -> None:
    """Let an hourly schedule start the flow, with all its runs known until now."""
    now = site.clock.now()
    long_ago = now - timedelta(days=90)
    hourly = ScheduleKnown(
        id="1",
        name="hourly",
        is_enabled=True,
        triggers=(HourlyTrigger(minute_of_hour=0),),
        pipelines=(ORDERS,),
        created_at=long_ago,
        updated_at=long_ago,
    )
    for kind in RunKind:
        site.live_state.confirm("acme", kind, now, complete_at=now)
    site.live_state.update_workspace("acme", schedules=(hourly,), followed_since=long_ago)
    site.live_state.name_pipeline("acme", PipelineKind.FLOW, "7", "orders")


async def test_expected_starts_stand_beside_real_ones(site: Site) -> None:
    """A start that came has its run and its delay, one that did not is missed."""
    await site.clock.advance(1800)  # it is half past, long after a start
    follow(site)
    at = site.clock.now() - timedelta(minutes=29)
    run = site.run("17", Status.SUCCEEDED, created_at=at, trigger=Trigger.SCHEDULE)
    await site.observe(run)
    shown = (await site.get(f"/api/v1{PATH}/schedule?range=24h")).document

    assert shown["counts"] == {"met": 1, "missed": 23}
    assert (shown["starts"][0]["state"], shown["starts"][0]["run_id"]) == ("met", "17")
    assert len(shown["coming"]) == 5
    page = (await site.get(f"{PATH}?range=24h")).text
    assert "1 on time, 23 missed" in page
    assert "1 min later" in page
    assert "no run seen" in page


async def test_a_pipeline_without_a_schedule_says_whose_are_seen(site: Site) -> None:
    """Schedules of other people are not listed by the API, so their absence says little."""
    follow(site)
    site.live_state.update_workspace("acme", schedules=(), schedules_of="ann@example.com")
    page = (await site.get(PATH)).text
    assert "No schedule that the token can see starts it: only those of ann@example.com" in page


async def test_past_alerts_and_rules_stand_beside_the_open_ones(site: Site) -> None:
    """Alerts that ended in the range, and each rule with its threshold or why it does not apply."""
    follow(site)
    now = site.clock.now()
    ended = [
        site.alerting.alert(
            str(days) * 16,
            state=AlertState.RESOLVED,
            starts_at=now - timedelta(days=days, hours=1),
            ends_at=now - timedelta(days=days),
        )
        for days in (1, 9)
    ]
    site.alerting.over = {alert.fingerprint: [alert] for alert in ended}
    site.alerting.rules["acme", "7"] = (
        AppliedRule(
            name="late",
            rule="run_overdue",
            severity=Severity.WARNING,
            applies=False,
            threshold="after 1 h",
            why_not="owner=ann does not fit",
        ),
        AppliedRule(
            name="run_failed",
            rule="run_failed",
            severity=Severity.CRITICAL,
            applies=True,
            threshold="at the first failure",
        ),
    )
    shown = (await site.get(f"/api/v1{PATH}/alerts")).document

    assert [alert["fingerprint"] for alert in shown["past"]] == ["1" * 16]
    assert [rule["name"] for rule in shown["rules"]] == ["run_failed", "late"]
    page = (await site.get(PATH)).text
    assert "1 of 2 rules can fire for it" in page
    assert "no: owner=ann does not fit" in page


async def test_a_job_group_shows_its_jobs(site: Site) -> None:
    """Each job has its own bar; of one whose times stand for others the row says so."""
    begin = site.clock.now()
    jobs = (
        JobRecord(
            id="31",
            job_type="wrangle",
            status="succeeded",
            started_at=begin,
            ended_at=begin + timedelta(seconds=40),
            approximate=("started_at",),
        ),
        JobRecord(id="32", job_type="filewriter", status="Odd"),
    )
    run = site.run(
        KNOWN_RUN.id,
        Status.FAILED,
        started_at=begin,
        jobs=JobDetails(records=jobs),
        detailed=True,
    )
    await site.observe(run)
    shown = (await site.get("/api/v1/runs/acme/job_group/17")).document["parts"]
    assert [(part["depth"], part["kind"], part["name"], part["status"]) for part in shown] == [
        (0, "job_group", "orders", "failed"),
        (1, "job", "wrangle", "succeeded"),
        (1, "job", "filewriter", "Odd"),
    ]
    page = (await site.get("/runs/acme/job_group/17")).text
    assert "about 40 s" in page
    assert page.count('<svg class="bar"') == 3


async def test_jobs_that_were_read_before_the_end_are_not_shown_as_running(site: Site) -> None:
    """They have ended since, somehow; one whose end was read is shown with it."""
    jobs = tuple(
        JobRecord(id=str(number), job_type="wrangle", status=status)
        for number, status in enumerate(("succeeded", "running", "pending"))
    )
    await site.observe(site.run(KNOWN_RUN.id, Status.SUCCEEDED, jobs=JobDetails(records=jobs)))
    shown = (await site.get("/api/v1/runs/acme/job_group/17")).document["parts"]
    assert [part["status"] for part in shown] == ["succeeded", "succeeded", "unknown", "unknown"]

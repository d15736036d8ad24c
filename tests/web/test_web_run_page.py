"""The page of one run: its states, its parts, its error, and what became of it."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import msgspec

from monitor.bus.contract import Change
from monitor.model.events import STATUS_EVENTS, RunEvent, run_event_id
from monitor.model.runs import (
    FailedPart,
    Parents,
    Pipeline,
    PipelineKind,
    RunKey,
    RunKind,
    RunState,
    Source,
    Status,
)
from tests.web.fake_alerting import KNOWN_RUN
from tests.web.site import Site

PLAN_RUN = RunKey("acme", RunKind.PLAN_RUN, "5")
FLOW_RUN = RunKey("acme", RunKind.FLOW_RUN, "6")
NIGHTLY = Pipeline(kind=PipelineKind.PLAN, id="3", name="nightly")


async def observe_plan_run(site: Site) -> None:
    """Store a plan run with a flow run, and its two job groups; the second has failed."""
    error = "first line\nsecond <line>"
    of_flow_run: dict[str, Any] = {"parents": Parents(flow_run="6", plan_run="5")}
    part = FailedPart(key=RunKey("acme", RunKind.JOB_GROUP, "8"), name="load", error=error)
    begin = site.clock.now()
    site.alerting.known_runs |= {PLAN_RUN, RunKey("acme", RunKind.JOB_GROUP, "8")}
    await site.observe(
        site.run("5", Status.FAILED, key=PLAN_RUN, pipeline=NIGHTLY, failed_part=part),
        site.run("6", Status.FAILED, key=FLOW_RUN, parents=Parents(plan_run="5"), error=error),
        site.run("7", Status.SUCCEEDED, started_at=begin, **of_flow_run),
        site.run("8", Status.FAILED, error=error, **of_flow_run),
    )


async def test_a_plan_run_is_shown_as_a_tree(site: Site) -> None:
    """Flow runs stand below the plan run, job groups below their flow run, each of them once."""
    await observe_plan_run(site)
    document = (await site.get("/api/v1/runs/acme/plan_run/5")).document
    parts = [(part["depth"], part["kind"], part["id"]) for part in document["parts"]]

    assert parts == [
        (0, "plan_run", "5"),
        (1, "flow_run", "6"),
        (2, "job_group", "7"),
        (2, "job_group", "8"),
    ]
    assert document["parts_hidden"] == 0
    page = (await site.get("/runs/acme/plan_run/5")).text
    assert page.count('<svg class="bar"') == len(parts)
    assert 'First to fail: <a href="/runs/acme/job_group/8">job group 8</a>' in page


async def test_a_run_leads_to_the_runs_around_it(site: Site) -> None:
    """A job group names the plan run and the flow run that it is a part of, outermost first."""
    await observe_plan_run(site)
    document = (await site.get("/api/v1/runs/acme/job_group/8")).document
    assert [parent["id"] for parent in document["parents"]] == ["5", "6"]

    page = (await site.get("/runs/acme/job_group/8")).text
    assert page.index('href="/runs/acme/plan_run/5"') < page.index('href="/runs/acme/flow_run/6"')
    assert "first line\nsecond &lt;line&gt;</pre>" in page


async def test_each_state_names_its_time_and_who_reported_it(site: Site) -> None:
    """Queued, started and ended: when, by which source, and when it was recorded here."""
    begin = site.clock.now()
    run = site.run(
        "17",
        Status.SUCCEEDED,
        started_at=begin + timedelta(seconds=5),
        finished_at=begin + timedelta(seconds=65),
        approximate=("finished_at",),
    )
    sources = {
        Status.PENDING: (Source.POLL, run.created_at),
        Status.RUNNING: (Source.DETAIL, run.started_at),
        Status.SUCCEEDED: (Source.CALLBACK, run.finished_at),
    }
    events = tuple(_event(run, status, *found) for status, found in sources.items())
    await site.bus.commit(Change(runs=(run,), events=events), timeout_seconds=5)
    document = (await site.get("/api/v1/runs/acme/job_group/17")).document
    shown = [
        (row["state"], row["observed_by"], row["is_approximate"], row["event_id"])
        for row in document["transitions"]
    ]

    assert shown == [
        ("queued", "poll", False, "acme:job_group:17:queued"),
        ("started", "detail", False, "acme:job_group:17:started"),
        ("succeeded", "callback", True, "acme:job_group:17:succeeded"),
    ]
    page = (await site.get("/runs/acme/job_group/17")).text
    assert "the list of changes" in page
    assert "a callback" in page
    assert "about 1 min" in page


async def test_an_end_without_a_time_is_between_two_reads(site: Site) -> None:
    """A run whose events the log does not hold shows what is stored of it, and invents nothing."""
    now = site.clock.now()
    run = site.run(
        "17",
        Status.LOST,
        finished_at=None,
        unfinished_at=now - timedelta(seconds=90),
        end_seen_at=now,
        ended_by=Source.RECONCILIATION,
        historical=True,
    )
    await site.bus.commit(Change(runs=(run,)), timeout_seconds=5)
    document = (await site.get("/api/v1/runs/acme/job_group/17")).document
    queued, lost = document["transitions"]

    assert (queued["observed_by"], queued["recorded_at"]) == (None, None)
    assert (lost["at"], lost["not_after"]) == (None, now.isoformat().replace("+00:00", "Z"))
    assert lost["observed_by"] == "reconciliation"
    page = (await site.get("/runs/acme/job_group/17")).text
    assert "between <time" in page
    assert "It had ended before the monitor followed this workspace" in page


async def test_a_run_says_why_no_notification_was_sent(site: Site) -> None:
    """The answer stands on the page of the run, with the steps that lead to it."""
    await site.observe(site.run(KNOWN_RUN.id))
    page = (await site.get("/runs/acme/job_group/17")).text
    assert "1 step from observation to delivery" in page
    assert "fires after 300 s" in page
    explanation = (await site.get("/api/v1/runs/acme/job_group/17/explanation")).document
    assert explanation["reason"] == "pending"


async def test_an_unknown_run_is_a_page_with_a_way_back(site: Site) -> None:
    """A run that is not stored, and a kind of run that there is not, answer 404."""
    for path in ("/runs/acme/job_group/404", "/runs/acme/flow/1", "/runs/acm/job_group/1"):
        answer = await site.get(path)
        assert answer.status == 404
        assert "This cannot be shown" in answer.text
        assert (await site.get(f"/api/v1{path}")).status == 404


async def test_a_running_run_is_drawn_until_now(site: Site) -> None:
    """Its bar ends now, and its row says how long it has been running."""
    await site.observe(site.run(KNOWN_RUN.id))
    await site.clock.advance(125)
    page = (await site.get("/runs/acme/job_group/17")).text
    assert "2 min 5 s so far" in page
    assert 'width="1000.0"' in page


def _event(run: RunState, status: Status, source: Source, at: datetime | None) -> RunEvent:
    event_type = STATUS_EVENTS[status]
    return RunEvent(
        id=run_event_id(run.key, event_type),
        type=event_type,
        run=run,
        before=None,
        occurred_at=at,
        recorded_at=run.confirmed_at + timedelta(seconds=70),
        observed_by=source,
    )


async def test_a_failure_from_before_names_its_alert_and_what_is_not_read(site: Site) -> None:
    """No event, but the alert that it has; its reason is "not read yet" until it is read."""
    site.alerting.show(site.alerting.alert(preexisting=True, facts={"error": ""}))
    path = f"/runs/{KNOWN_RUN.workspace}/{KNOWN_RUN.kind}/{KNOWN_RUN.id}"
    run = site.run(KNOWN_RUN.id, Status.FAILED, key=KNOWN_RUN, historical=True)

    async def shown(**more: Any) -> tuple[str, str]:
        """Return the pages of the run, and of all, when this is known of it."""
        known = msgspec.structs.replace(run, **more)
        await site.bus.commit(Change(runs=(known,)), timeout_seconds=5)
        await site.clock.advance(60)  # a rendered page is kept for a while
        return (await site.get(path)).text, (await site.get("/")).text

    page, overview = await shown()
    assert "and made no event. This alert is about it: <a" in " ".join(page.split())
    assert "Why it failed is not read yet." in page
    assert "Why it failed is not read yet." in overview
    page, overview = await shown(detailed=True)
    assert "The workspace shows no reason why it failed." in page
    assert "The workspace shows no reason." in overview
    page, overview = await shown(detailed=True, error="disk is full")
    assert "disk is full" in page
    assert "disk is full" in overview

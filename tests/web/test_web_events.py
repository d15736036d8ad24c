"""Events by workspace, kind, pipeline and type; pages that read a bounded stretch; the stream."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from monitor.bus.contract import Change
from monitor.model.alerts import AlertState
from monitor.model.events import AlertEvent, EventType
from monitor.model.runs import Pipeline, PipelineKind, RunKey, RunKind, Status
from monitor.web.views.events import SCANNED
from tests.outputs.histories import run_event
from tests.web.site import Site

PLAN = Pipeline(kind=PipelineKind.PLAN, id="9", name="nightly")


async def fill(site: Site) -> None:
    """Store four events: of a flow and a plan, a run and an alert, two workspaces."""
    await site.observe(
        site.run("1"),
        site.run("2", Status.FAILED, key=RunKey("acme", RunKind.PLAN_RUN, "2"), pipeline=PLAN),
        site.run("3", Status.FAILED, key=RunKey("former", RunKind.JOB_GROUP, "3")),
    )
    alert = site.alerting.alert(state=AlertState.FIRING)
    fired = AlertEvent(
        id="alert",
        type=EventType.ALERT_FIRED,
        alert=alert,
        occurred_at=alert.starts_at,
        recorded_at=site.clock.now(),
    )
    await site.bus.commit(Change(events=(fired,)), timeout_seconds=5)


def names(data: list[dict[str, Any]]) -> list[str]:
    """Return the run of each event, or that it is about an alert."""
    events = [event["data"] for event in data]
    return [event["run"]["id"] if "run" in event else "alert" for event in events]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("", ["1", "2", "3", "alert"]),
        ("?workspace=former", ["3"]),
        ("?workspace=acme", ["1", "2", "alert"]),
        ("?kind=plan_run", ["2"]),
        ("?kind=job_group", ["1", "3", "alert"]),
        ("?pipeline=nightly", ["2"]),
        ("?pipeline=7", ["1", "3", "alert"]),
        ("?pipeline=none", []),
        ("?type=run.failed", ["2", "3"]),
        ("?type=run.failed&workspace=acme", ["2"]),
        ("?type=alert.fired", ["alert"]),
        ("?type=alert.fired&after=3", ["alert"]),
        ("?type=run.failed&after=2", ["3"]),
        ("?workspace=acme&limit=1", ["1"]),
        ("?workspace=acme&limit=1&cursor=1", ["2"]),
        ("?last=2&workspace=acme", ["alert"]),
    ],
)
async def test_events_are_filtered(site: Site, query: str, found: list[str]) -> None:
    """All that is asked for must fit; a pipeline is named by its id or name."""
    await fill(site)
    assert names((await site.get(f"/api/v1/events{query}")).document["data"]) == found


async def test_an_unknown_word_is_named(site: Site) -> None:
    """A workspace that no daemon follows, and that has no events either."""
    await fill(site)
    for query, detail in (
        ("workspace=acm", "workspace: 'acm' is not known; did you mean acme?"),
        ("type=run.fail", "type: 'run.fail' is none of run.queued, run.started, "),
        ("cursor=abc", "cursor: 'abc' is not a number from 0 to "),
    ):
        answer = await site.get(f"/api/v1/events?{query}")
        assert answer.status == 400
        assert answer.document["detail"].startswith(detail)
    assert (await site.get("/api/v1/events/stream?workspace=acm")).status == 400


async def test_a_page_reads_a_bounded_stretch(site: Site) -> None:
    """A rare event far back is found by going on after ``next``; no page reads the whole log."""
    events = [run_event(str(number), Status.SUCCEEDED) for number in range(SCANNED + 1_500)]
    rare = run_event("rare", Status.FAILED)
    await site.bus.commit(Change(events=(*events, rare)), timeout_seconds=30)

    first = (await site.get("/api/v1/events?type=run.failed")).document
    assert (first["data"], first["next"], first["has_more"]) == ([], SCANNED, True)
    second = (await site.get(f"/api/v1/events?type=run.failed&cursor={first['next']}")).document
    assert names(second["data"]) == ["rare"]
    assert (second["next"], second["has_more"]) == (SCANNED + 1_501, False)
    after = (await site.get(f"/api/v1/events?cursor={second['next']}")).document
    assert after == {"data": [], "next": second["next"], "has_more": False}


async def test_the_stream_has_the_same_filters(site: Site) -> None:
    """The stream has recorded events and later ones that fit, and nothing else."""
    await fill(site)
    url = f"{site.url}/api/v1/events/stream?after=0&type=run.failed&workspace=acme"
    async with site.session.get(url) as response:
        lines: list[bytes] = []

        async def read_until(text: bytes) -> None:
            async with asyncio.timeout(10):
                while not lines or text not in lines[-1]:
                    lines.append(await response.content.readline())

        await read_until(b'"id":"acme:plan_run:2')
        await site.observe(site.run("4"), site.run("5", Status.FAILED))
        await read_until(b'"id":"acme:job_group:5')
    assert [line for line in lines if line.startswith(b"id:")] == [b"id: 2\n", b"id: 6\n"]


async def test_a_position_of_a_former_store_leads_to_new_events(site: Site) -> None:
    """A position after the newest is the newest, or its client would miss as many events."""
    page = (await site.get("/api/v1/events?after=999")).document
    assert (page["data"], page["next"]) == ([], 0)
    await fill(site)
    page = (await site.get(f"/api/v1/events?cursor={page['next']}")).document
    assert names(page["data"]) == ["1", "2", "3", "alert"]

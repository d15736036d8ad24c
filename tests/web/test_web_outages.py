"""Outages as a list and each as a page: what happened while a workspace was not seen."""

from __future__ import annotations

import html
from datetime import datetime, timedelta

import msgspec
import pytest

from monitor.model.alerts import AlertState
from monitor.model.live_state import Reachability, ReachabilityStretch
from monitor.model.reports import PipelineFields, ReportedDelay, ReportedStart
from monitor.model.runs import PipelineKind, RunKind, Status
from tests.web.sample_reports import shown
from tests.web.site import Site

HOUR = timedelta(hours=1)
REFUSED = "changes: no connection: connection refused: Cannot connect to host acme:443"
ORDERS: PipelineFields = {
    "workspace": "acme",
    "pipeline": "orders",
    "pipeline_kind": PipelineKind.FLOW,
    "pipeline_id": "7",
}
UNREACHABLE, UNKNOWN = Reachability.UNREACHABLE, Reachability.UNKNOWN
REACHABLE, DEGRADED = Reachability.REACHABLE, Reachability.DEGRADED


def remember(site: Site, *parts: tuple[Reachability, float, float]) -> None:
    """Let the workspace have been like that, from so many hours ago to so many."""
    now = site.clock.now()
    site.live_state.reachability["acme"] = tuple(
        ReachabilityStretch(
            reachability=how,
            since=now - since * HOUR,
            until=now - until * HOUR,
            reason=REFUSED if how is UNREACHABLE else None,
        )
        for how, since, until in parts
    )
    how, since, _ = parts[-1]
    site.live_state.update_workspace(
        "acme",
        reachability=how,
        since=now - since * HOUR,
        known_at=now,
        reason=REFUSED if how is UNREACHABLE else None,
    )


def was_away(site: Site) -> datetime:
    """Let an outage of an hour be over since an hour; return its begin."""
    remember(site, (REACHABLE, 9, 2), (UNREACHABLE, 2, 1), (REACHABLE, 1, 0))
    return site.clock.now() - 2 * HOUR


def is_away(site: Site) -> datetime:
    """Let an outage last since an hour; return its begin."""
    remember(site, (REACHABLE, 9, 1), (UNREACHABLE, 1, 0))
    return site.clock.now() - HOUR


def path_of(at: datetime, workspace: str = "acme") -> str:
    return f"/outages/{workspace}/{at.isoformat().replace('+00:00', 'Z')}"


async def test_outages_are_listed_with_their_reason_in_words(site: Site) -> None:
    """The newest first; what follows without a break is one, what was seen in part another."""
    remember(
        site,
        (REACHABLE, 9, 8),
        (UNREACHABLE, 8, 7),
        (UNKNOWN, 7, 6),
        (DEGRADED, 6, 5),
        (REACHABLE, 5, 2),
        (UNREACHABLE, 2, 0),
    )
    found = (await site.get("/api/v1/outages?workspace=acme")).document
    fields = ("seconds", "is_partial", "is_over", "why")
    assert [tuple(row[field] for field in fields) for row in found["data"]] == [
        (7200, False, False, "workspace did not answer: connection refused"),
        (3600, True, True, "a part of it could not be read"),
        (7200, False, True,
         "workspace did not answer: connection refused; part of the time no daemon watched it"),
    ]  # fmt: skip
    assert found["unseen_now"] == 1
    assert found["data"][0]["reasons"] == [REFUSED]
    page = (await site.get("/outages")).text
    assert page.count("/outages/acme/") >= 3


async def test_an_outage_shows_what_happened_meanwhile(site: Site) -> None:
    """Runs that ended in it and no others, missed starts, what was late, and its alerts."""
    since = was_away(site)
    await site.observe(
        site.run("1", Status.FAILED, finished_at=since + HOUR / 2, created_at=since - HOUR),
        site.run("2", Status.SUCCEEDED, finished_at=since - HOUR / 2, created_at=since - HOUR),
        site.run("3", Status.SUCCEEDED, finished_at=since + HOUR, created_at=since),
    )
    start = ReportedStart(**ORDERS, schedule=None, expected_at=since + HOUR / 4, missed=2)
    delay = ReportedDelay(
        **ORDERS, rule="not_fresh", text="orders is late", since=since, until=None
    )
    site.alerting.report = shown(did_not_start=(start,), late=(delay,))
    in_it = site.alerting.alert("in-it", starts_at=since + HOUR / 2, notified_at=site.clock.now())
    before = site.alerting.alert("before", starts_at=since - HOUR)
    site.alerting.show(in_it, before)
    found = (await site.get(f"/api/v1{path_of(since)}")).document
    assert [run["id"] for run in found["ended"]] == ["1"]
    assert found["ended_total"] == 1
    assert [row["missed"] for row in found["missed"]] == [2]
    assert [row["text"] for row in found["late"]] == ["orders is late"]
    assert [row["alert"]["fingerprint"] for row in found["notified_late"]] == ["in-it"]
    asked = site.alerting.reports_asked[-1]
    assert (asked.since, asked.until, asked.match.workspace) == (since, since + HOUR, ("acme",))
    page = html.unescape((await site.get(path_of(since))).text)
    for words in (
        "connection refused",
        "job group <bdi>1<",
        "and 1 start after it",
        "orders is late",
    ):
        assert words in page, words


async def test_how_late_people_were_notified(site: Site) -> None:
    """From the begin of the condition on, by our clock although the workspace's differs."""
    since = was_away(site)
    site.live_state.update_workspace("acme", clock_skew_seconds=600.0)
    there = since + timedelta(minutes=40)  # half an hour after the begin, as we count
    site.alerting.show(site.alerting.alert("in-it", starts_at=there, notified_at=site.clock.now()))
    found = (await site.get(f"/api/v1{path_of(since)}")).document
    (row,) = found["notified_late"]
    notified = datetime.fromisoformat(row["alert"]["notified_at"])
    assert row["late_seconds"] == pytest.approx(
        (notified - since - timedelta(minutes=30)).total_seconds()
    )


async def test_an_outage_that_lasts_says_what_is_not_known(site: Site) -> None:
    """Starts that were due are named, and how many runs had not ended; nothing is judged."""
    since = is_away(site)
    await site.observe(site.run("1", created_at=since - HOUR, confirmed_at=since))
    key = ("acme", RunKind.JOB_GROUP, "7")
    site.alerting.show(expected={key: since + HOUR / 2})
    found = (await site.get(f"/api/v1{path_of(since)}")).document
    assert (found["is_over"], found["running"]) == (False, 1)
    assert [row["pipeline_id"] for row in found["awaited"]] == ["7"]
    page = (await site.get(path_of(since))).text
    assert "1 run had not ended when it was last seen" in page
    assert "not known whether they started" in page


@pytest.mark.parametrize("minutes", [0, 30, 61])
async def test_an_outage_is_found_by_any_instant_of_it(site: Site, minutes: float) -> None:
    """An alert about it begins a little later, or ends a little after it."""
    since = was_away(site)
    at = since + timedelta(minutes=minutes)
    found = (await site.get(f"/api/v1{path_of(at)}")).document
    assert datetime.fromisoformat(found["since"]) == since


@pytest.mark.parametrize(
    ("path", "status", "detail"),
    [
        ("/outages/acme/2020-01-01T00:00:00Z", 404, "at: no outage of acme is known at 2020-01-01"),
        ("/outages/acme/9999-12-31T23:59:59Z", 404, "at: no outage of acme is known at 9999-12-31"),
        ("/outages/acme/yesterday", 404, "at: 'yesterday' "),
        ("/outages/acme/2026-11-21T08:00:00", 400, "at: '2026-11-21T08:00:00' names no time zone"),
        ("/outages/acm/2026-11-21T08:00:00Z", 404, "workspace: 'acm' is not known; did you mean"),
        ("/outages?workspace=acm", 400, "workspace: 'acm' is not known; did you mean acme?"),
    ],
)
async def test_what_is_no_outage_is_one_sentence(
    site: Site, path: str, status: int, detail: str
) -> None:
    """An instant that is none, or of no outage; a workspace that is not known."""
    was_away(site)
    answer = await site.get(f"/api/v1{path}")
    assert (answer.status, answer.document["detail"][: len(detail)]) == (status, detail)
    assert (await site.get(path)).status == status


async def test_what_leads_to_an_outage(site: Site) -> None:
    """The sentence of state, the overview, the workspace and the alert link it, in words."""
    since = is_away(site)
    link = f'href="{path_of(since)}"'
    alert = site.alerting.alert(
        "away", rule="workspace_unreachable", pipeline=None, run=None, starts_at=since
    )
    site.alerting.show(alert)
    await site.clock.advance(11)
    for path in ("/runs", "/", "/workspaces/acme", "/alerts/away"):
        text = html.unescape((await site.get(path)).text)
        assert link in text, path
        assert "acme</bdi> does not answer: connection refused; since" in text, path
    about = (await site.get(f"/api/v1{path_of(since)}")).document["alerts"]
    assert [row["fingerprint"] for row in about] == ["away"]
    over = msgspec.structs.replace(
        alert, state=AlertState.RESOLVED, starts_at=since - timedelta(days=8)
    )
    site.alerting.show(over)
    (row,) = (await site.get("/api/v1/alerts")).document["data"]
    assert row["links"]["outage"] is None


async def test_a_run_of_an_outage_is_not_judged(site: Site) -> None:
    """Its length is that of when it was last seen, and it is neither late nor longer than usual."""
    await site.observe(
        *(
            site.run(
                str(number),
                Status.SUCCEEDED,
                created_at=site.clock.now() - number * HOUR,
                started_at=site.clock.now() - number * HOUR,
                finished_at=site.clock.now() - number * HOUR + timedelta(minutes=5),
            )
            for number in range(20, 30)
        )
    )
    since = is_away(site)
    begun = since - timedelta(minutes=2)
    run = site.run("1", created_at=begun, started_at=begun, confirmed_at=since)
    await site.observe(run)
    await site.clock.advance(11)
    (row,) = (await site.get("/api/v1/running")).document["data"]
    assert (row["status"], row["elapsed_seconds"]) == ("unknown", 120)
    assert row["expected_end_at"] is None
    page = (await site.get("/")).text
    assert "not judged while it is not seen" in page
    assert "longer than usual" not in page

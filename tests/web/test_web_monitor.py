"""The pages about the daemon itself and about each workspace."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from monitor.bus.contract import DeadLetter, Start, Step
from monitor.model.checks import failed
from monitor.model.inventory import ConnectionKnown, Figures, Inventory
from monitor.model.live_state import (
    Authentication,
    BudgetStatus,
    DoubtedList,
    PollStatus,
    Reachability,
    ReachabilityStretch,
    RefusedCapability,
    TokenStatus,
    TokenTrouble,
    TokenTroubleKind,
)
from monitor.model.poll_outcomes import PollOutcome
from monitor.model.runs import PipelineKind, Status
from tests.web.site import Site

EVIL = "<script>alert(1)</script>"


async def test_dead_letters_show_their_reason_and_their_run(site: Site) -> None:
    """An output shows the length of its backlog, and why it could not deliver what was refused."""
    await site.bus.subscribe("webhook", start=Start.OLDEST)
    await site.observe(site.run("1"), site.run("2", Status.FAILED))
    (first, second) = await site.bus.events(after=0, limit=2)
    letter = DeadLetter(
        position=first.position,
        event=first.event,
        reason=f"400 Bad Request {EVIL}",
        refused_at=site.clock.now(),
    )
    step = Step(consumer="webhook", position=first.position, dead_letters=(letter,))
    await site.bus.advance(step, timeout_seconds=5)
    rows = (await site.get("/api/v1/monitor/outputs")).document["data"]
    shown = {row["name"]: row for row in rows}
    assert (shown["mqtt"]["backlog"], shown["mqtt"]["is_well"]) == (0, True)
    assert (shown["webhook"]["backlog"], shown["webhook"]["dead_letters"]) == (1, 1)
    assert shown["webhook"]["oldest_at"] == msgspec.to_builtins(second.event.recorded_at)
    page = (await site.get("/monitor")).text
    assert 'href="/runs/acme/job_group/1">run.started</a>' in page
    assert "400 Bad Request &lt;script&gt;" in page
    assert "does not answer: refused" in page
    assert "1 event behind" in page


async def test_a_failed_check_and_a_failing_rule_are_shown(site: Site) -> None:
    """The page says what is not ready, which rule cannot be evaluated, and what it raised."""
    assert "all of them work" in (await site.get("/monitor")).text
    site.findings["store"] = failed("store", "cannot be written: disk full")
    site.alerting.show(
        failing_rules={"run_failed": "ZeroDivisionError"}, failures={"run_failed": 3}
    )
    await site.clock.advance(11)  # longer than a rendering is kept
    page = (await site.get("/monitor")).text
    for words in ("Not ready", "cannot be written: disk full", "3 failures", "ZeroDivisionError"):
        assert words in page
    document = (await site.get("/api/v1/monitor")).document
    assert document["ready"] is False
    assert document["failing_rules"][0] == {
        "name": "run_failed", "error": "ZeroDivisionError", "failures": 3,
    }  # fmt: skip
    assert document["running_seconds"] == 11


async def test_a_box_that_fails_leaves_the_others(site: Site) -> None:
    """A box that cannot be shown says so in its own place; the polls beside it are shown."""
    site.live_state.record_poll(
        PollStatus(
            workspace="acme",
            poll="changes",
            last_attempt_at=site.clock.now(),
            last_success_at=None,
            last_outcome=PollOutcome.UNREACHABLE,
            overdue_at=-1.0,
        )
    )
    site.live_state.update_workspace("acme", budgets=(None,))  # no budget, so it cannot be read
    answer = await site.get("/monitor")
    assert answer.status == 200
    assert answer.text.count("This part cannot be shown") == 1
    assert "the workspace did not answer" in answer.text
    assert "1 overdue" in answer.text


async def test_the_store_shows_how_far_it_reaches_back(site: Site) -> None:
    """Size, ends of the log and retention; an empty log has no ends."""
    empty = (await site.get("/api/v1/monitor/store")).document
    assert (empty["events"], empty["oldest_event_at"], empty["newest_event_at"]) == (0, None, None)
    first = site.run("1")
    await site.observe(first)
    await site.clock.advance(60)
    await site.observe(site.run("2"))
    full = (await site.get("/api/v1/monitor/store")).document
    assert (full["events"], full["store_bytes"] > 0) == (2, True)
    assert full["oldest_event_at"] == msgspec.to_builtins(first.confirmed_at)
    assert full["newest_event_at"] == msgspec.to_builtins(site.clock.now())
    assert full["runs_kept_seconds"] == 30 * 86_400


async def test_traffic_shows_the_worst_first(site: Site) -> None:
    """Starved budgets, missed callbacks and overdue polls stand first; a filter narrows them."""
    site.live_state.add_workspace("other")
    full, tight = (
        BudgetStatus(scope="user", limit=600, remaining=remaining) for remaining in (500, 6)
    )
    site.live_state.update_workspace("acme", budgets=(full,), webhook_tasks={"registered": 2})
    site.live_state.update_workspace(
        "other", budgets=(tight,), webhook_tasks={"failed": 1}, callbacks_missed=4
    )
    budgets = (await site.get("/api/v1/monitor/budgets?limit=1")).document
    assert [(row["workspace"], row["is_low"]) for row in budgets["data"]] == [("other", True)]
    assert budgets["hidden"] == 1
    callbacks = (await site.get("/api/v1/monitor/callbacks")).document["data"]
    assert [row["workspace"] for row in callbacks] == ["other", "acme"]
    page = (await site.get("/workspaces/acme")).text
    assert "500 requests" in page
    assert "6 requests" not in page
    assert (await site.get("/api/v1/monitor/polls?workspace=x")).status == 400


async def test_a_workspace_shows_what_it_can_and_what_is_not_watched(site: Site) -> None:
    """Capabilities in words, since when and why others are refused, doubted lists."""
    now = site.clock.now()
    site.live_state.name_pipeline("acme", PipelineKind.FLOW, "7", "orders")
    site.live_state.update_workspace(
        "acme",
        reachability=Reachability.DEGRADED,
        since=now - timedelta(hours=3),
        edition="RL",
        capabilities=frozenset({"list_changes", "follow_flow_runs", "read_schedules"}),
        clock_skew_seconds=-90.0,
        refused=(
            RefusedCapability(
                capability="list_plan_runs",
                since=now - timedelta(hours=2),
                reason="list plan runs: 403",
                unwatched=("plan_run",),
            ),
        ),
        doubted=(DoubtedList(name="job groups", since=now, reason=f"lacks 3 {EVIL}"),),
        inventory=Inventory(
            objects=Figures(values={"flows": 12.0}, until=now + timedelta(hours=1)),
            usage=Figures(values={"stale": 1.0}, until=now - timedelta(hours=1)),
            tokens=Figures(
                values={"t1": (now + timedelta(days=5)).timestamp()}, until=now + timedelta(days=1)
            ),
            connections=(
                ConnectionKnown(
                    id="1", name="warehouse", is_up=False, until=now + timedelta(hours=1)
                ),
            ),
        ),
    )
    document = (await site.get("/api/v1/workspaces/acme")).document
    states = {known["capability"]: known["state"] for known in document["capabilities_in_words"]}
    assert (states["list_changes"], states["list_plan_runs"], states["read_tokens"]) == (
        "available", "refused", "missing",
    )  # fmt: skip
    assert document["unwatched_because"] == [{"what": "plan_run", "reason": "list plan runs: 403"}]
    assert (document["flows"], document["objects"], document["usage"]) == (1, {"flows": 12.0}, {})
    page = (await site.get("/workspaces/acme")).text
    for words in (
        "Degraded</span>", "for 3 h", "1 min 30 s behind ours", "list plan runs, ",
        "plan runs</span>",
        "The list of job groups is doubted", "lacks 3 &lt;script&gt;", "in 5 d", "cannot be opened",
    ):  # fmt: skip
        assert words in page, words


async def test_workspaces_are_listed_with_a_link_to_each(site: Site) -> None:
    """An unreachable workspace says since when, why, and what is not watched."""
    site.live_state.update_workspace(
        "acme",
        reachability=Reachability.UNREACHABLE,
        since=datetime(2026, 11, 21, 9, tzinfo=UTC),
        reason="connection refused",
    )
    (row,) = (await site.get("/api/v1/workspaces")).document["data"]
    assert row["unwatched"] == ["job_group", "flow_run", "plan_run", "schedules"]
    page = (await site.get("/workspaces")).text
    for words in ('href="/workspaces/acme"', "connection refused", "job groups, flow runs, plan"):
        assert words in page, words


@pytest.mark.parametrize(
    ("authentication", "token", "words"),
    [
        (Authentication.NONE, None, ("no token",)),
        (Authentication.STATIC_TOKEN, None, ("static token",)),
        (None, None, ("its holder shows it",)),
        (Authentication.REFRESHED_TOKEN, None, ("not refreshed yet",)),
        (
            Authentication.REFRESHED_TOKEN,
            {"refreshed_at": -60, "expires_at": 240, "pair_expires_at": 20 * 86_400},
            ("refreshed <time", "1 min ago", ", ends <time", "in 4 min", "refresh token ends"),
        ),
        (Authentication.REFRESHED_TOKEN, {"refreshed_at": -60}, ("used until it is refused",)),
        (
            Authentication.REFRESHED_TOKEN,
            {"refreshed_at": -600, "expires_at": -300, "trouble": f"locked out {EVIL}"},
            (
                "in danger</span>",
                "locked out &lt;script&gt;alert(1)&lt;/script&gt;. To do: generate a new pair.",
                ", ended <time",
            ),
        ),
    ],
)
async def test_a_workspace_shows_how_it_is_authenticated(
    site: Site,
    authentication: Authentication | None,
    token: dict[str, Any] | None,
    words: tuple[str, ...],
) -> None:
    """Page and JSON have when a refreshed token ends, when it was refreshed, and its trouble."""
    now = site.clock.now()
    status = None
    if token is not None:
        instants = {
            name: now + timedelta(seconds=seconds)
            for name, seconds in token.items()
            if name != "trouble"
        }
        trouble = None
        if "trouble" in token:
            trouble = TokenTrouble(
                kind=TokenTroubleKind.LOCKED_OUT,
                since=now,
                reason=token["trouble"],
                advice="generate a new pair",
            )
        status = TokenStatus(**instants, trouble=trouble)
    site.live_state.update_workspace("acme", authentication=authentication, token=status)
    (row,) = (await site.get("/api/v1/workspaces")).document["data"]
    details = (await site.get("/api/v1/workspaces/acme")).document
    for shown in (row, details):
        assert shown["authentication"] == authentication
        assert shown["refreshed_token"] == msgspec.to_builtins(status)
    page = (await site.get("/workspaces/acme")).text
    for word in words:
        assert word in page, word
    assert words[0] in (await site.get("/workspaces")).text


async def test_an_unknown_workspace_has_a_way_back(site: Site) -> None:
    """The JSON API answers 404 with the nearest name, the page with a sentence."""
    answer = await site.get("/api/v1/workspaces/acm")
    assert (answer.status, "did you mean acme?" in answer.document["detail"]) == (404, True)
    page = await site.get("/workspaces/%3Cscript%3E")
    assert (page.status, "<script>" in page.text) == (404, False)


async def test_a_workspace_shows_how_it_answered_in_the_last_days(site: Site) -> None:
    """Each stretch is drawn where it lies; what was not watched counts neither way."""
    now = site.clock.now()
    parts = (
        (Reachability.REACHABLE, 4, 3, None),
        (Reachability.UNKNOWN, 3, 2, None),
        (Reachability.UNREACHABLE, 2, 1, f"no route {EVIL}"),
        (Reachability.REACHABLE, 1, 0, None),
    )
    site.live_state.reachability["acme"] = tuple(
        ReachabilityStretch(
            reachability=reachability,
            since=now - timedelta(days=since),
            until=now - timedelta(days=until),
            reason=reason,
        )
        for reachability, since, until, reason in parts
    )
    site.live_state.update_workspace(
        "acme", reachability=Reachability.REACHABLE, since=now - timedelta(days=1), known_at=now
    )
    shown = (await site.get("/api/v1/workspaces/acme/reachability")).document
    assert [stretch["reachability"] for stretch in shown["data"]] == [
        "reachable", "unknown", "unreachable", "reachable",
    ]  # fmt: skip
    assert shown["reachable_ratio"] == pytest.approx(2 / 3)
    page = (await site.get("/workspaces/acme")).text
    assert '<rect class="unreachable" x="714.29" y="0" width="142.86" height="24">' in page
    for words in (
        "reachable 66.7 % of the 3 d that it was watched",
        "for 1 d from",
        "no route &lt;script&gt;",
    ):
        assert words in page, words

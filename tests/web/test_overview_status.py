"""The sentence of state: what it counts, and that blind is not green."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from monitor.model.live_state import HistoryRead, PollStatus, Reachability, UnreadableRun
from monitor.model.poll_outcomes import PollOutcome
from monitor.model.runs import Pipeline, PipelineKind, RunKind, Status
from tests.web.site import Site
from tests.web.test_overview_boxes import see


async def status(site: Site) -> dict[str, Any]:
    answer: dict[str, Any] = (await site.get_recomputed("/api/v1/status")).document
    return answer


def flow(number: int) -> Pipeline:
    return Pipeline(kind=PipelineKind.FLOW, id=str(number), name=f"flow {number}")


def stand(site: Site, *ends: Status) -> None:
    """Let as many flows have ended so, in a workspace that is seen."""
    see(site)
    for number, end in enumerate(ends):
        site.live_state.name_pipeline("acme", PipelineKind.FLOW, str(number), f"flow {number}")
        site.stand(flow(number), end)


OK, BAD = Status.SUCCEEDED, Status.FAILED


@pytest.mark.parametrize(
    ("ends", "sentence", "level"),
    [
        ((OK,), "The only pipeline is healthy, no alert, nothing running", "ok"),
        ((OK,) * 3, "All 3 pipelines healthy, no alert, nothing running", "ok"),
        ((OK, BAD), "1 pipeline failing, nothing running, 1 healthy", "critical"),
        (
            (BAD, BAD, OK, Status.LOST),
            "3 pipelines failing, nothing running, 1 healthy",
            "critical",
        ),
        ((OK, Status.CANCELED), "1 pipeline canceled, nothing running, 1 healthy", "ok"),
    ],
)
async def test_the_sentence_counts_pipelines(
    site: Site, ends: tuple[Status, ...], sentence: str, level: str
) -> None:
    """Trouble comes first; with nothing wrong it says that all is well."""
    stand(site, *ends)
    answer = await status(site)
    assert (answer["sentence"], answer["level"]) == (sentence, level)


async def test_a_missed_start_and_other_alerts_are_counted_by_themselves(site: Site) -> None:
    """A start that did not come is no failure, and an alert about the daemon no pipeline's."""
    stand(site, OK, OK, OK)
    alert = site.alerting.alert
    site.alerting.show(
        alert("a", rule="schedule_missed", name="schedule_missed", pipeline=flow(0)),
        alert("b", rule="run_overdue", name="run_overdue", pipeline=flow(1)),
        alert("c", rule="monitor_degraded", pipeline=None, kind=None, workspace="bridge"),
    )
    answer = await status(site)
    assert answer["sentence"] == (
        "1 missed start, 1 with a warning, 1 other alert, nothing running, 1 healthy"
    )
    assert (answer["level"], answer["short"]) == (
        "critical",
        "1 missed, 1 warning, 1 other alert",
    )


async def test_an_unseen_workspace_is_not_healthy(site: Site) -> None:
    """Of an unreachable workspace the failures stand, and everything else is unknown."""
    stand(site, OK, OK, BAD)
    site.live_state.update_workspace("acme", reachability=Reachability.UNREACHABLE)
    answer = await status(site)
    assert answer["sentence"] == (
        "1 pipeline failing, 2 unknown (acme is unreachable), nothing running, 0 healthy"
    )
    assert (answer["healthy"], answer["unknown"]) == (0, 2)
    stand(site, OK, OK, OK)
    site.live_state.update_workspace("acme", reachability=Reachability.UNREACHABLE)
    assert (await status(site))["level"] == "unknown"
    states = {row["state"] for row in (await site.get("/api/v1/pipelines")).document["data"]}
    assert states == {"unknown"}


async def test_a_state_is_never_older_than_it_says(site: Site) -> None:
    """Past the limit without a confirmation everything is unknown, although nothing failed."""
    stand(site, OK, OK)
    assert (await status(site))["confirmed_at"] == "2026-11-21T10:00:00Z"
    await site.clock.advance(596)
    assert (await status(site))["unknown"] == 0
    answer = await status(site)
    assert (answer["unknown"], answer["healthy"], answer["level"]) == (2, 0, "unknown")


async def test_the_confirmation_is_that_of_the_oldest_part(site: Site) -> None:
    """One kind of run that was read just now does not make the others any newer."""
    stand(site, OK)
    await site.clock.advance(60)
    site.live_state.confirm("acme", RunKind.JOB_GROUP, site.clock.now())
    assert (await status(site))["confirmed_at"] == "2026-11-21T10:00:00Z"


async def test_nothing_has_run_yet(site: Site) -> None:
    """Pipelines without any run are neither healthy nor failing."""
    see(site)
    site.live_state.name_pipeline("acme", PipelineKind.FLOW, "1", "orders")
    answer = await status(site)
    assert answer["sentence"] == "Nothing has run yet: 1 pipeline known, nothing running"
    assert (answer["healthy"], answer["new"]) == (0, 1)


async def test_title_and_icon_say_it_too(site: Site) -> None:
    """A window in the background shows by its title and icon that something fails."""
    stand(site, OK, BAD)
    text = (await site.get("/")).text
    assert "<title>1 failing · Overview · dataprep-monitor</title>" in text
    assert "icons/critical.svg" in text


def first_look(site: Site, *, hours_read: int, is_over: bool = False) -> None:
    """Let the workspace be followed since now, and so many hours before that be read."""
    until = site.clock.now()
    site.live_state.update_workspace(
        "acme",
        capabilities=frozenset({"list_changes", "list_flows", "read_schedules"}),
        history=HistoryRead(
            since=until - timedelta(hours=24),
            until=until,
            reached=until - timedelta(hours=hours_read),
            is_over=is_over,
        ),
    )


def read(site: Site, poll: str) -> None:
    now = site.clock.now()
    site.live_state.record_poll(
        PollStatus(
            workspace="acme",
            poll=poll,
            last_attempt_at=now,
            last_success_at=now,
            last_outcome=PollOutcome.OK,
        )
    )


async def test_first_reads_under_way_are_named(site: Site) -> None:
    """Before names, schedules and lists are read nothing is well, and nothing is not running."""
    stand(site, OK)
    first_look(site, hours_read=0)
    answer = await status(site)
    assert answer["sentence"] == (
        "1 healthy, reading: runs, flows, schedules, history: 0 of 24 h read"
    )
    assert (answer["level"], answer["short"]) == ("unknown", "reading: runs, flows, schedules")
    read(site, "changes")
    read(site, "names")
    first_look(site, hours_read=6)
    answer = await status(site)
    assert (answer["reading"], answer["level"]) == (["reading: schedules"], "unknown")
    read(site, "schedules")
    answer = await status(site)
    assert answer["sentence"] == (
        "The only pipeline is healthy, no alert, nothing running, history: 6 of 24 h read"
    )
    assert answer["level"] == "ok"
    first_look(site, hours_read=24, is_over=True)
    assert "history" not in (await status(site))["sentence"]


async def test_a_failure_stands_while_the_rest_is_read(site: Site) -> None:
    """The newest runs are read first, so a failure that is known needs people at once."""
    stand(site, OK, BAD)
    first_look(site, hours_read=1)
    read(site, "changes")
    answer = await status(site)
    assert answer["sentence"] == (
        "1 pipeline failing, 1 healthy, reading: flows, schedules, history: 1 of 24 h read"
    )
    assert answer["level"] == "critical"


async def test_runs_that_cannot_be_read_are_named_for_an_hour(site: Site) -> None:
    """The state is not all well, and the workspace's page has the reason."""
    stand(site, OK)
    runs = [
        UnreadableRun(
            kind=RunKind.FLOW_RUN, id=str(id_), tried_at=site.clock.now(), reason="answered 500"
        )
        for id_ in (71, 72, 73)
    ]
    site.live_state.update_workspace("acme", unreadable=tuple(runs))
    answer = await status(site)
    assert answer["sentence"] == (
        "The only pipeline is healthy, not readable: flow run 71, flow run 72 and 1 more, "
        "nothing running"
    )
    assert (answer["level"], answer["short"]) == ("warning", answer["unreadable"][0])
    page = (await site.get("/workspaces/acme")).text
    assert "Flow run 73 cannot be read" in page
    assert "answered 500" in page

    await site.clock.advance(3_601)
    assert not (await status(site))["unreadable"]

"""The sentence of state where something is not seen, not judged or about nothing that is known."""

from __future__ import annotations

import asyncio

import pytest

from monitor.model.alerts import Severity
from monitor.model.checks import Check, CheckLine, failed, ok
from monitor.model.live_state import PollStatus, Reachability
from monitor.model.poll_outcomes import PollOutcome
from monitor.model.runs import PipelineKind, RunKind, Status
from monitor.web.health import RecentReadiness
from tests.clocks import ManualClock
from tests.web.site import Site
from tests.web.test_overview_boxes import see
from tests.web.test_overview_status import BAD, OK, flow, stand, status


def fail_poll(
    site: Site, poll: str, *, outcome: str = "unreachable", overdue_at: float | None = None
) -> None:
    """Let the last attempt of a poll have failed."""
    site.live_state.record_poll(
        PollStatus(
            workspace="acme",
            poll=poll,
            last_attempt_at=site.clock.now(),
            last_success_at=None,
            last_outcome=PollOutcome(outcome),
            overdue_at=overdue_at,
        )
    )


async def test_an_alert_about_a_pipeline_that_is_not_known_counts(site: Site) -> None:
    """Of a deleted pipeline, or of a workspace that was removed, until its pipeline is known."""
    stand(site, OK, OK)
    alert = site.alerting.alert
    site.alerting.show(alert("a", pipeline=flow(99)), alert("b", workspace="gone"))
    answer = await status(site)
    assert answer["sentence"] == "All 2 pipelines healthy, 2 other alerts, nothing running"
    assert (answer["level"], answer["short"]) == ("critical", "2 other alerts")
    site.live_state.name_pipeline("acme", PipelineKind.FLOW, "99", "flow 99")
    assert (await status(site))["other_alerts"] == 1
    site.alerting.show()
    answer = await status(site)
    assert (answer["other_alerts"], answer["critical_alerts"], answer["level"]) == (0, 0, "ok")


async def test_an_alert_counts_where_nothing_has_run_or_is_known(site: Site) -> None:
    """Without a pipeline, or with new ones only, the sentence still has it."""
    see(site)
    site.alerting.show(site.alerting.alert(pipeline=None, kind=None, severity=Severity.WARNING))
    assert (await status(site))["sentence"] == "No pipeline is known yet, 1 other alert"
    site.live_state.name_pipeline("acme", PipelineKind.FLOW, "1", "orders")
    answer = await status(site)
    assert answer["sentence"] == (
        "Nothing has run yet: 1 pipeline known, 1 other alert, nothing running"
    )
    assert (answer["level"], answer["short"]) == ("warning", "1 other alert")


async def test_an_alert_is_as_bad_as_its_severity(site: Site) -> None:
    """A critical alert about a pipeline or the daemon is critical; any other is a warning."""
    stand(site, OK, OK)
    alert = site.alerting.alert
    for pipeline, rule in ((None, "monitor_degraded"), (flow(0), "run_overdue")):
        for severity, level in ((Severity.CRITICAL, "critical"), (Severity.WARNING, "warning")):
            site.alerting.show(alert(pipeline=pipeline, rule=rule, severity=severity))
            answer = await status(site)
            assert (answer["level"], "healthy" in answer["short"]) == (level, False)


async def test_rules_that_cannot_be_evaluated_are_named(site: Site) -> None:
    """No alert of them is no good sign; of many the first are named, however long."""
    stand(site, OK, OK)
    site.alerting.show(failing_rules={"run_failed": "KeyError: 'x'"})
    answer = await status(site)
    assert answer["sentence"] == (
        "All 2 pipelines healthy, rule run_failed cannot be evaluated, nothing running"
    )
    assert (answer["level"], answer["short"]) == ("unknown", "1 rule cannot be evaluated")
    site.alerting.show(failing_rules=dict.fromkeys(("a", "b", "c", "d" * 5_000), "KeyError"))
    assert "rules a, b and 2 more cannot be evaluated" in (await status(site))["sentence"]


async def test_schedules_that_cannot_be_read_are_named(site: Site) -> None:
    """A missed start would not be seen then."""
    stand(site, OK, OK)
    fail_poll(site, "schedules")
    answer = await status(site)
    assert answer["sentence"] == (
        "acme: schedules cannot be read (unreachable), nothing running, 2 healthy"
    )
    assert (answer["level"], "healthy" in answer["short"]) == ("unknown", False)


@pytest.mark.parametrize("outcome", ["throttled", "budget"])
async def test_runs_that_go_without_requests_for_long_name_their_workspace(
    site: Site, outcome: str
) -> None:
    """It is the workspace that is not seen then, and not the monitor that is not ready."""
    stand(site, OK, OK)
    fail_poll(site, "changes", outcome=outcome, overdue_at=site.clock.monotonic() + 10)
    assert (await status(site))["level"] == "ok"
    await site.clock.advance(10)
    answer = await status(site)
    assert answer["sentence"] == (
        f"acme: changes was not read in time ({outcome}), nothing running, 2 healthy"
    )
    assert answer["level"] == "unknown"


async def test_a_workspace_that_was_never_read_may_hide_anything(site: Site) -> None:
    """Although it answers and no pipeline of it is known; it stands in the trouble box too."""
    stand(site, OK, OK)
    site.live_state.add_workspace("other")
    for reachability in (Reachability.DEGRADED, Reachability.REACHABLE):
        site.live_state.update_workspace("other", reachability=reachability)
        answer = await status(site)
        assert answer["sentence"] == (
            "other: its runs have not been read yet, nothing running, 2 healthy"
        )
        assert answer["level"] == "unknown"
        (trouble,) = (await site.get("/api/v1/trouble")).document["data"]
        assert trouble["workspace"] == "other"
    site.live_state.confirm("other", RunKind.JOB_GROUP, site.clock.now())
    assert (await status(site))["level"] == "ok"  # an edition without plans hides none


async def test_a_run_that_was_not_observed_for_long_is_not_running(site: Site) -> None:
    """Past the limit it is counted apart, and nothing is well."""
    stand(site, OK, OK)
    await site.observe(site.run("5"))
    await site.clock.advance(601)
    see(site)
    await site.observe(site.run("6"))
    answer = await status(site)
    assert (answer["running"], answer["unconfirmed"], answer["level"]) == (1, 1, "unknown")
    assert answer["sentence"].endswith("1 running, 1 perhaps running, not confirmed")


async def test_a_monitor_that_is_not_ready_says_so(site: Site) -> None:
    """A readiness check that fails is in the sentence and title within seconds."""
    stand(site, OK, OK)
    site.findings["store"] = failed("store", "writes are refused")
    answer = await status(site)
    assert answer["sentence"] == (
        "All 2 pipelines healthy, the monitor itself is not ready: store, nothing running"
    )
    assert (answer["level"], answer["short"]) == ("warning", "monitor not ready")
    site.findings["store"] = ok("store", "writable")
    await site.clock.advance(5)
    assert (await status(site))["level"] == "ok"


async def test_readiness_is_checked_at_most_every_few_seconds() -> None:
    """However many ask; and a check that hangs delays no caller for its whole time limit."""
    clock, begun, answers = ManualClock(), 0, asyncio.Event()

    async def check() -> list[CheckLine]:
        nonlocal begun
        begun += 1
        await answers.wait()
        return [ok("store", "well")]

    recent = RecentReadiness(lambda: [Check("store", check)], clock=clock)
    answers.set()
    found = await asyncio.gather(*(recent.get() for _ in range(10)))
    assert (begun, {result is not None and result.ready for result in found}) == (1, {True})
    await clock.advance(4.9)
    assert await recent.get() is found[0]
    answers.clear()
    await clock.advance(0.1)
    assert await recent.get() is found[0]  # the check hangs: what is known is recent enough
    await clock.advance(11)
    assert await recent.get() is None
    assert begun == 2
    answers.set()
    assert await recent.get() is not None


async def test_canceled_and_new_pipelines_are_not_all_healthy(site: Site) -> None:
    """The title says healthy of all only where all are."""
    stand(site, OK, Status.CANCELED)
    assert (await status(site))["short"] == "1 canceled"
    stand(site, OK, OK)
    site.live_state.name_pipeline("acme", PipelineKind.FLOW, "9", "new")
    answer = await status(site)
    assert answer["short"] == "2 healthy"
    assert answer["sentence"] == "nothing running, 2 healthy, 1 without a run yet"
    stand(site, BAD)
    assert (await status(site))["short"] == "1 failing"

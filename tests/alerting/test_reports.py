"""What a report says of runs, alerts and blindness, over a real store and engine."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from monitor.alerting.reports.settings import ReportMatch
from monitor.alerting.rules.rule_settings import Match, RuleKind
from monitor.alerting.rules.table import default_rule
from monitor.alerting.settings import AlertingSettings
from monitor.bus.contract import Retention
from monitor.model.ends import run_end
from monitor.model.live_state import (
    HistoryRead,
    PipelineHealth,
    Reachability,
    ReachabilityStretch,
    RefusedCapability,
    UnlistedRuns,
)
from monitor.model.runs import Parents, PipelineKind, Recipe, RunKind, Status
from tests.alerting.engine_scenario import WORKSPACE, EngineScenario, engine_scenario
from tests.alerting.report_scenario import HOUR, ended_run, report_of, store_runs

MINUTE = timedelta(minutes=1)


@pytest.fixture
async def scenario(tmp_path: Path) -> AsyncIterator[EngineScenario]:
    async with engine_scenario(tmp_path) as scenario:
        now = scenario.clock.now()
        scenario.live_state.update_workspace(
            WORKSPACE, followed_since=now - 90 * 24 * HOUR, known_at=now, since=now - 48 * HOUR
        )
        scenario.live_state.reachability[WORKSPACE] = (
            ReachabilityStretch(
                reachability=Reachability.REACHABLE, since=now - 48 * HOUR, until=now
            ),
        )
        yield scenario


async def test_a_failure_without_a_later_success_goes_on(scenario: EngineScenario) -> None:
    """Failures of one part are one line, with the newest run, its reason and how many there are."""
    now = scenario.clock.now()
    await store_runs(
        scenario,
        ended_run(1, now - 3 * HOUR, error="disk full"),
        ended_run(2, now - 2 * HOUR, error="no such table"),
        ended_run(3, now - 1 * HOUR, Status.CANCELED),
    )

    report = await report_of(scenario)

    (row,) = report.failed_and_still_failing
    assert (row.pipeline, row.failures, row.run_ids) == ("flow 1", 2, ("2", "1"))
    assert (row.reason, row.recovered_at) == ("no such table", None)
    assert (row.first_ended_at, row.last_ended_at) == (now - 3 * HOUR, now - 2 * HOUR)
    assert report.failed_and_recovered == report.over_when_seen == ()
    assert report.verdict == "flow 1 is still failing."
    assert report.results == {Status.FAILED: 2, Status.CANCELED: 1}


async def test_a_success_after_it_is_a_recovery_at_its_time(scenario: EngineScenario) -> None:
    """The first success after the failure counts, also one after the end of the stretch."""
    now = scenario.clock.now()
    await store_runs(
        scenario,
        ended_run(1, now - 5 * HOUR),
        ended_run(2, now - 4 * HOUR, Status.SUCCEEDED),
        ended_run(3, now - 3 * HOUR, Status.SUCCEEDED),
        ended_run(4, now - 5 * HOUR, flow=2),
        ended_run(5, now - 1 * HOUR, Status.SUCCEEDED, flow=2),
    )

    report = await report_of(scenario, until=now - 2 * HOUR)

    rows = {row.pipeline: row.recovered_at for row in report.failed_and_recovered}
    assert rows == {"flow 1": now - 4 * HOUR, "flow 2": now - HOUR}
    assert report.failed_and_still_failing == ()
    assert report.verdict == "flow 2, flow 1 failed and recovered."


async def test_another_recipe_recovers_nothing(scenario: EngineScenario) -> None:
    """Job groups of one flow that run alone are parts of their own."""
    now = scenario.clock.now()
    orders, sales = Recipe(id="1", name="orders"), Recipe(id="2", name="sales")
    await store_runs(
        scenario,
        ended_run(1, now - 3 * HOUR, kind=RunKind.JOB_GROUP, recipe=orders),
        ended_run(2, now - 2 * HOUR, Status.SUCCEEDED, kind=RunKind.JOB_GROUP, recipe=sales),
    )

    (row,) = (await report_of(scenario)).failed_and_still_failing

    assert row.part == "orders"


async def test_a_failure_that_was_over_when_it_was_seen_stands_apart(
    scenario: EngineScenario,
) -> None:
    """There was no time to act on it: a success had followed before it was observed."""
    now = scenario.clock.now()
    await store_runs(
        scenario,
        ended_run(1, now - 3 * HOUR, end_seen_at=now - HOUR),
        ended_run(2, now - 2 * HOUR, Status.SUCCEEDED, end_seen_at=now - HOUR),
    )

    report = await report_of(scenario)

    assert [row.run_ids for row in report.over_when_seen] == [("1",)]
    assert report.failed_and_still_failing == report.failed_and_recovered == ()


async def test_a_part_of_a_failed_run_is_not_told_twice(scenario: EngineScenario) -> None:
    """The outer run stands for it; in the counts both are."""
    now = scenario.clock.now()
    inside = Parents(flow_run="1")
    await store_runs(
        scenario,
        ended_run(1, now - HOUR),
        ended_run(2, now - HOUR - MINUTE, kind=RunKind.JOB_GROUP, parents=inside),
        ended_run(3, now - HOUR, kind=RunKind.JOB_GROUP, parents=Parents(flow_run="9"), flow=2),
    )

    report = await report_of(scenario)

    assert sorted(row.run_ids for row in report.failed_and_still_failing) == [("1",), ("3",)]
    assert report.runs == 3


async def test_what_ended_before_and_was_seen_only_now_belongs_to_it(
    scenario: EngineScenario,
) -> None:
    """The report before could not know it. Historical runs are no news."""
    now = scenario.clock.now()
    before = now - 14 * HOUR
    await store_runs(
        scenario,
        ended_run(1, before, end_seen_at=now - 12 * HOUR),
        ended_run(2, before, end_seen_at=before + MINUTE, flow=2),
        ended_run(3, before, end_seen_at=now - 12 * HOUR, historical=True, flow=3),
    )

    (row,) = (await report_of(scenario)).failed_and_still_failing

    assert (row.run_ids, row.seen_late) == (("1",), 1)


async def test_a_run_of_many_days_is_found_by_its_end(scenario: EngineScenario) -> None:
    """It was created long before the stretch, and is among the newest ends of its pipeline."""
    now = scenario.clock.now()
    run = ended_run(1, now - HOUR, seconds=5 * 86_400)
    await store_runs(scenario, run)
    assert (await report_of(scenario)).runs == 0
    end, pipeline = run_end(run), run.pipeline
    assert end is not None
    assert pipeline is not None
    scenario.live_state.pipeline_health[WORKSPACE, RunKind.FLOW_RUN, "1", None] = PipelineHealth(
        workspace=WORKSPACE, run_kind=RunKind.FLOW_RUN, pipeline=pipeline, ends=(end,)
    )

    (row,) = (await report_of(scenario)).failed_and_still_failing

    assert row.run_ids == ("1",)


async def test_a_slow_success_says_by_how_much(scenario: EngineScenario) -> None:
    """More than half above what half of its runs need, as rules have learned that."""
    for _ in range(20):
        await scenario.end_run(1, Status.SUCCEEDED)
        await scenario.round(600)
    now = scenario.clock.now()
    kind = RunKind.JOB_GROUP
    await store_runs(
        scenario,
        ended_run(901, now - MINUTE, Status.SUCCEEDED, kind=kind, seconds=600),
        ended_run(902, now - MINUTE, Status.SUCCEEDED, kind=kind, seconds=70),
    )

    (row,) = (await report_of(scenario, hours=0.5)).slower_than_usual

    assert (row.run_id, row.seconds, round(row.usual_seconds)) == ("901", 600, 50)
    assert round(row.over_seconds) == 550


async def test_an_outage_is_named_with_its_times(scenario: EngineScenario) -> None:
    """Also a time without any daemon; and then nothing is called well."""
    now = scenario.clock.now()
    reachable, unknown = Reachability.REACHABLE, Reachability.UNKNOWN
    stretches = (
        (reachable, now - 48 * HOUR, now - 9 * HOUR, None),
        (Reachability.UNREACHABLE, now - 9 * HOUR, now - 8 * HOUR, "changes: no answer"),
        (reachable, now - 8 * HOUR, now - 5 * HOUR, None),
        (unknown, now - 5 * HOUR, now - 4 * HOUR, None),
        (reachable, now - 4 * HOUR, now, None),
    )
    scenario.live_state.reachability[WORKSPACE] = tuple(
        ReachabilityStretch(reachability=how, since=since, until=until, reason=reason)
        for how, since, until, reason in stretches
    )
    await store_runs(scenario, ended_run(1, now - HOUR, Status.SUCCEEDED))

    report = await report_of(scenario, until=now - 30 * MINUTE)

    outage, absence = report.unwatched
    assert (outage.since, outage.until) == (now - 9 * HOUR, now - 8 * HOUR)
    assert outage.why == "it did not answer: changes: no answer"
    assert (absence.since, absence.until) == (now - 5 * HOUR, now - 4 * HOUR)
    assert absence.why == "no daemon watched it"
    assert report.verdict == (
        "Of what was seen, 1 run ended and nothing is failing; "
        "marketing was not watched all the time."
    )


async def test_what_cannot_be_known_is_said(scenario: EngineScenario) -> None:
    """Retention, the begin of following, unread history, runs that no list shows."""
    now = scenario.clock.now()
    assert (await report_of(scenario)).missing == ()
    scenario.live_state.update_workspace(
        WORKSPACE,
        followed_since=now - HOUR,
        history=HistoryRead(since=now - 25 * HOUR, until=now - HOUR, reached=now - 7 * HOUR),
        refused=(
            RefusedCapability(
                capability="list_plan_runs",
                since=now,
                reason="plan runs are refused: 403",
                unwatched=(RunKind.PLAN_RUN,),
            ),
        ),
        unlisted=(UnlistedRuns(kind=RunKind.FLOW_RUN, ids=("1",), count=1),),
    )

    hours = 24 * 40
    said = "\n".join(
        (await report_of(scenario, hours=hours, retention=Retention(runs_seconds=86_400))).missing
    )

    assert "marketing: runs that ended before " in said
    assert "marketing: alerts that ended before " in said
    assert "it is followed since " in said
    assert "its history before that is read in part: 6 of 24 h read" in said
    assert "whether it answered before " in said
    assert "no list shows 1 flow run" in said
    assert "marketing: plan runs are not watched now: plan runs are refused: 403" in said


async def test_without_the_rule_starts_are_not_judged(tmp_path: Path) -> None:
    """Nothing stands under "did not start", and the report says that this means nothing."""
    settings = AlertingSettings(rules=(default_rule(RuleKind.RUN_FAILED),))
    async with engine_scenario(tmp_path, settings) as scenario:
        report = await report_of(scenario)

    assert any("no rule schedule_missed is at work" in why for why in report.missing)
    assert "not everything could be known" in report.verdict or report.unwatched


@pytest.fixture
async def hourly(tmp_path: Path) -> AsyncIterator[EngineScenario]:
    """Yield a workspace whose flow 1 is to start each hour."""
    rule = replace(
        default_rule(RuleKind.SCHEDULE_MISSED),
        match=Match(pipeline=("flow 1",)),
        expect="0 0 * * * ?",
    )
    settings = AlertingSettings(rules=(rule,))
    async with engine_scenario(tmp_path, settings) as scenario:
        scenario.live_state.name_pipeline(WORKSPACE, PipelineKind.FLOW, "1", "flow 1")
        await pass_time(scenario, 10)
        yield scenario


async def pass_time(scenario: EngineScenario, seconds: float) -> None:
    """Let time pass in which nothing runs, and all is read."""
    await scenario.clock.advance(seconds)
    now = scenario.clock.now()
    for kind in RunKind:
        scenario.live_state.confirm(WORKSPACE, kind, now, complete_at=now)
    await scenario.engine.evaluate()


async def test_a_start_that_did_not_come_is_named(hourly: EngineScenario) -> None:
    """With when it was expected; also after the next one has come."""
    await pass_time(hourly, 75 * 60)
    (row,) = (await report_of(hourly)).did_not_start
    assert (row.pipeline, f"{row.expected_at:%H:%M}", row.over_at) == ("flow 1", "11:00", None)

    await hourly.clock.advance(46 * 60)
    await hourly.end_run(1, Status.SUCCEEDED)
    await pass_time(hourly, 60)

    report = await report_of(hourly)
    (row,) = report.did_not_start
    assert row.why_over == "the next start came"
    assert report.late == ()


async def test_a_start_that_came_after_its_grace_is_late(hourly: EngineScenario) -> None:
    """It came before the next one was due, so it is the one that was missed."""
    await pass_time(hourly, 75 * 60)
    await hourly.end_run(1, Status.SUCCEEDED)
    await pass_time(hourly, 60)

    report = await report_of(hourly)

    (row,) = report.late
    assert (row.pipeline, f"{row.since:%H:%M}") == ("flow 1", "11:00")
    assert row.until is not None
    assert "was due at 2026-11-21T11:00:00Z" in row.text
    assert report.did_not_start == ()
    assert report.next_starts[0].at > hourly.clock.now()


async def test_deadlines_are_met_or_missed(tmp_path: Path) -> None:
    """As the rule decided: one by its alert and the success after it, one by its event."""
    rule = replace(
        default_rule(RuleKind.DEADLINE_MISSED),
        match=Match(pipeline=("flow *",)),
        deadline="11:00",
    )
    settings = AlertingSettings(rules=(rule,))
    evening = datetime(2026, 11, 20, 23, 30, tzinfo=UTC)  # before the day of the deadline
    async with engine_scenario(tmp_path, settings, start=evening) as scenario:
        for flow in (1, 2):
            name = f"flow {flow}"
            scenario.live_state.name_pipeline(WORKSPACE, PipelineKind.FLOW, str(flow), name)
        await pass_time(scenario, 10)
        await pass_time(scenario, 11 * 3_600)
        await scenario.end_run(1, Status.SUCCEEDED)
        await pass_time(scenario, 60 * 60)
        open_ = (await report_of(scenario)).deadlines
        await scenario.end_run(2, Status.SUCCEEDED)
        await pass_time(scenario, 60)
        deadlines = (await report_of(scenario)).deadlines

    assert [(row.pipeline, row.succeeded_at) for row in open_.missed] == [("flow 2", None)]
    (met,), (missed,) = deadlines.met, deadlines.missed
    assert (met.pipeline, f"{met.deadline:%H:%M}") == ("flow 1", "11:00")
    assert (missed.pipeline, f"{missed.deadline:%H:%M}") == ("flow 2", "11:00")
    assert met.succeeded_at is not None
    assert missed.succeeded_at is not None
    assert met.succeeded_at < met.deadline < missed.succeeded_at


async def test_only_what_is_matched_is_reported(scenario: EngineScenario) -> None:
    """By pipeline and by workspace, with the globs of rules."""
    now = scenario.clock.now()
    await store_runs(scenario, ended_run(1, now - HOUR), ended_run(2, now - HOUR, flow=2))

    one = await report_of(scenario, match=ReportMatch(pipeline=("* 2",)))
    none = await report_of(scenario, match=ReportMatch(workspace=("other*",)))

    assert [row.pipeline for row in one.failed_and_still_failing] == ["flow 2"]
    assert (none.runs, none.verdict) == (0, "No run ended.")


async def test_a_week_is_compared_with_the_week_before(scenario: EngineScenario) -> None:
    """Success ratio, median duration and queue, and the pipelines that failed most."""
    now, day = scenario.clock.now(), 24 * HOUR
    created_at = now - 2 * day - MINUTE
    await store_runs(
        scenario,
        ended_run(1, now - 2 * day, Status.SUCCEEDED, seconds=30, created_at=created_at),
        ended_run(2, now - 1 * day, Status.FAILED),
        ended_run(3, now - 9 * day, Status.SUCCEEDED, seconds=90),
    )

    report = await report_of(scenario, hours=7 * 24)

    (trend,) = report.trends
    assert (trend.now.runs, trend.now.success_ratio, trend.now.median_seconds) == (2, 0.5, 30)
    assert (trend.before.runs, trend.before.success_ratio) == (1, 1.0)
    assert trend.before.median_seconds == 90
    assert [(row.pipeline, row.failed, row.runs) for row in report.worst] == [("flow 1", 1, 2)]
    assert (await report_of(scenario)).trends == ()

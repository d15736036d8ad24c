"""A backtest of the same rules finds the alerts that fired, or says what was not recorded."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from io import BytesIO
from typing import Any

import msgspec

from monitor.alerting.attribution.subjects import fingerprint_of, of_run
from monitor.alerting.backtest.backtest import backtest
from monitor.alerting.backtest.recorded_log import RecordedLog
from monitor.alerting.backtest.replay import NO_PARTS, PartOfPlan, Parts
from monitor.alerting.backtest.rule_comparison import RuleComparison, Side
from monitor.alerting.rules.rule_settings import RuleKind, RuleSettings
from monitor.alerting.rules.table import default_rule
from monitor.alerting.settings import AlertingSettings
from monitor.bus.contract import Recorded
from monitor.model.alerts import Alert, AlertState, Severity, alert_event_id
from monitor.model.events import AlertEvent, Event, EventType, WorkspaceEvent
from monitor.model.live_state import WorkspaceStatus
from monitor.model.runs import Parents, Pipeline, RunKind, RunState, Status, Trigger
from monitor.tracking.pipeline_health import PipelineHealthTracker
from tests.alerting.run_samples import FLOW, PLAN, at, key, run_event, state

FAILED = RuleSettings(name="run_failed", rule=RuleKind.RUN_FAILED, severity=Severity.CRITICAL)
_CAPABILITIES = frozenset({"follow_flow_runs", "list_plan_runs"})


def recorded(run: RunState, seconds: float) -> Event:
    """Return the event of a run's status, recorded so many seconds after the history's zero."""
    return msgspec.structs.replace(run_event(run), recorded_at=at(seconds))


def ended(number: int, seconds: float, status: Status = Status.FAILED, **more: Any) -> Event:
    """Return the end of a run, recorded a second later."""
    run = state(number, status, created_at=at(seconds - 60), finished_at=at(seconds), **more)
    return recorded(run, seconds + 1)


def alert_event(
    transition: str,
    seconds: float,
    *,
    rule: RuleSettings = FAILED,
    kind: RunKind = RunKind.JOB_GROUP,
    pipeline: Pipeline = FLOW,
    until: float | None = None,
    evidence: tuple[str, ...] = (),
) -> AlertEvent:
    """Return the event of an alert that began then, as a daemon's rule makes it."""
    fingerprint = fingerprint_of(rule.name, of_run(key(1, kind), pipeline))
    alert = Alert(
        fingerprint=fingerprint,
        name=rule.name,
        rule=rule.rule,
        severity=rule.severity,
        state=AlertState.FIRING if until is None else AlertState.RESOLVED,
        labels={"pipeline": pipeline.name or ""},
        templates={},
        starts_at=at(seconds),
        ends_at=None if until is None else at(until),
        workspace="acme",
        kind=kind,
        pipeline=pipeline,
        evidence=evidence,
        evidence_count=len(evidence),
    )
    return AlertEvent(
        id=alert_event_id(fingerprint, alert.starts_at, transition),
        type=EventType(f"alert.{transition}"),
        alert=alert,
        occurred_at=alert.starts_at,
        recorded_at=at(seconds if until is None else until) + timedelta(seconds=2),
    )


async def run_backtest(
    *events: Event,
    rules: Sequence[RuleSettings] = (FAILED,),
    parts: Parts = NO_PARTS,
) -> dict[str, RuleComparison]:
    """Return the row of each rule for a log of these events."""
    log = RecordedLog(BytesIO())
    in_order = sorted(events, key=lambda event: event.recorded_at)
    log.append(Recorded(position, event) for position, event in enumerate(in_order, 1))
    workspace = WorkspaceStatus(
        workspace="acme",
        capabilities=_CAPABILITIES,
        followed_since=at(0),
        known_at=in_order[-1].recorded_at,
    )
    rows = await backtest(
        AlertingSettings(rules=tuple(rules)),
        log,
        workspaces=[workspace],
        start=in_order[0].recorded_at,
        health_tracker=PipelineHealthTracker,
        parts=parts,
        on_progress=lambda *_: None,
    )
    return {row.rule: row for row in rows}


def why(row: RuleComparison, side: Side) -> str:
    """Return why the only alert of a side cannot be decided."""
    assert (row.only_new, row.only_old) == ((), ())
    (undecided,) = row.undecided
    assert undecided.side is side
    return undecided.why


def _plan_history() -> list[Event]:
    """Return a flow run that fails inside a plan run; no event carries that, or its creation."""
    running = state(7, Status.RUNNING, kind=RunKind.FLOW_RUN)
    running = msgspec.structs.replace(running, trigger=Trigger.PLAN)
    plan_run = state(5, Status.RUNNING, kind=RunKind.PLAN_RUN, created_at=at(0), started_at=at(0))
    flow_end = state(7, Status.FAILED, kind=RunKind.FLOW_RUN, finished_at=at(61))
    return [
        recorded(plan_run, 1),
        recorded(running, 11),
        ended(1, 60, parents=Parents(flow_run="7")),
        ended(5, 62, kind=RunKind.PLAN_RUN),
        recorded(msgspec.structs.replace(flow_end, trigger=Trigger.PLAN), 64),
        ended(3, 200, Status.CANCELED),  # a link that is only likely is not waited for so long
    ]


_EVIDENCE = ("acme:job_group:1:failed",)
_PARTS: Parts = {
    key(5, RunKind.PLAN_RUN): [
        PartOfPlan(key=key(7, RunKind.FLOW_RUN), created_at=at(5)),
        PartOfPlan(key=key(1), created_at=at(6)),
    ]
}


async def test_a_link_that_no_event_carries_is_known_when_the_plan_run_ends() -> None:
    """The plan's alert waits for that of its flow, as it did, and is no difference."""
    fired = alert_event("fired", 60, kind=RunKind.FLOW_RUN)
    row = (await run_backtest(*_plan_history(), fired, parts=_PARTS))["run_failed"]
    assert (row.would_fire, row.did_fire) == (1, 1)
    assert (row.only_new, row.only_old, row.undecided) == ((), (), ())


async def test_a_part_whose_creation_no_event_carries_waits_for_the_alert_of_its_plan() -> None:
    """That a plan run may contain it follows from when it was created, which is read later."""
    plan_run = state(5, Status.RUNNING, kind=RunKind.PLAN_RUN, created_at=at(0), started_at=at(0))
    running = state(7, Status.RUNNING, kind=RunKind.FLOW_RUN)
    log = [
        ended(4, 0, kind=RunKind.PLAN_RUN),
        recorded(plan_run, 2),
        recorded(msgspec.structs.replace(running, trigger=Trigger.PLAN), 11),
        ended(1, 60, parents=Parents(flow_run="7")),
        ended(5, 70, Status.SUCCEEDED, kind=RunKind.PLAN_RUN),
        alert_event("fired", 0, kind=RunKind.PLAN_RUN, pipeline=PLAN),
    ]
    row = (await run_backtest(*log, parts=_PARTS))["run_failed"]
    assert (row.would_fire, row.did_fire) == (1, 1)
    assert (row.only_new, row.only_old, row.undecided) == ((), (), ())


async def test_an_alert_that_depends_on_an_unrecorded_link_is_undecided() -> None:
    """The daemon knew of the plan when the flow failed, and reported it as the plan's."""
    fired = alert_event("fired", 60, kind=RunKind.PLAN_RUN, pipeline=PLAN, evidence=_EVIDENCE)
    row = (await run_backtest(*_plan_history(), fired, parts=_PARTS))["run_failed"]
    assert (row.would_fire, row.did_fire, row.only_new, row.only_old) == (1, 1, (), ())
    whys = {each.side: each.why for each in row.undecided}
    linked = "was linked to plan_run 5"
    assert set(whys) == {Side.NEW, Side.OLD}
    assert all(f"no event holds when job_group 1 {linked}" == text for text in whys.values())


async def test_a_run_is_active_until_the_workspace_reports_its_end() -> None:
    """An end that only a callback reported ends nothing: the run becomes overdue, as it did."""
    late = RuleSettings(name="late", rule=RuleKind.RUN_OVERDUE, threshold=60.0)
    begun = state(1, Status.RUNNING, created_at=at(0), started_at=at(0))
    claimed = state(1, Status.SUCCEEDED, created_at=at(0), started_at=at(0), finished_at=at(30))
    claim = msgspec.structs.replace(claimed, unconfirmed_end=Status.SUCCEEDED)
    confirmed = run_event(claimed, EventType.RUN_CONFIRMED)
    log = [
        recorded(begun, 1),
        msgspec.structs.replace(recorded(claim, 31), before=Status.RUNNING),
        ended(2, 100, Status.SUCCEEDED),
        msgspec.structs.replace(confirmed, recorded_at=at(200)),
    ]
    row = (await run_backtest(*log, rules=(late,)))["late"]
    assert [firing.starts_at for firing in row.only_new] == [at(60)]


async def test_a_recorded_alert_stays_a_difference() -> None:
    """Where nothing is missing, an alert of one side is a difference of the rules."""
    log = [ended(1, 60), ended(2, 600, Status.SUCCEEDED)]
    row = (await run_backtest(*log))["run_failed"]
    assert (len(row.only_new), row.only_old, row.undecided) == (1, (), ())
    fired = alert_event("fired", 300, evidence=("acme:job_group:2:succeeded",))
    row = (await run_backtest(*log, fired))["run_failed"]
    assert (len(row.only_new), len(row.only_old), row.undecided) == (1, 1, ())


async def test_a_silenced_alert_is_undecided() -> None:
    """No notification was sent because of a silence, which is not replayed."""
    log = [ended(1, 60), ended(2, 600, Status.SUCCEEDED), alert_event("silenced", 60)]
    assert "a silence held it back" in why((await run_backtest(*log))["run_failed"], Side.NEW)


async def test_an_alert_that_was_open_before_the_first_event_is_undecided() -> None:
    """A failure that was evidence of an older alert would begin one of its own."""
    resolved = alert_event("resolved", -600, until=600)
    log = [ended(3, 1, Status.CANCELED), ended(1, 60), ended(2, 600, Status.SUCCEEDED), resolved]
    text = why((await run_backtest(*log))["run_failed"], Side.NEW)
    assert text.startswith("it was open already, since 2026-11-21 09:50:00")


async def test_an_alert_that_began_before_the_first_event_is_undecided() -> None:
    """It fired late, and the failure that it began with was not read."""
    late = msgspec.structs.replace(alert_event("fired", -30), recorded_at=at(30))
    row = (await run_backtest(ended(3, 1, Status.CANCELED), late))["run_failed"]
    assert why(row, Side.OLD) == "it began before the first event"


async def test_an_alert_whose_evidence_was_not_read_is_undecided() -> None:
    """Two of three failures in a row were recorded before the first event."""
    often = RuleSettings(name="often", rule=RuleKind.FAILING_REPEATEDLY, threshold=3.0, minimum=4)
    ids = tuple(f"acme:job_group:{number}:failed" for number in (91, 92, 1))
    fired = alert_event("fired", 60, rule=often, evidence=ids)
    log = [ended(3, 1, Status.CANCELED), ended(1, 60), fired]
    row = (await run_backtest(*log, rules=(often,)))["often"]
    assert why(row, Side.OLD) == "2 of its 3 events are older than the first event"


async def test_an_alert_that_an_outage_inhibited_is_undecided() -> None:
    """A replay does not know which alerts the outage of the workspace inhibited."""
    away = RuleSettings(name="away", rule=RuleKind.WORKSPACE_UNREACHABLE)
    late = RuleSettings(name="late", rule=RuleKind.RUN_OVERDUE, threshold=60.0)
    begun = state(1, Status.RUNNING, created_at=at(0), started_at=at(0))
    log = [
        recorded(begun, 1),
        alert_event("fired", 30, rule=away),
        alert_event("resolved", 30, rule=away, until=900),
        ended(1, 880, Status.SUCCEEDED),
    ]
    row = (await run_backtest(*log, rules=(away, late)))["late"]
    assert why(row, Side.NEW) == "away fired then, which inhibits it and is not recorded"


async def test_an_alert_of_a_schedule_that_changed_since_is_undecided() -> None:
    """Schedules are used as they are today, and this one was another then."""
    fired = alert_event("fired", 60, rule=default_rule(RuleKind.SCHEDULE_MISSED))
    changed = WorkspaceEvent(
        id="acme:schedule:3:1",
        type=EventType.WORKSPACE_CHANGED,
        workspace="acme",
        what="schedule:3",
        number=1,
        before="10:00",
        after="12:00",
        occurred_at=None,
        recorded_at=at(600),
    )
    log = [ended(1, 30, Status.SUCCEEDED), fired, changed]
    row = await run_backtest(*log, rules=(default_rule(RuleKind.SCHEDULE_MISSED),))
    text = why(row["schedule_missed"], Side.OLD)
    assert text.startswith("a schedule changed later, at 2026-11-21 10:10:00")


async def test_an_alert_of_a_learned_limit_is_undecided() -> None:
    """Its limit came from runs before the first event, of a whole log from historical ones."""
    overdue = default_rule(RuleKind.RUN_OVERDUE)
    fired = alert_event("fired", 60, rule=overdue)
    log = [ended(1, 1, Status.SUCCEEDED), fired]
    row = (await run_backtest(*log, rules=(overdue,)))["run_overdue"]
    assert why(row, Side.OLD) == "its limit was learned from runs before the first event"


async def test_consequences_of_an_undecided_alert_are_undecided() -> None:
    """A failure that was evidence of the doubted alert begins one of its own in the replay."""
    doubted = alert_event("fired", -30)
    over = alert_event("resolved", -30, until=600)
    doubted = msgspec.structs.replace(doubted, recorded_at=at(30))
    log = [ended(3, 1, Status.CANCELED), doubted, ended(1, 100), over]
    log += [ended(2, 600, Status.SUCCEEDED)]
    row = (await run_backtest(*log))["run_failed"]
    assert (row.only_new, row.only_old) == ((), ())
    assert [each.side for each in row.undecided] == [Side.OLD, Side.NEW]


async def test_an_alert_that_waited_for_a_resolved_one_fires_at_once() -> None:
    """The plan still fails when its flow has recovered, and recovers itself moments later."""
    recovered = ended(9, 400, Status.SUCCEEDED, kind=RunKind.FLOW_RUN)
    plan_again = ended(6, 405, Status.SUCCEEDED, kind=RunKind.PLAN_RUN)
    of_flow = alert_event("fired", 60, kind=RunKind.FLOW_RUN)
    of_plan = alert_event("fired", 62, kind=RunKind.PLAN_RUN, pipeline=PLAN)
    log = [*_plan_history(), recovered, plan_again, of_flow, of_plan]
    row = (await run_backtest(*log, parts=_PARTS))["run_failed"]
    assert (row.would_fire, row.did_fire) == (2, 2)
    assert (row.only_new, row.only_old, row.undecided) == ((), (), ())

"""A run that was reported is explained by its alert, whatever became of that since."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monitor.alerting.alerts.pending_step import ENDED
from monitor.alerting.engine.committed_state import CONSUMER
from monitor.alerting.explain.explanation import Explanation, StepOutcome
from monitor.alerting.rules.rule_settings import Match, RuleKind, RuleSettings
from monitor.alerting.rules.table import default_rule
from monitor.bus.contract import Change, Recorded, Step
from monitor.model.events import AlertEvent, EventType, RunEvent
from monitor.model.runs import Parents, Pipeline, PipelineKind, RunKey, RunKind, RunState, Status
from tests.alerting.explain_scenario import FAILED, Alerting, alerting_in, failed
from tests.alerting.run_samples import END, run_event, state
from tests.examples import examples

OFTEN = RuleSettings(
    name="failing_repeatedly", rule=RuleKind.FAILING_REPEATEDLY, threshold=3.0, minimum=4
)
SALES = RuleSettings(name="sales", rule=RuleKind.RUN_FAILED, match=Match(pipeline=("sales*",)))
_DENIED = (StepOutcome.CONDITION_NOT_MET, StepOutcome.NO_MATCHING_RULE, StepOutcome.NOT_EVALUATED)


@pytest.fixture
async def alerting(tmp_path: Path) -> AsyncIterator[Alerting]:
    async with alerting_in(tmp_path) as scenario:
        yield scenario


def succeeded(number: int, seconds: float, kind: RunKind = RunKind.JOB_GROUP) -> RunState:
    finished_at = END + timedelta(seconds=seconds)
    return state(number, Status.SUCCEEDED, kind=kind, finished_at=finished_at)


def row_of(explanation: Explanation, rule: str) -> tuple[str | None, StepOutcome]:
    """Return the subject and the outcome of the only row of a rule."""
    (step,) = [step for step in explanation.steps if step.rule == rule and step.event_id is None]
    return step.subject, step.outcome


async def both_lives(alerting: Alerting, run: RunState) -> Explanation:
    """Return how a run is explained, the same before and after a restart."""
    before = await alerting.explain(run)
    after = await (await alerting.restarted()).explain(run)
    assert (after.answer, after.reason) == (before.answer, before.reason)
    assert [alert.fingerprint for alert in after.alerts] == [
        alert.fingerprint for alert in before.alerts
    ]
    return before


async def test_the_answer_names_the_alert_and_whether_it_still_fires(alerting: Alerting) -> None:
    """Fingerprint, start and state stand in the answer, for the first run and for further ones."""
    await alerting.happen(failed(1))
    await alerting.happen(failed(2))
    (alert,) = alerting.engine.snapshot().alerts
    named = f"reported by alert run_failed ({alert.fingerprint})"
    firing = f"{named}, firing since 2026-11-21 10:00:01 UTC"
    for run in (failed(1), failed(2)):
        assert f"run {run.key}: {firing}" in (await both_lives(alerting, run)).answer
    await alerting.happen(succeeded(3, 60))
    over = f"{named}, firing from 2026-11-21 10:00:01 UTC, resolved 2026-11-21 10:01:00 UTC"
    for run in (failed(1), failed(2)):
        assert f"run {run.key}: {over}" in (await both_lives(alerting, run)).answer


async def test_evidence_of_an_ended_alert_about_another_subject_is_not_denied(
    alerting: Alerting,
) -> None:
    """A flow run fired by itself, its plan became known later, and the flow has failed again."""
    begun = END - timedelta(minutes=5)
    flow_run = failed(1, kind=RunKind.FLOW_RUN, created_at=begun)
    linked = msgspec.structs.replace(flow_run, parents=Parents(plan_run="5"))
    plan_run = failed(5, kind=RunKind.PLAN_RUN, created_at=begun - timedelta(seconds=5))
    await alerting.happen(flow_run)
    (first,) = alerting.engine.snapshot().alerts
    await alerting.bus.commit(Change(runs=(linked,)), timeout_seconds=5)
    await alerting.happen(plan_run)
    explanation = await both_lives(alerting, plan_run)
    assert explanation.reason is StepOutcome.INHIBITED
    assert f"inhibited by alert {first.name} ({first.fingerprint})" in explanation.answer
    await alerting.happen(succeeded(2, 60, RunKind.FLOW_RUN))
    again = END + timedelta(seconds=90)
    await alerting.happen(state(3, Status.FAILED, kind=RunKind.FLOW_RUN, finished_at=again))
    explanation = await both_lives(alerting, linked)
    assert explanation.alerts[0].starts_at == first.starts_at
    named = f"alert run_failed ({first.fingerprint}), firing from 2026-11-21 10:00:01 UTC, resolved"
    assert f"run acme:flow_run:1: reported by {named}" in explanation.answer


async def test_a_plan_run_whose_part_failed_first_is_reported_by_its_own_alert(
    alerting: Alerting,
) -> None:
    """The alert is about the plan run from its start, though its own failure came later."""
    begun = END - timedelta(minutes=5)
    plan_run = state(5, Status.RUNNING, kind=RunKind.PLAN_RUN, created_at=begun)
    part = failed(1, parents=Parents(plan_run="5"))
    await alerting.happen(plan_run, part)
    await alerting.happen(failed(5, kind=RunKind.PLAN_RUN, created_at=begun))
    for run in (part, plan_run):
        explanation = await both_lives(alerting, run)
        (alert,) = explanation.alerts
        assert (alert.run, explanation.reason) == (plan_run.key, StepOutcome.WAITING)
    alerting.live_state.name_pipeline("acme", PipelineKind.PLAN, "3", "nightly")
    of_plan = await alerting.explainer.pipeline("acme", PipelineKind.PLAN, "3")
    assert of_plan is not None
    named = f"reported by alert run_failed ({alert.fingerprint}), firing since"
    assert of_plan.answer.startswith(f"plan 3 (nightly) of acme: {named}")


async def test_an_alert_that_fired_again_under_its_start_is_explained_with_all_its_events(
    alerting: Alerting,
) -> None:
    """A success turned out to be older than the failure: the numbered events are shown as well."""
    failure = failed(1)
    bounded = msgspec.structs.replace(
        succeeded(2, 60),
        finished_at=None,
        unfinished_at=END,
        end_seen_at=END + timedelta(minutes=1),
    )
    better = msgspec.structs.replace(succeeded(2, 0.5), detailed=True)
    await alerting.happen(failure)
    await alerting.happen(msgspec.structs.replace(bounded, detailed=True))
    detailed = run_event(better, EventType.RUN_DETAILED)
    await alerting.bus.commit(Change(runs=(better,), events=(detailed,)), timeout_seconds=5)
    await alerting.judge()
    told = [event.id.rpartition("Z:")[2] for event in (await _reported(alerting))[1]]
    assert told == ["fired", "resolved", "fired:2"]
    explanation = await both_lives(alerting, failure)
    assert explanation.reason is StepOutcome.WAITING
    shown = [step.event_id or "" for step in explanation.steps if step.fingerprint]
    assert [event_id.rpartition("Z:")[2] for event_id in shown if event_id] == told
    assert "firing since 2026-11-21 10:00:01 UTC" in explanation.answer


async def test_a_failure_that_was_over_when_seen_is_explained_by_its_alert(
    alerting: Alerting,
) -> None:
    """A failure older than a success that was seen first fires and resolves in one step."""
    await alerting.happen(succeeded(2, 60))
    await alerting.happen(failed(1))
    explanation = await both_lives(alerting, failed(1))
    assert [alert.over_when_seen for alert in explanation.alerts] == [True]
    (step,) = [s for s in explanation.steps if s.rule == "run_failed" and s.event_id is None]
    assert step.outcome is StepOutcome.RESOLVED
    assert "over when it was seen" in step.detail


async def test_of_many_failures_those_whose_ids_left_the_alert_are_not_denied(
    alerting: Alerting,
) -> None:
    """An alert keeps the ids of its newest 50 events; the others ended while it fired."""
    runs = [failed(number) for number in range(1, 71)]
    for run in runs:
        await alerting.happen(run)
    (alert,) = alerting.engine.snapshot().alerts
    assert (len(alert.evidence), alert.evidence_count) == (50, 70)
    later = await alerting.restarted()
    for run in (runs[0], runs[1], runs[19], runs[20], runs[69]):
        explanation = await later.explain(run)
        assert [found.fingerprint for found in explanation.alerts] == [alert.fingerprint]
        assert explanation.reason not in _DENIED
    (step,) = [
        step
        for step in (await later.explain(runs[10])).steps
        if step.rule == "run_failed" and step.event_id is None
    ]
    assert "the alert keeps the ids of the newest 50 of its 70 events" in step.detail


async def test_an_alert_that_only_the_log_still_holds_is_found(alerting: Alerting) -> None:
    """Ended alerts are kept for a week and events for a month: the log answers then."""
    await alerting.happen(failed(1))
    await alerting.happen(failed(2))
    (alert,) = alerting.engine.snapshot().alerts
    await alerting.happen(succeeded(3, 60))
    rows = await alerting.bus.consumer_state(CONSUMER)
    forgotten: dict[str, bytes | None] = {key: None for key in rows if key[0] in f"{ENDED}ep"}
    step = Step(consumer=CONSUMER, position=alerting.engine.position, state=forgotten)
    await alerting.bus.advance(step, timeout_seconds=5)
    later = await alerting.restarted()
    for run, reason in ((failed(1), StepOutcome.WAITING), (failed(2), StepOutcome.DEDUPLICATED)):
        explanation = await later.explain(run)
        assert explanation.reason is reason, explanation.answer
        assert [found.starts_at for found in explanation.alerts] == [alert.starts_at]
        assert "resolved 2026-11-21 10:01:00 UTC" in explanation.answer


async def test_the_rule_that_reported_the_run_comes_first(alerting: Alerting) -> None:
    """The third failure fired `failing_repeatedly`; that run_failed had fired before is second."""
    await alerting.use(FAILED, OFTEN)
    for number in (1, 2, 3):
        await alerting.happen(failed(number))
    first, second, third = [await both_lives(alerting, failed(number)) for number in (1, 2, 3)]
    assert [alert.name for alert in third.alerts] == ["failing_repeatedly", "run_failed"]
    assert "reported by alert failing_repeatedly" in third.answer
    assert third.reason is StepOutcome.WAITING
    rules = [step.rule for step in third.steps if step.event_id is None and step.rule]
    assert rules == ["failing_repeatedly", "run_failed"]
    assert row_of(third, "run_failed")[1] is StepOutcome.DEDUPLICATED
    assert [alert.name for alert in first.alerts] == ["run_failed", "failing_repeatedly"]
    assert "reported by alert failing_repeatedly" in second.answer


async def test_that_no_rule_about_failures_matches_is_the_answer(alerting: Alerting) -> None:
    """The answer of a rule about something else explains no failure of the flow."""
    await alerting.use(default_rule(RuleKind.NOT_FRESH), SALES, default_rule(RuleKind.RUN_OVERDUE))
    await alerting.happen(failed(1))
    await alerting.judge()
    explanation = await both_lives(alerting, failed(1))
    assert explanation.reason is StepOutcome.NO_MATCHING_RULE
    why = "no rule about failures matches (sales: pipeline: 'orders'"
    assert f"not notified: {why}" in explanation.answer
    await alerting.use(default_rule(RuleKind.NOT_FRESH))
    explanation = await both_lives(alerting, failed(1))
    assert explanation.reason is StepOutcome.NO_MATCHING_RULE
    assert explanation.answer.endswith("not notified: there is no rule about failures")
    canceled = state(2, Status.CANCELED)
    await alerting.happen(canceled)
    assert "no rule about cancels" in (await both_lives(alerting, canceled)).answer
    await alerting.happen(succeeded(3, 60))
    assert (await alerting.explain(succeeded(3, 60))).reason is StepOutcome.CONDITION_NOT_MET


async def test_a_failure_that_only_a_callback_reported_is_explained_as_a_failure(
    alerting: Alerting,
) -> None:
    """The workspace still shows the run as running, and no rule about failures matches it."""
    await alerting.use(default_rule(RuleKind.NOT_FRESH), SALES)
    claimed = failed(1)
    claimed = msgspec.structs.replace(claimed, unconfirmed_end=Status.FAILED)
    stored = msgspec.structs.replace(claimed, status=Status.RUNNING)
    change = Change(runs=(stored,), events=(run_event(claimed),))
    await alerting.bus.commit(change, timeout_seconds=5)
    await alerting.judge()
    explanation = await both_lives(alerting, stored)
    assert explanation.reason is StepOutcome.NO_MATCHING_RULE
    assert "no rule about failures matches" in explanation.answer
    assert "only a callback reported that it failed" in explanation.steps[0].detail


async def test_each_row_of_a_rule_says_what_it_is_about(alerting: Alerting) -> None:
    """A flow is executed by flow runs and by job groups: a rule about runs has a row for each."""
    await alerting.use(FAILED, default_rule(RuleKind.NOT_FRESH))
    alerting.live_state.name_pipeline("acme", PipelineKind.FLOW, "7", "orders")
    explanation = await alerting.explainer.pipeline("acme", PipelineKind.FLOW, "7")
    assert explanation is not None
    rows = [(step.rule, step.subject) for step in explanation.steps]
    assert sorted(rows, key=str) == [
        ("not_fresh", "flow orders"),
        ("run_failed", "flow_run orders"),
        ("run_failed", "job_group orders"),
    ]
    await alerting.happen(failed(1))
    assert row_of(await alerting.explain(failed(1)), "run_failed")[0] == "job_group orders"


async def test_a_rule_that_no_longer_matches_has_reported_the_run_all_the_same(
    alerting: Alerting,
) -> None:
    """Rules change, and what they reported stays reported; also by a rule that was removed."""
    await alerting.happen(failed(1))
    await alerting.happen(failed(2))
    changed = msgspec.structs.replace(FAILED, match=SALES.match)
    for rules in ((changed,), (OFTEN,)):
        await alerting.use(*rules)
        await alerting.engine.evaluate()
        explanation = await both_lives(alerting, failed(2))
        assert explanation.reason is StepOutcome.DEDUPLICATED, explanation.answer
        assert [alert.name for alert in explanation.alerts] == ["run_failed"]


_FLOWS = [Pipeline(kind=PipelineKind.FLOW, id=str(number), name=f"f{number}") for number in (1, 2)]
_PLAN = Pipeline(kind=PipelineKind.PLAN, id="3", name="nightly")
_ENDS = (Status.FAILED, Status.FAILED, Status.SUCCEEDED, Status.CANCELED)


class Happened(msgspec.Struct, frozen=True):
    """One run that ended ``seconds`` after the one before; in a plan run where it has a plan."""

    kind: RunKind
    flow: int
    status: Status
    seconds: int
    plan: int | None  # the plan run that it is part of
    is_linked_late: bool


_HISTORIES = st.lists(
    st.builds(
        Happened,
        kind=st.sampled_from(RunKind),
        flow=st.integers(0, 1),
        status=st.sampled_from(_ENDS),
        seconds=st.sampled_from((1, 1, 20, 4_000)),
        plan=st.sampled_from((None, None, 901, 902)),
        is_linked_late=st.booleans(),
    ),
    min_size=1,
    max_size=40,
)


def _runs(history: Iterable[Happened]) -> list[tuple[RunState, Happened]]:
    finished_at, runs = END, list[tuple[RunState, Happened]]()
    for number, happened in enumerate(history, 1):
        finished_at += timedelta(seconds=happened.seconds)
        is_plan = happened.kind is RunKind.PLAN_RUN
        run = state(
            happened.plan or number if is_plan else number,
            happened.status,
            kind=happened.kind,
            created_at=finished_at - timedelta(seconds=90),
            finished_at=finished_at,
        )
        pipeline = _PLAN if is_plan else _FLOWS[happened.flow]
        runs.append((msgspec.structs.replace(run, pipeline=pipeline), happened))
    return runs


async def _reported(alerting: Alerting) -> tuple[list[RunEvent], list[AlertEvent]]:
    rows: list[Recorded] = []
    while page := await alerting.bus.events(after=rows[-1].position if rows else 0, limit=1_000):
        rows += page
    events = [row.event for row in rows]
    return (
        [event for event in events if isinstance(event, RunEvent)],
        [event for event in events if isinstance(event, AlertEvent)],
    )


@given(history=_HISTORIES, repeats=st.sampled_from((1, 1, 3)))
@settings(max_examples=examples(25))
def test_no_run_that_is_evidence_of_an_alert_is_denied(
    history: list[Happened], repeats: int
) -> None:
    """Any history: whichever event an alert names as its evidence, its run is explained by it."""

    async def live() -> None:
        with TemporaryDirectory() as folder:
            async with alerting_in(Path(folder)) as alerting:
                await alerting.use(FAILED, OFTEN, default_rule(RuleKind.CANCELED))
                for run, happened in _runs(history * repeats):
                    plan = happened.plan if happened.kind is not RunKind.PLAN_RUN else None
                    parents = Parents(plan_run=None if plan is None else str(plan))
                    linked = msgspec.structs.replace(run, parents=parents)
                    await alerting.happen(run if happened.is_linked_late else linked)
                    await alerting.bus.commit(Change(runs=(linked,)), timeout_seconds=5)
                    await alerting.clock.advance(happened.seconds)
                    await alerting.engine.evaluate()
                await _none_is_denied(alerting)
                await _none_is_denied(await alerting.restarted())

    asyncio.run(live())


async def _none_is_denied(alerting: Alerting) -> None:
    events, alerts = await _reported(alerting)
    runs = {event.id: event.run.key for event in events}
    by_run: dict[RunKey, set[str]] = {}
    for event in alerts:
        for event_id in event.alert.evidence:
            by_run.setdefault(runs[event_id], set()).add(event.alert.fingerprint)
    for run, fingerprints in by_run.items():
        explanation = await alerting.explainer.run(run)
        assert explanation is not None
        assert explanation.reason not in _DENIED, explanation.answer
        assert fingerprints <= {alert.fingerprint for alert in explanation.alerts}

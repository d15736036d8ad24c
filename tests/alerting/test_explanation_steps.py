"""Each reason for no notification has its own outcome and detail, and the farthest answers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from monitor.alerting.alerts.instance import StepWord
from monitor.alerting.engine.evaluation import EvaluationRecord
from monitor.alerting.explain.evidence import EvidenceBasis, FoundAlert
from monitor.alerting.explain.explanation import (
    Explanation,
    ExplanationStage,
    ExplanationStep,
    StepOutcome,
)
from monitor.alerting.explain.findings import RuleFinding
from monitor.alerting.explain.notification_reader import OutputProgress
from monitor.alerting.explain.steps import (
    delivery_steps,
    event_step,
    observation_steps,
    rule_step,
)
from monitor.alerting.rules.rule_settings import RuleKind, RuleSettings
from monitor.bus.contract import DeadLetter, Recorded
from monitor.model.alerts import Alert, AlertState, Severity, Silence, alert_event_id
from monitor.model.events import AlertEvent, EventType, RunEvent
from monitor.model.runs import FailedPart, RunKey, RunKind, RunState, Source, Status

AT = datetime(2026, 11, 21, 10, tzinfo=UTC)
ALL = frozenset(EventType)
KEY = RunKey("acme", RunKind.JOB_GROUP, "17")
FAILED = "acme:job_group:17:failed"
RULE = RuleSettings(name="run_failed", rule=RuleKind.RUN_FAILED, for_seconds=300)
SILENCE = Silence(
    id="5d3c",
    matchers=("pipeline=daily*",),
    author="ann",
    comment="planned reload",
    starts_at=AT,
    ends_at=AT + timedelta(hours=2),
    origin="api",
)


def alert(**more: Any) -> Alert:
    made: dict[str, Any] = {
        "fingerprint": "9f86d081884c7d65",
        "name": "run_failed",
        "rule": "run_failed",
        "severity": Severity.CRITICAL,
        "state": AlertState.FIRING,
        "labels": {},
        "templates": {},
        "starts_at": AT,
        "workspace": "acme",
        "evidence": (FAILED,),
        "evidence_count": 1,
    }
    return Alert(**{**made, **more})


def run(**more: Any) -> RunState:
    made = {"status": Status.FAILED, "confirmed_at": AT, "confirmed_by": Source.POLL}
    return RunState(key=KEY, **{**made, **more})


def fired(transition: str = "fired", position: int = 9) -> Recorded:
    event = AlertEvent(
        id=alert_event_id("9f86d081884c7d65", AT, transition),
        type=EventType(f"alert.{transition}"),
        alert=alert(is_notified=True),
        occurred_at=AT,
        recorded_at=AT,
    )
    return Recorded(position, event)


def finding(
    found: Alert | None = None,
    *,
    ended_as: str = "",
    basis: EvidenceBasis = EvidenceBasis.BEGAN,
    **more: Any,
) -> RuleFinding:
    made = None if found is None else FoundAlert(found, ended_as, basis)
    return RuleFinding(name=RULE.name, rule=RULE, found=made, **more)


def evaluation(word: StepWord, detail: str = "") -> EvaluationRecord:
    return EvaluationRecord(at=AT, word=word, detail=detail)


PENDING = alert(state=AlertState.PENDING)
BLOCKED = [
    (
        finding(mismatch="pipeline: 'orders' fits none of 'sales*'"),
        StepOutcome.NO_MATCHING_RULE,
        "pipeline: 'orders' fits none of 'sales*'",
    ),
    (
        finding(event_types=("run.failed",)),
        StepOutcome.CONDITION_NOT_MET,
        "no evaluation is kept; the rule evaluates run.failed",
    ),
    (
        finding(event_evaluation=evaluation(StepWord.NO_RESULT)),
        StepOutcome.CONDITION_NOT_MET,
        "event evaluated at 2026-11-21 10:00:00 UTC: condition not met",
    ),
    (
        finding(event_evaluation=evaluation(StepWord.UNKNOWN, "an outage")),
        StepOutcome.UNKNOWN,
        "unknown (an outage)",
    ),
    (
        finding(event_evaluation=evaluation(StepWord.RULE_FAILED, "KeyError")),
        StepOutcome.RULE_FAILED,
        "KeyErr",
    ),
    (finding(is_behind=True), StepOutcome.NOT_EVALUATED, "alerting has not read its newest event"),
    (
        finding(PENDING),
        StepOutcome.PENDING,
        "since 2026-11-21 10:00:00 UTC; fires after 300 s, at 2026-11-21 10:05:00 UTC",
    ),
    (finding(PENDING, ended_as="over in time"), StepOutcome.PENDING, "UTC; over in time"),
    (finding(alert(muted_by=("mute",))), StepOutcome.MUTED, "within the rule's mute times"),
    (
        finding(alert(muted_by=("silence:5d3c", "mute"))),
        StepOutcome.SILENCED,
        "silence 5d3c by ann until 2026-11-21 12:00:00 UTC (pipeline=daily*): planned reload",
    ),
    (
        finding(alert(muted_by=("silence:gone",))),
        StepOutcome.SILENCED,
        "silence gone, which has expired",
    ),
    (
        finding(alert(muted_by=("inhibited:aa11",))),
        StepOutcome.INHIBITED,
        "inhibited by alert aa11",
    ),
    (
        finding(
            alert(is_notified=True, evidence=("other", FAILED), evidence_count=2),
            basis=EvidenceBasis.ADDED,
        ),
        StepOutcome.DEDUPLICATED,
        "this is more evidence of it (2 in all)",
    ),
    (
        finding(alert(is_notified=True, evidence_count=70), basis=EvidenceBasis.WITHIN),
        StepOutcome.DEDUPLICATED,
        "the alert keeps the ids of the newest 1 of its 70 events",
    ),
    (
        finding(event_evaluation=evaluation(StepWord.DEDUPLICATED, "evidence of aa11")),
        StepOutcome.DEDUPLICATED,
        "aa11",
    ),
    (
        finding(state_evaluation=evaluation(StepWord.UNKNOWN, "an outage")),
        StepOutcome.UNKNOWN,
        "state evaluated at 2026-11-21",
    ),
    (
        finding(state_evaluation=evaluation(StepWord.FIRED)),
        StepOutcome.CONDITION_NOT_MET,
        "state evaluated at 2026-11-21",
    ),
]


@pytest.mark.parametrize(("judged", "outcome", "detail"), BLOCKED)
def test_the_reason_for_no_notification_is_named(
    judged: RuleFinding, outcome: StepOutcome, detail: str
) -> None:
    """Each thing that keeps an alert from firing has its own outcome and says why."""
    step = rule_step(judged, {"5d3c": SILENCE})
    observed = observation_steps(run(), has_events=True)
    explanation = Explanation.of("job group 17", [*observed, step])
    assert (step.outcome, explanation.reason) == (outcome, outcome)
    assert detail in step.detail
    assert explanation.answer.startswith("job group 17: not notified")


@pytest.mark.parametrize(
    ("found", "outcome", "detail"),
    [
        (alert(is_notified=True), StepOutcome.FIRED, "since 2026-11-21 10:00:00 UTC"),
        (alert(is_notified=True, is_flapping=True), StepOutcome.FIRED, "flapping: notified once"),
        (
            alert(is_notified=True, preexisting=True),
            StepOutcome.FIRED,
            "before the rule's first eval",
        ),
        (
            alert(is_notified=True, state=AlertState.RESOLVED, ends_at=AT),
            StepOutcome.RESOLVED,
            "resolved 2026-11-21 10:00:00 UTC",
        ),
        (
            alert(is_notified=True, muted_by=("mute",)),
            StepOutcome.FIRED,
            "now held back: within the rule's mute times",
        ),
    ],
)
def test_an_alert_that_fired_is_no_reason(found: Alert, outcome: StepOutcome, detail: str) -> None:
    """A rule whose alert fired blocked nothing, whatever became of the alert since."""
    step = rule_step(finding(found), {})
    assert (step.outcome, Explanation.of("it", [step]).reason) == (outcome, None)
    assert detail in step.detail


def test_an_output_with_a_backlog_is_named() -> None:
    """A delivery waits, was refused, is done, or the output does not take the event."""
    letter = DeadLetter(position=9, event=fired().event, reason="too large", refused_at=AT)
    outputs = [
        OutputProgress(name="mqtt", position=6, types=ALL),
        OutputProgress(name="webhook", position=9, types=ALL, began_at=AT),
        OutputProgress(name="mail", position=9, types=ALL, dead_letters=(letter,)),
        OutputProgress(name="pager", position=0, types=()),
        OutputProgress(name="later", position=9, types=ALL, began_at=AT + timedelta(hours=1)),
    ]
    steps = delivery_steps([fired()], outputs)
    assert [(step.output, step.outcome) for step in steps] == [
        ("mqtt", StepOutcome.WAITING),
        ("webhook", StepOutcome.DELIVERED),
        ("mail", StepOutcome.DEAD_LETTER),
        ("pager", StepOutcome.NOT_FOR_OUTPUT),
        ("later", StepOutcome.NO_OUTPUT),
    ]
    assert steps[0].detail == "alert.fired waits in mqtt after 2 other events"
    assert "too large" in steps[2].detail
    first = rule_step(finding(alert(is_notified=True)), {})
    answers = [Explanation.of("it", [first, step]) for step in (*steps[:2], *steps[4:])]
    assert [(answer.answer, answer.reason) for answer in answers] == [
        (
            "it: fired, but alert.fired waits in mqtt after 2 other events",
            StepOutcome.WAITING,
        ),
        ("it: notified through webhook", None),
        (
            "it: fired, but later was added after alert.fired, 2026-11-21 11:00:00 UTC",
            StepOutcome.NO_OUTPUT,
        ),
    ]


def test_a_run_that_ended_before_it_was_followed_made_no_event() -> None:
    """Such a run is historical, and that is the answer."""
    steps = observation_steps(run(historical=True), has_events=False)
    assert [step.outcome for step in steps] == [StepOutcome.OBSERVED, StepOutcome.HISTORICAL]
    assert Explanation.of("it", steps).reason is StepOutcome.HISTORICAL


def test_kept_observations_are_shown() -> None:
    """Who confirmed, who reported the end, callbacks and contradictions are all named."""
    state = run(
        native_status="Failed",
        ended_by=Source.CALLBACK,
        is_called_back=True,
        contradiction="Complete",
        unconfirmed_end=Status.SUCCEEDED,
        implausible=("ends before it starts",),
        failed_part=FailedPart(key=KEY, name="clean", error="no space"),
    )
    (step,) = observation_steps(state, has_events=True)
    for words in (
        "by poll as failed",
        "'Failed'",
        "by callback",
        "a callback arr",
        "'Complete'",
        "only a callback reported that it succeeded",
        "it cannot be true: ends before it starts",
        "its first failed part is job_group 17 (clean): no space",
    ):
        assert words in step.detail


def test_an_event_shows_when_it_happened_and_when_it_was_noticed() -> None:
    """The workspace's time and ours stand apart; where it reported none, none is made up."""
    event = RunEvent(
        id=FAILED,
        type=EventType.RUN_FAILED,
        run=run(),
        before=Status.RUNNING,
        occurred_at=AT,
        recorded_at=AT + timedelta(seconds=2.5),
        observed_by=Source.CALLBACK,
    )
    step = event_step(Recorded(4, event))
    assert (step.stage, step.outcome, step.event_id) == (
        ExplanationStage.EVENT,
        StepOutcome.RECORDED,
        FAILED,
    )
    assert "noticed by callback; position 4 of the log" in step.detail
    assert "recorded 2026-11-21 10:00:02 UTC, 2.5 s later" in step.detail
    assert (step.at, step.recorded_at) == (AT, AT + timedelta(seconds=2.5))
    unreported = event_step(Recorded(4, msgspec.structs.replace(event, occurred_at=None)))
    assert (unreported.at, unreported.recorded_at) == (None, AT + timedelta(seconds=2.5))
    assert "2026-11-21 10:00:02 UTC; the workspace reported no time" in unreported.detail
    of_alert = event_step(fired())
    assert (of_alert.stage, of_alert.rule) == (ExplanationStage.ALERT, "run_failed")


def test_the_rule_that_came_farthest_answers() -> None:
    """Of many rules the one that would have fired next is named, whatever their order."""
    steps = [rule_step(judged, {}) for judged, _, _ in BLOCKED[:7]]
    for some in (steps, steps[::-1]):
        explanation = Explanation.of("it", some)
        assert explanation.reason is StepOutcome.PENDING
        assert "not notified, pending: rule run_failed: since" in explanation.answer
    empty = Explanation.of("it", [])
    assert (empty.answer, empty.reason) == (
        "it: not notified: no rule has evaluated it",
        StepOutcome.NOT_EVALUATED,
    )
    quiet: list[ExplanationStep] = steps[:2]
    assert Explanation.of("it", quiet).answer == "it: not notified: no rule's condition is met"
    assert Explanation.of("it", quiet[:1]).answer == "it: not notified: no rule matches"

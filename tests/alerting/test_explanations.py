"""Each step that can swallow an alert is named, with the reason, and the farthest one answers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from monitor.alerting.engine.history import EvaluationRecord
from monitor.alerting.explain.explanations import (
    ExplanationStage,
    ExplanationStep,
    OutputProgress,
    RuleQuestion,
    StepOutcome,
    answer,
    delivery_steps,
    event_step,
    observation_steps,
    rule_step,
)
from monitor.alerting.rules.rule_settings import RuleKind, RuleSettings
from monitor.bus.contract import DeadLetter, Recorded
from monitor.model.alerts import Alert, AlertState, Severity, Silence, alert_event_id
from monitor.model.events import AlertEvent, EventType, RunEvent
from monitor.model.runs import RunKey, RunKind, RunState, Source, Status

AT = datetime(2026, 11, 21, 10, tzinfo=UTC)
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
        "annotations": {},
        "starts_at": AT,
        "workspace": "acme",
        "evidence": (FAILED,),
        "evidence_count": 1,
    }
    return Alert(**{**made, **more})


def run(**more: Any) -> RunState:
    made = {"status": Status.FAILED, "confirmed_at": AT, "confirmed_by": Source.POLL}
    return RunState(key=KEY, **{**made, **more})


def told(transition: str = "fired", position: int = 9) -> Recorded:
    event = AlertEvent(
        id=alert_event_id("9f86d081884c7d65", AT, transition),
        type=EventType(f"alert.{transition}"),
        alert=alert(is_told=True),
        occurred_at=AT,
        recorded_at=AT,
    )
    return Recorded(position, event)


def said(word: str, detail: str = "") -> EvaluationRecord:
    return EvaluationRecord(
        rule="run_failed", fingerprint="9f86d081884c7d65", at=AT, word=word, detail=detail
    )


SWALLOWING = [
    (
        RuleQuestion(rule=RULE, misfit="pipeline: 'orders' fits none of 'sales*'"),
        StepOutcome.NO_MATCHING_RULE,
        "pipeline: 'orders' fits none of 'sales*'",
    ),
    (
        RuleQuestion(rule=RULE, event_types=("run.failed",)),
        StepOutcome.NOT_WRONG,
        "hears run.failed",
    ),
    (
        RuleQuestion(rule=RULE, heard=said("no verdict")),
        StepOutcome.NOT_WRONG,
        "asked at 2026-11-21 10:00:00 UTC: found nothing wrong",
    ),
    (
        RuleQuestion(rule=RULE, heard=said("unclear", "an outage")),
        StepOutcome.UNCLEAR,
        "unclear (an outage)",
    ),
    (RuleQuestion(rule=RULE, heard=said("raised", "KeyError")), StepOutcome.RAISED, "KeyError"),
    (RuleQuestion(rule=RULE, is_behind=True), StepOutcome.NOT_JUDGED, "alerting has not come to"),
    (
        RuleQuestion(rule=RULE, alert=alert(state=AlertState.PENDING)),
        StepOutcome.PENDING,
        "it is told when it lasts for 300 s, at 2026-11-21 10:05:00 UTC",
    ),
    (
        RuleQuestion(
            rule=RULE,
            alert=alert(state=AlertState.PENDING),
            ended_word="it was over before its time",
        ),
        StepOutcome.PENDING,
        "it was over before its time",
    ),
    (
        RuleQuestion(rule=RULE, alert=alert(muted_by=("mute",))),
        StepOutcome.MUTED,
        "the rule's mute times",
    ),
    (
        RuleQuestion(rule=RULE, alert=alert(muted_by=("silence:5d3c", "mute"))),
        StepOutcome.SILENCED,
        "silence 5d3c of ann until 2026-11-21 12:00:00 UTC (pipeline=daily*): planned reload",
    ),
    (
        RuleQuestion(rule=RULE, alert=alert(muted_by=("silence:gone",))),
        StepOutcome.SILENCED,
        "silence gone, which is over",
    ),
    (
        RuleQuestion(rule=RULE, alert=alert(muted_by=("inhibited:aa11",))),
        StepOutcome.INHIBITED,
        "alert aa11 explains it",
    ),
    (
        RuleQuestion(
            rule=RULE, alert=alert(is_told=True, evidence=("other", FAILED), evidence_count=2)
        ),
        StepOutcome.DEDUPLICATED,
        "this is more evidence of it (2 in all)",
    ),
    (
        RuleQuestion(rule=RULE, alert=alert(is_told=True, evidence_count=70)),
        StepOutcome.DEDUPLICATED,
        "70 in",
    ),
    (
        RuleQuestion(rule=RULE, heard=said("deduplicated", "evidence of aa11")),
        StepOutcome.DEDUPLICATED,
        "aa11",
    ),
    (
        RuleQuestion(rule=RULE, looked=said("unclear", "an outage")),
        StepOutcome.UNCLEAR,
        "looked at 2026-11-21",
    ),
    (RuleQuestion(rule=RULE, looked=said("fired")), StepOutcome.NOT_WRONG, "looked at 2026-11-21"),
    (
        RuleQuestion(rule=RULE, heard=said("postponed", "for its plan")),
        StepOutcome.PENDING,
        "for its plan",
    ),
]


@pytest.mark.parametrize(("asked", "word", "reason"), SWALLOWING)
def test_the_step_that_swallowed_is_named(
    asked: RuleQuestion, word: StepOutcome, reason: str
) -> None:
    """Each thing that keeps an alert from being told has its own word and says why."""
    step = rule_step(asked, [FAILED], {"5d3c": SILENCE})
    sentence, swallowed_by = answer("job group 17", [*observation_steps(run()), step])
    assert (step.word, swallowed_by) == (word, word)
    assert reason in step.detail
    assert sentence.startswith("job group 17 was not told: ")


@pytest.mark.parametrize(
    ("asked", "word", "reason"),
    [
        (alert(is_told=True), StepOutcome.TOLD, "so since 2026-11-21 10:00:00 UTC"),
        (alert(is_told=True, is_flapping=True), StepOutcome.TOLD, "told once as flapping"),
        (alert(is_told=True, preexisting=True), StepOutcome.TOLD, "judged for the first time"),
        (
            alert(is_told=True, state=AlertState.RESOLVED, ends_at=AT),
            StepOutcome.RESOLVED,
            "over since 2026-11-21 10:00:00 UTC",
        ),
        (alert(is_told=True, muted_by=("mute",)), StepOutcome.TOLD, "now held back by mute"),
    ],
)
def test_what_was_told_is_said_to_be_told(asked: Alert, word: StepOutcome, reason: str) -> None:
    """A rule that told has swallowed nothing, whatever became of the alert since."""
    step = rule_step(RuleQuestion(rule=RULE, alert=asked), [FAILED], {})
    assert (step.word, answer("job group 17", [step])[1]) == (word, None)
    assert reason in step.detail


def test_an_output_that_is_behind_is_named() -> None:
    """A delivery waits, was refused, is done, or is nothing for an output."""
    letter = DeadLetter(position=9, event=told().event, reason="too large", refused_at=AT)
    receivers = [
        OutputProgress(name="mqtt", position=6, wants=lambda _: True),
        OutputProgress(name="webhook", position=9, wants=lambda _: True),
        OutputProgress(name="mail", position=9, wants=lambda _: True, dead_letters=(letter,)),
        OutputProgress(name="pager", position=0, wants=lambda _: False),
    ]
    steps = delivery_steps([told()], receivers)
    assert [(step.output, step.word) for step in steps] == [
        ("mqtt", StepOutcome.WAITING),
        ("webhook", StepOutcome.DELIVERED),
        ("mail", StepOutcome.REFUSED),
        ("pager", StepOutcome.NOT_FOR_OUTPUT),
    ]
    assert steps[0].detail == "alert.fired waits in mqtt, 2 before it"
    assert "too large" in steps[2].detail
    first = rule_step(RuleQuestion(rule=RULE, alert=alert(is_told=True)), [FAILED], {})
    assert answer("it", [first, steps[0]]) == (
        "it was told, and alert.fired waits in mqtt, 2 before it",
        StepOutcome.WAITING,
    )
    assert answer("it", [first, steps[1]]) == ("it was told through webhook", None)
    assert answer("it", [first, steps[3]]) == (
        "it was told by an event only: no output takes alerts",
        None,
    )


def test_a_run_that_ended_before_it_was_followed_made_no_event() -> None:
    """Such a run is historical, and that is the answer."""
    steps = observation_steps(run(historical=True))
    assert [step.word for step in steps] == [StepOutcome.SEEN, StepOutcome.HISTORICAL]
    assert answer("it", steps)[1] is StepOutcome.HISTORICAL


def test_what_is_kept_of_sightings_is_told() -> None:
    """Who confirmed, who told the end, callbacks and contradictions are all named."""
    state = run(
        native_status="Failed",
        ended_by=Source.CALLBACK,
        is_called_back=True,
        contradiction="Complete",
    )
    (step,) = observation_steps(state)
    for words in ("by poll as failed", "'Failed'", "by callback", "a callback told", "'Complete'"):
        assert words in step.detail


def test_an_event_tells_when_it_happened_and_when_it_was_noticed() -> None:
    """The time between happening and recording stands there."""
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
    assert (step.stage, step.word, step.event) == (
        ExplanationStage.EVENT,
        StepOutcome.RECORDED,
        FAILED,
    )
    assert "noticed by callback; position 4 of the log" in step.detail
    assert "2.5 s before" in step.detail
    assert event_step(told()).word is StepOutcome.TOLD


def test_the_rule_that_came_farthest_answers() -> None:
    """Of many rules the one that would have told next is named, whatever their order."""
    steps = [rule_step(asked, [FAILED], {}) for asked, _, _ in SWALLOWING[:7]]
    for some in (steps, steps[::-1]):
        sentence, word = answer("it", some)
        assert word is StepOutcome.PENDING
        assert "rule run_failed: so since" in sentence
    assert answer("it", []) == ("it has reached no rule", StepOutcome.NOT_JUDGED)
    nothing: list[ExplanationStep] = steps[:2]
    assert answer("it", nothing)[0] == "it was not told: no rule found anything wrong with it"
    assert answer("it", nothing[:1])[0] == "it was not told: no rule matches it"

"""An explanation: the steps from a run to a notification, and the answer they give. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from monitor.model.alerts import Alert, AlertState
from monitor.model.notifying import NOTIFYING


class ExplanationStage(StrEnum):
    """The stages from a run to a notification, in their order."""

    OBSERVATION = "observation"
    EVENT = "event"
    RULE = "rule"
    ALERT = "alert"
    DELIVERY = "delivery"


class StepOutcome(StrEnum):
    """What happened at a stage. From `HISTORICAL` on each is a reason for no notification."""

    OBSERVED = "observed"
    RECORDED = "recorded"
    PART_OF_RUN = "part of another run"
    CONDITION_MET = "condition met"
    FIRED = "fired"
    RESOLVED = "resolved"
    DELIVERED = "delivered"
    NOT_FOR_OUTPUT = "not for this output"

    # In the order of the stages: of several rules, the one that came farthest gives the reason.
    HISTORICAL = "historical"
    NO_EVENT = "no event"
    NO_MATCHING_RULE = "no matching rule"
    CONDITION_NOT_MET = "condition not met"
    UNKNOWN = "unknown"
    RULE_FAILED = "rule failed"
    NOT_EVALUATED = "not evaluated yet"
    PENDING = "pending"
    MUTED = "muted"
    INHIBITED = "inhibited"
    SILENCED = "silenced"
    DEDUPLICATED = "deduplicated"
    NO_OUTPUT = "no output"
    WAITING = "waiting for delivery"
    DEAD_LETTER = "dead letter"


REASONS = tuple(StepOutcome)[tuple(StepOutcome).index(StepOutcome.HISTORICAL) :]
FIRED = frozenset({StepOutcome.FIRED, StepOutcome.RESOLVED})


class ExplanationStep(Struct, frozen=True):
    """One step. ``detail`` is a sentence for people; times in it are UTC.

    ``at`` is when it happened, for an event the workspace's time; ``recorded_at`` is ours.
    """

    stage: ExplanationStage
    outcome: StepOutcome
    detail: str
    at: datetime | None = None
    rule: str | None = None
    subject: str | None = None  # of the rule, in words: "job_group orders"
    fingerprint: str | None = None
    output: str | None = None
    event_id: str | None = None
    recorded_at: datetime | None = None


class Explanation(Struct, frozen=True, kw_only=True):
    """Why people were notified, or not. ``reason`` None: fired, and every output has it.

    ``notified_at`` of the alerts is that of what an output has taken.
    """

    subject: str
    answer: str
    reason: StepOutcome | None
    steps: tuple[ExplanationStep, ...]
    alerts: tuple[Alert, ...] = ()

    @classmethod
    def of(
        cls,
        subject: str,
        steps: Sequence[ExplanationStep],
        alerts: Sequence[Alert] = (),
        *,
        by: Sequence[ExplanationStep] | None = None,
        reported: Alert | None = None,
        excluded: str | None = None,
    ) -> Explanation:
        """Return the explanation that the steps amount to.

        ``by`` are the steps that answer, all where it is None. ``reported`` is the alert that
        reported what is explained. ``excluded`` says which rules do not apply.
        """
        answering = steps if by is None else by
        # Not the events of alerts: those may have fired by other runs that failed before.
        own = [step for step in answering if step.event_id is None]
        if any(step.outcome in FIRED for step in own):
            answer, reason = _fired(answering)
        else:
            answer, reason = _not_notified(answering, alerts, excluded)
        if reported is not None:
            if reason is StepOutcome.DEDUPLICATED:
                answer = next(step.detail for step in own if step.outcome is reason)
            answer = f"reported by {alert_words(reported)}: {answer}"
        return cls(
            subject=subject,
            answer=f"{subject}: {answer}",
            reason=reason,
            steps=tuple(steps),
            alerts=tuple(alerts),
        )


def with_unwatched(explanation: Explanation, unwatched: Sequence[str]) -> Explanation:
    """Return the explanation with what cannot be seen or judged now; "nothing found" is no answer.

    ``unwatched`` are sentences.
    """
    if not unwatched:
        return explanation
    stage, unknown = ExplanationStage.OBSERVATION, StepOutcome.UNKNOWN
    steps = (ExplanationStep(stage, unknown, sentence) for sentence in unwatched)
    is_blind = explanation.reason in (StepOutcome.CONDITION_NOT_MET, StepOutcome.NOT_EVALUATED)
    return replace(
        explanation,
        answer="; ".join((explanation.answer, *unwatched)),
        reason=unknown if is_blind else explanation.reason,
        steps=(*explanation.steps, *steps),
    )


def instant(at: datetime) -> str:
    return at.strftime("%Y-%m-%d %H:%M:%S UTC")


def alert_name(alert: Alert) -> str:
    return f"alert {alert.name} ({alert.fingerprint})"


def alert_words(alert: Alert) -> str:
    """Return name and fingerprint of an alert, since when it fires, and whether it still does."""
    since = instant(alert.starts_at)
    if alert.state is AlertState.RESOLVED:
        ends_at = "at an unknown time" if alert.ends_at is None else instant(alert.ends_at)
        return f"{alert_name(alert)}, firing from {since}, resolved {ends_at}"
    return f"{alert_name(alert)}, {alert.state} since {since}"


def _fired(steps: Sequence[ExplanationStep]) -> tuple[str, StepOutcome | None]:
    # Deliveries of the run's own events are shown, and say nothing of the alert.
    deliveries = [
        step
        for step in steps
        if step.stage is ExplanationStage.DELIVERY and (step.event_id or "alert:")[:6] == "alert:"
    ]
    blocked = [step for step in deliveries if step.outcome in REASONS]
    missed = [step for step in blocked if step.outcome is StepOutcome.NO_OUTPUT]
    outputs = [step.output or "" for step in deliveries if _has_notified(step)]
    if len(blocked) > len(missed):
        blocked = [step for step in blocked if step not in missed]
        return f"fired, but {blocked[-1].detail}", blocked[-1].outcome
    if outputs:
        return f"notified through {', '.join(dict.fromkeys(outputs))}", None
    if missed:
        return f"fired, but {missed[-1].detail}", StepOutcome.NO_OUTPUT
    return "fired; no output is known to have taken it", None


def _has_notified(step: ExplanationStep) -> bool:
    """True where an output took that an alert fires; the end alone needs no notification."""
    transition = (step.event_id or "").split(":")[3:4]
    return step.outcome is StepOutcome.DELIVERED and f"alert.{''.join(transition)}" in NOTIFYING


def _not_notified(
    steps: Sequence[ExplanationStep], alerts: Sequence[Alert], excluded: str | None
) -> tuple[str, StepOutcome]:
    reasons = [
        step
        for step in steps
        if step.outcome in REASONS and step.stage is not ExplanationStage.DELIVERY
    ]
    if not reasons:
        return "not notified: no rule has evaluated it", StepOutcome.NOT_EVALUATED
    last = max(reasons, key=lambda step: REASONS.index(step.outcome))
    if last.outcome is StepOutcome.CONDITION_NOT_MET and excluded is not None:
        return f"not notified: {excluded}, and no other rule's condition is met", last.outcome
    if last.outcome is StepOutcome.CONDITION_NOT_MET:
        return "not notified: no rule's condition is met", last.outcome
    if last.outcome is StepOutcome.NO_MATCHING_RULE:
        why = last.detail if last.rule is None else excluded or "no rule matches"
        return f"not notified: {why}", last.outcome
    alert = next((alert for alert in alerts if alert.fingerprint == last.fingerprint), None)
    if alert is not None:
        return f"not notified, {last.outcome}: {alert_words(alert)}: {last.detail}", last.outcome
    rule = f"rule {last.rule}: " if last.rule else ""
    return f"not notified, {last.outcome}: {rule}{last.detail}", last.outcome

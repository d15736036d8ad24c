"""What answers to several questions have in common: their stations, and putting them together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from monitor.alerting.attribution.subjects import RootRun
from monitor.alerting.explain.explanations import (
    Explanation,
    ExplanationStage,
    ExplanationStep,
    RuleQuestion,
    StepOutcome,
    answer,
    rule_step,
)
from monitor.alerting.rules.rule_settings import RuleKind
from monitor.model.alerts import Alert, Silence, alert_event_id
from monitor.model.runs import RunState

_RULES_SHOWN = 50  # of those that do not match
_REMINDERS_SHOWN = 5
_SILENCED_SHOWN = 20


def named(alert: Alert) -> str:
    return f"alert {alert.name} ({alert.fingerprint})"


def finding(alert: Alert) -> ExplanationStep:
    facts = [f"{name} {value}" for name, value in alert.facts.items() if value is not None]
    found = f"{alert.rule} found it wrong"
    if is_of_before(alert) and not alert.evidence_count:
        found += (
            f" by how {alert.run} had ended before the monitor followed it, which made no event"
        )
    if alert.evidence_count:
        found += f" by {alert.evidence_count} event{'s'[: alert.evidence_count > 1]}"
    return ExplanationStep(
        stage=ExplanationStage.RULE,
        word=StepOutcome.FOUND,
        rule=alert.name,
        fingerprint=alert.fingerprint,
        at=alert.starts_at,
        detail=": ".join([found, ", ".join(facts)][: 1 + bool(facts)]),
    )


def transitions(alert: Alert) -> Iterable[str]:
    """Yield the ids of what may have been told of an episode; the log knows which were."""
    key, starts_at = alert.fingerprint, alert.starts_at
    for transition in ("fired", "flapping", "resolved"):
        yield alert_event_id(key, starts_at, transition)
    for number in range(max(1, alert.reminders - _REMINDERS_SHOWN + 1), alert.reminders + 1):
        yield alert_event_id(key, starts_at, "reminded", number)
    for number in range(1, _SILENCED_SHOWN + 1):
        yield alert_event_id(key, starts_at, "silenced", number)


def inside(run: RunState, root: RootRun) -> list[ExplanationStep]:
    if root.key == run.key:
        return []
    detail = f"it is part of {root.key}, so what it does is told as that run's"
    return [ExplanationStep(stage=ExplanationStage.RULE, word=StepOutcome.INSIDE, detail=detail)]


def rule_steps(
    asked: Sequence[RuleQuestion], ids: Sequence[str] | None, silences: Mapping[str, Silence]
) -> list[ExplanationStep]:
    steps = [rule_step(other_asked, ids, silences) for other_asked in asked]
    unfit = [step for step in steps if step.word is StepOutcome.NO_MATCHING_RULE]
    if len(unfit) <= _RULES_SHOWN:
        return steps
    more = ExplanationStep(
        stage=ExplanationStage.RULE,
        word=StepOutcome.NO_MATCHING_RULE,
        detail=f"{len(unfit) - _RULES_SHOWN} more rules do not match either",
    )
    return [step for step in steps if step not in unfit[_RULES_SHOWN:]] + [more]


def explanation(
    about: str, steps: Sequence[ExplanationStep], alerts: Sequence[Alert]
) -> Explanation:
    sentence, swallowed_by = answer(about, steps)
    return Explanation(
        about=about,
        answer=sentence,
        swallowed_by=swallowed_by,
        steps=tuple(steps),
        alerts=tuple(alerts),
    )


def is_of_before(alert: Alert) -> bool:
    """True where it began with the end of a run that may have made no event."""
    return alert.preexisting and alert.rule == RuleKind.RUN_FAILED and alert.run is not None

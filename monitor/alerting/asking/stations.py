"""What answers to several questions have in common: their stations, and putting them together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from monitor.alerting.asking.explanations import (
    Asked,
    Explanation,
    Stage,
    Step,
    Word,
    answer,
    rule_step,
)
from monitor.alerting.settings.rules import RuleKind
from monitor.alerting.subjects.outermost import Whose
from monitor.model.alerts import Alert, Silence, alert_event_id
from monitor.model.runs import RunState

_RULES_SHOWN = 50  # of those that do not match
_REMINDERS_SHOWN = 5
_SILENCED_SHOWN = 20


def named(alert: Alert) -> str:
    return f"alert {alert.name} ({alert.fingerprint})"


def finding(alert: Alert) -> Step:
    facts = [f"{name} {value}" for name, value in alert.facts.items() if value is not None]
    found = f"{alert.rule} found it wrong"
    if is_of_before(alert) and not alert.evidence_count:
        found += (
            f" by how {alert.run} had ended before the monitor followed it, which made no event"
        )
    if alert.evidence_count:
        found += f" by {alert.evidence_count} event{'s'[: alert.evidence_count > 1]}"
    return Step(
        stage=Stage.RULE,
        word=Word.FOUND,
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


def inside(run: RunState, whose: Whose) -> list[Step]:
    if whose.key == run.key:
        return []
    detail = f"it is part of {whose.key}, so what it does is told as that run's"
    return [Step(stage=Stage.RULE, word=Word.INSIDE, detail=detail)]


def rule_steps(
    asked: Sequence[Asked], ids: Sequence[str] | None, silences: Mapping[str, Silence]
) -> list[Step]:
    steps = [rule_step(one, ids, silences) for one in asked]
    unfit = [one for one in steps if one.word is Word.NO_MATCHING_RULE]
    if len(unfit) <= _RULES_SHOWN:
        return steps
    more = Step(
        stage=Stage.RULE,
        word=Word.NO_MATCHING_RULE,
        detail=f"{len(unfit) - _RULES_SHOWN} more rules do not match either",
    )
    return [one for one in steps if one not in unfit[_RULES_SHOWN:]] + [more]


def explanation(about: str, steps: Sequence[Step], alerts: Sequence[Alert]) -> Explanation:
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
    return alert.was_there and alert.rule == RuleKind.RUN_FAILED and alert.run is not None

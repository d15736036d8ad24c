"""Makes the steps of an explanation from what was gathered. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta

from msgspec.structs import replace

from monitor.alerting.alerts.instance import StepWord
from monitor.alerting.attribution.attribution import RootRun
from monitor.alerting.engine.evaluation import EvaluationRecord
from monitor.alerting.explain.evidence import EvidenceBasis, FoundAlert
from monitor.alerting.explain.explanation import (
    FIRED,
    ExplanationStage,
    ExplanationStep,
    StepOutcome,
    alert_name,
    instant,
)
from monitor.alerting.explain.findings import RuleFinding, is_before_events
from monitor.alerting.explain.notification_reader import OutputProgress, delivery_step
from monitor.alerting.rules.rule_settings import RuleSettings
from monitor.bus.contract import Recorded
from monitor.model.alert_texts import fact_words, texts_of
from monitor.model.alerts import Alert, AlertState, Silence
from monitor.model.events import AlertEvent, RunEvent
from monitor.model.runs import RunState, Status

_MISMATCHES_SHOWN = 50  # rules
# What a rule found without an event is about the subject, and not about this run.
_OF_STATE = {
    StepWord.UNKNOWN: StepOutcome.UNKNOWN,
    StepWord.RULE_FAILED: StepOutcome.RULE_FAILED,
}
_OF_EVENT = {
    **_OF_STATE,
    StepWord.PENDING: StepOutcome.PENDING,
    StepWord.MUTED: StepOutcome.MUTED,
    StepWord.SILENCED: StepOutcome.SILENCED,
    StepWord.DEDUPLICATED: StepOutcome.DEDUPLICATED,
    StepWord.FIRED: StepOutcome.FIRED,
    StepWord.FLAPPING: StepOutcome.FIRED,
}
_NOT_MET = (StepWord.OK, StepWord.NO_RESULT)
# The ends that a rule may be about.
_ENDS = {Status.FAILED: "failures", Status.CANCELED: "cancels", Status.LOST: "lost runs"}
_MUTED_BY = {"silence": StepOutcome.SILENCED, "inhibited": StepOutcome.INHIBITED}

Suppressors = Mapping[str, Silence | Alert]  # by the ids that ``muted_by`` names


def observation_steps(run: RunState, *, has_events: bool) -> list[ExplanationStep]:
    """Return how the run was observed, and why it made no event if it made none."""
    facts = [f"last confirmed by {run.confirmed_by} as {run.status}"]
    if run.native_status is not None:
        facts.append(f"the workspace's status is {run.native_status!r}")
    if run.ended_by is not None:
        how = "derived from its" if run.has_derived_end else "reported by"
        facts.append(f"its end was {how} {run.ended_by}")
    if run.is_called_back:
        facts.append("a callback arrived")
    facts += _other_ends(run)
    if run.unconfirmed_end is not None:
        facts.append(f"only a callback reported that it {run.unconfirmed_end}")
    if run.implausible:
        facts.append(f"of what was reported it cannot be true: {', '.join(run.implausible)}")
    if (part := run.failed_part) is not None:
        name, why = f" ({part.name})" if part.name else "", f": {part.error}" if part.error else ""
        facts.append(f"its first failed part is {part.key.kind} {part.key.id}{name}{why}")
    stage, observed = ExplanationStage.OBSERVATION, StepOutcome.OBSERVED
    steps = [ExplanationStep(stage, observed, "; ".join(facts), at=run.confirmed_at)]
    if run.historical:
        detail = "it ended before the monitor followed this workspace; such runs make no event"
        steps.append(ExplanationStep(ExplanationStage.EVENT, StepOutcome.HISTORICAL, detail))
    elif not has_events:
        detail = "the log holds no event of it: none was made yet, or the log has dropped it"
        steps.append(ExplanationStep(ExplanationStage.EVENT, StepOutcome.NO_EVENT, detail))
    return steps


def _other_ends(run: RunState) -> Iterator[str]:
    if run.corrections:
        times = f" {run.corrections} times" if run.corrections > 1 else ""
        yield f"its end was corrected{times}"
    if run.contradiction is not None:
        yield f"another end was reported and does not count: {run.contradiction!r}"


def event_step(recorded: Recorded) -> ExplanationStep:
    """Return when an event happened, when it was recorded, and who noticed."""
    event = recorded.event
    alert = event.alert if isinstance(event, AlertEvent) else None
    facts = [f"noticed by {event.observed_by}"] if isinstance(event, RunEvent) else []
    facts.append(f"position {recorded.position} of the log")
    if event.occurred_at is None:
        facts.append(f"recorded {instant(event.recorded_at)}; the workspace reported no time of it")
    else:
        lag = (event.recorded_at - event.occurred_at).total_seconds()
        facts.append(f"recorded {instant(event.recorded_at)}, {lag:.1f} s later")
    return ExplanationStep(
        ExplanationStage.EVENT if alert is None else ExplanationStage.ALERT,
        StepOutcome.RECORDED,
        f"{event.type}: {'; '.join(facts)}",
        at=event.occurred_at,
        recorded_at=event.recorded_at,
        rule=None if alert is None else alert.name,
        fingerprint=None if alert is None else alert.fingerprint,
        event_id=event.id,
    )


def part_steps(run: RunState, root: RootRun) -> list[ExplanationStep]:
    """Return the step that names the run that this one is part of; none where it is its own."""
    if root.key == run.key:
        return []
    detail = f"it is part of {root.key}; alerts are about that run"
    return [ExplanationStep(ExplanationStage.RULE, StepOutcome.PART_OF_RUN, detail)]


def no_rule_step(findings: Sequence[RuleFinding], status: Status) -> ExplanationStep | None:
    """Return that no rule about such an end matches the run; None where one does."""
    if status not in _ENDS or any(finding.found is not None for finding in findings):
        return None
    about = [finding for finding in findings if finding.is_about_end]
    if any(finding.mismatch is None for finding in about):
        return None
    ends = _ENDS[status]
    detail = f"there is no rule about {ends}"
    if about:
        first, *more = about
        others = f", and {len(more)} more" if more else ""
        detail = f"no rule about {ends} matches ({first.name}: {first.mismatch}{others})"
    return ExplanationStep(ExplanationStage.RULE, StepOutcome.NO_MATCHING_RULE, detail)


def rule_steps(findings: Iterable[RuleFinding], suppressors: Suppressors) -> list[ExplanationStep]:
    """Return one step for each rule and subject; of many mismatches the first, and a count."""
    steps: list[ExplanationStep] = []
    mismatches = 0
    for finding in findings:
        mismatches += finding.mismatch is not None
        if finding.mismatch is None or mismatches <= _MISMATCHES_SHOWN:
            steps.append(rule_step(finding, suppressors))
    if mismatches > _MISMATCHES_SHOWN:
        more = f"{mismatches - _MISMATCHES_SHOWN} more rules do not match"
        none = StepOutcome.NO_MATCHING_RULE
        steps.append(ExplanationStep(ExplanationStage.RULE, none, more))
    return steps


def rule_step(finding: RuleFinding, suppressors: Suppressors) -> ExplanationStep:
    """Return what one rule made of the run or pipeline."""
    if finding.mismatch is not None:
        outcome, detail = StepOutcome.NO_MATCHING_RULE, finding.mismatch
    elif finding.found is None:
        outcome, detail = _without_alert(finding)
    else:
        outcome, detail = _alert_status(finding.found, finding.rule, suppressors)
        if outcome in FIRED:
            outcome, detail = _of_fired(finding.found, outcome, detail)
    return ExplanationStep(
        ExplanationStage.RULE,
        outcome,
        detail,
        rule=finding.name,
        subject=finding.subject or None,
        fingerprint=finding.fingerprint or None,
    )


def alert_steps(
    found: FoundAlert, rule: RuleSettings | None, suppressors: Suppressors
) -> list[ExplanationStep]:
    """Return by what an alert began, and its status."""
    alert = found.alert
    count = alert.evidence_count
    by = [f"{count} event{'s'[: count > 1]} as evidence"] if count else []
    if not count and is_before_events(alert):
        by = [f"{alert.run} ended before the monitor followed it and made no event"]
    by += [
        f"{name.removesuffix('_seconds').replace('_', ' ')} {fact_words(name, value)}"
        for name, value in alert.facts.items()
        if value is not None and name != "url"
    ]
    evidence = f"{alert.rule}: {', '.join(by)}" if by else alert.rule
    outcome, detail = _alert_status(found, rule, suppressors)
    met = ExplanationStep(
        ExplanationStage.RULE,
        StepOutcome.CONDITION_MET,
        evidence,
        at=alert.starts_at,
        rule=alert.name,
        fingerprint=alert.fingerprint,
    )
    stage = ExplanationStage.ALERT
    return [met, replace(met, stage=stage, outcome=outcome, detail=detail, at=None)]


def delivery_steps(
    events: Sequence[Recorded], outputs: Sequence[OutputProgress]
) -> list[ExplanationStep]:
    """Return for each event and output whether it was delivered."""
    return [delivery_step(recorded, output) for recorded in events for output in outputs]


def no_output_step(why: str) -> ExplanationStep:
    """Return that no alert reaches anybody; ``why`` is one sentence."""
    stage, none = ExplanationStage.DELIVERY, StepOutcome.NO_OUTPUT
    return ExplanationStep(stage, none, f"no notifications are sent: {why}")


def _without_alert(finding: RuleFinding) -> tuple[StepOutcome, str]:
    if finding.is_behind:
        return StepOutcome.NOT_EVALUATED, "alerting has not read its newest event yet"
    if finding.event_evaluation is not None:
        return _evaluated("event", finding.event_evaluation, _OF_EVENT)
    if finding.unread is not None:
        return StepOutcome.UNKNOWN, finding.unread
    if finding.state_evaluation is not None:
        return _evaluated("state", finding.state_evaluation, _OF_STATE)
    types = ", ".join(finding.event_types) or "state only, at each interval"
    return StepOutcome.CONDITION_NOT_MET, f"no evaluation is kept; the rule evaluates {types}"


def _evaluated(
    what: str, evaluation: EvaluationRecord, outcomes: Mapping[StepWord, StepOutcome]
) -> tuple[StepOutcome, str]:
    outcome = outcomes.get(evaluation.word, StepOutcome.CONDITION_NOT_MET)
    word = "condition not met" if evaluation.word in _NOT_MET else evaluation.word
    why = f" ({evaluation.detail})" if evaluation.detail else ""
    return outcome, f"{what} evaluated at {instant(evaluation.at)}: {word}{why}"


def _alert_status(
    found: FoundAlert, rule: RuleSettings | None, suppressors: Suppressors
) -> tuple[StepOutcome, str]:
    """Return what became of an alert, and what holds it back if it did not fire."""
    alert, since = found.alert, f"since {instant(found.alert.starts_at)}"
    if alert.is_notified:
        return _fired(alert, since, rule, suppressors)
    if alert.muted_by:
        # The first reason is the one that counts; all are named.
        outcome = _MUTED_BY.get(alert.muted_by[0].partition(":")[0], StepOutcome.MUTED)
        reasons = [_muted(reason, suppressors, rule) for reason in alert.muted_by]
        return outcome, "; ".join([*reasons, *filter(None, [found.ended_as])])
    if found.ended_as:
        return StepOutcome.PENDING, f"{since}; {found.ended_as}"
    if alert.state is not AlertState.PENDING:
        return StepOutcome.NOT_EVALUATED, f"{since}; not fired yet"
    if rule is None:
        return StepOutcome.PENDING, f"{since}; its rule was removed"
    due = instant(alert.starts_at + timedelta(seconds=rule.for_seconds))
    return StepOutcome.PENDING, f"{since}; fires after {rule.for_seconds:g} s, at {due}"


def _fired(
    alert: Alert, since: str, rule: RuleSettings | None, suppressors: Suppressors
) -> tuple[StepOutcome, str]:
    facts = [since]
    if alert.is_flapping:
        facts.append("flapping: notified once")
    if alert.over_when_seen:
        facts.append("over when it was seen: fired and resolved at once")
    if alert.preexisting:
        facts.append("preexisting: true before the rule's first evaluation")
    if (by := alert.acknowledged) is not None:
        until = "" if by.until is None else f" until {instant(by.until)}"
        facts.append(f"acknowledged by {by.author} {instant(by.at)}: no reminders{until}")
    if alert.muted_by:
        reasons = "; ".join(_muted(reason, suppressors, rule) for reason in alert.muted_by)
        facts.append(f"now held back: {reasons}")
    if alert.state is not AlertState.RESOLVED:
        return StepOutcome.FIRED, "; ".join(facts)
    ends_at = "at an unknown time" if alert.ends_at is None else instant(alert.ends_at)
    return StepOutcome.RESOLVED, "; ".join([*facts, f"resolved {ends_at}"])


def _muted(reason: str, suppressors: Suppressors, rule: RuleSettings | None) -> str:
    kind, _, name = reason.partition(":")
    by = suppressors.get(name)
    if kind == "inhibited":
        return _inhibited(by) if isinstance(by, Alert) else f"inhibited by alert {name}"
    if kind != "silence":
        windows = "" if rule is None or not rule.mute else f" ({', '.join(rule.mute)})"
        return f"within the rule's mute times{windows}"
    if not isinstance(by, Silence):
        return f"silence {name}, which has expired"
    until, matchers = instant(by.ends_at), ", ".join(by.matchers)
    return f"silence {name} by {by.author} until {until} ({matchers}): {by.comment}"


def _inhibited(by: Alert) -> str:
    # By instants, so that the sentence is as true in a ticket tomorrow.
    summary = texts_of(by, by.starts_at, is_kept=True).get("summary")
    return f"inhibited by {alert_name(by)}" + (f": {summary}" if summary else "")


def _of_fired(found: FoundAlert, outcome: StepOutcome, detail: str) -> tuple[StepOutcome, str]:
    """Return what an alert that people were notified of says of this run."""
    alert = found.alert
    if found.basis is EvidenceBasis.BEGAN:
        return outcome, detail
    if found.basis is EvidenceBasis.NOTIFIED:
        return outcome, f"{detail}; this run was among its evidence when it fired"
    evidence = f"this is more evidence of it ({alert.evidence_count} in all)"
    if found.basis is EvidenceBasis.WITHIN:
        evidence = (
            f"this run ended within it, and the alert keeps the ids of the newest "
            f"{len(alert.evidence)} of its {alert.evidence_count} events"
        )
    return StepOutcome.DEDUPLICATED, f"the alert had fired already; {evidence}"

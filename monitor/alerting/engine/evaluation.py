"""The second step, evaluate: ask a rule about its target. Changes nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Protocol

import msgspec
import structlog
from msgspec import Struct

from monitor.alerting.alerts.pending_step import FIRST, MEMORY, FirstEvaluated, PendingStep
from monitor.alerting.alerts.suppression import Suppression, changes_suppression, suppression_of
from monitor.alerting.attribution.attribution import RuleTarget
from monitor.alerting.attribution.subjects import fingerprint_of, first_key, memory_key
from monitor.alerting.engine.evaluation_facts import EvaluationFacts, domain_of
from monitor.alerting.rules.compiled import Rule
from monitor.alerting.rules.contract import EventInput, RuleAnswer, StateInput, Subject

log = structlog.get_logger()

_FAILING_SHOWN = timedelta(hours=1)  # a subject that was never evaluated again
_FAILING_KEPT = 1_000  # subjects of one rule


class Guard(Protocol):
    """Calls something that may fail: None, and one line to ``on_failure``, where it does."""

    def __call__(
        self, name: str, call: Callable[[], Any], on_failure: Callable[[str], None]
    ) -> Any: ...


class RuleFailure(Struct, frozen=True):
    """The rule raised; ``reason`` is one line without foreign text."""

    reason: str


Answer = RuleAnswer[Any] | RuleFailure | None  # None: there is nothing to evaluate


class EvaluationContext(Struct):
    """One step: the changes so far, the facts of its moment, and what suppresses alerts."""

    pending: PendingStep
    facts: EvaluationFacts
    suppression: Suppression  # by the committed state

    def renew_suppression(self) -> None:
        """Let the changes of this step suppress alerts as well."""
        if changes_suppression(self.pending):
            self.suppression = suppression_of(self.pending)


class Evaluator:
    """Asks rules behind a guard, and keeps which of them fail."""

    def __init__(self, guard: Guard) -> None:
        self.failures: Counter[str] = Counter()  # by name of the rule, in this life
        self.version = 0  # changes with `failing` and `failures`
        self._guard = guard
        # Name of a rule -> fingerprint -> the newest failure, and when (ours).
        self._failing: dict[str, dict[str, tuple[str, datetime]]] = {}

    def evaluate(self, context: EvaluationContext, target: RuleTarget) -> Answer:
        """Return the rule's answer; None where its subject does not exist, or it is not asked."""
        if target.correlation is not None:
            return None
        name = target.rule.settings.name
        reasons: list[str] = []
        answer: RuleAnswer[Any] | None = self._guard(
            f"rule {name}", partial(_ask, context, target), reasons.append
        )
        if reasons:
            self._failed(name, target.subject, reasons[0], context.facts.now)
            return RuleFailure(reasons[0])
        if name in self._failing:
            self._succeeded(name, target.subject, context.facts.now)
        return answer

    def failing(self) -> dict[str, str]:
        """Return the newest failure of each rule that cannot be evaluated for some subject."""
        return {
            name: max(subjects.values(), key=lambda failure: failure[1])[0]
            for name, subjects in self._failing.items()
        }

    def reset(self) -> None:
        """Forget all failures: other rules are in force."""
        self.version += 1
        self.failures.clear()
        self._failing.clear()

    def _failed(self, name: str, subject: Subject, reason: str, now: datetime) -> None:
        self.version += 1
        self.failures[name] += 1
        subjects = self._failing.setdefault(name, {})
        fingerprint = fingerprint_of(name, subject)
        subjects.pop(fingerprint, None)
        subjects[fingerprint] = (reason, now)
        if len(subjects) > _FAILING_KEPT:
            del subjects[next(iter(subjects))]

    def _succeeded(self, name: str, subject: Subject, now: datetime) -> None:
        """Clear the failure of the subject, and old ones: their subjects may never come again."""
        self.version += 1
        subjects = self._failing[name]
        subjects.pop(fingerprint_of(name, subject), None)
        for fingerprint, (_, at) in list(subjects.items()):
            if now - at >= _FAILING_SHOWN:
                del subjects[fingerprint]
        if not subjects:
            del self._failing[name]


def first_evaluated_at(context: EvaluationContext, rule: Rule, subject: Subject) -> datetime | None:
    """Return when the rule was first evaluated for such subjects; None: never."""
    key = first_key(rule.settings.name, subject.workspace, domain_of(subject))
    first: FirstEvaluated | None = context.pending.get(FIRST, key)
    return None if first is None else first.at


def _ask(context: EvaluationContext, target: RuleTarget) -> RuleAnswer[Any] | None:
    rule, subject, event = target.rule, target.subject, target.event
    definition, settings = rule.definition, rule.settings
    ask: Callable[..., RuleAnswer[Any]] | None = (
        definition.evaluate if event is None else definition.on_event
    )
    facts = context.facts.of(rule, subject, is_event=event is not None)
    if ask is None or facts is None:
        return None
    stored = context.pending.get(MEMORY, memory_key(settings.name, subject))
    memory = None if stored is None else _decoded(rule, stored)
    first_at = first_evaluated_at(context, rule, subject)
    question: EventInput | StateInput[Any]
    if event is not None:
        question = EventInput(event=event, root_run=target.root_run or event.run.key)
    else:
        question = StateInput(
            subject=subject,
            as_of=context.facts.as_of(subject),
            facts=facts,
            first_evaluated_at=first_at,
        )
    return ask(question, memory, settings)


def _decoded(rule: Rule, stored: bytes) -> Any:
    try:
        return msgspec.json.decode(stored, type=rule.definition.memory)
    except (msgspec.MsgspecError, ValueError) as exc:
        log.warning("rule memory unreadable", rule=rule.name, reason=str(exc))
        return None

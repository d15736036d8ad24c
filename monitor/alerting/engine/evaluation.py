"""The second step, evaluate: ask a rule about its target. Changes nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Protocol

from msgspec import Struct

from monitor.alerting.alerts.pending_step import MEMORY
from monitor.alerting.attribution.attribution import RuleTarget
from monitor.alerting.attribution.subjects import fingerprint_of
from monitor.alerting.engine.evaluation_context import EvaluationContext
from monitor.alerting.rules.contract import StateInput, Subject
from monitor.alerting.rules.results import RuleAnswer, Unknown

_FAILING_SHOWN = timedelta(hours=1)  # a subject that was never evaluated again
_ASK_AGAIN = timedelta(minutes=1)  # what cannot be seen now
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


class Evaluator:
    """Asks rules through a guard, and keeps which of them fail."""

    def __init__(self, guard: Guard) -> None:
        self.failures: Counter[str] = Counter()  # by name of the rule, in this life
        self.version = 0  # changes with `failing` and `failures`
        self._guard = guard
        # Name of a rule -> fingerprint -> the newest failure, and when (ours).
        self._failing: dict[str, dict[str, tuple[str, datetime]]] = {}

    def evaluate(self, context: EvaluationContext, target: RuleTarget) -> Answer:
        """Return the rule's answer; None where its subject does not exist."""
        name, definition = target.rule.name, target.rule.definition
        memory = context.pending.decoded(MEMORY, target.keys.memory, definition.memory)
        reasons: list[str] = []
        answer: RuleAnswer[Any] | None = self._guard(
            f"rule {name}", partial(_ask, context, target, memory), reasons.append
        )
        if reasons:
            self._failed(name, target.subject, reasons[0], context.now)
            return RuleFailure(reasons[0])
        if name in self._failing:
            self._succeeded(name, target.subject, context.now)
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


def _ask(context: EvaluationContext, target: RuleTarget, memory: Any) -> RuleAnswer[Any] | None:
    rule, subject = target.rule, target.subject
    definition, settings = rule.definition, rule.settings
    if target.event_input is not None:
        on_event = definition.on_event
        return None if on_event is None else on_event(target.event_input, memory, settings)
    facts = context.facts_of(rule, subject)
    if definition.evaluate is None or facts is None:
        return None
    as_of = context.as_of(subject)
    if (why := context.why_unshared(subject)) is not None:
        # Nothing else tells when it is shared again.
        again_at = None if as_of is None else as_of + _ASK_AGAIN
        return RuleAnswer(Unknown(why), memory, again_at)
    state_input = StateInput(
        subject=subject,
        as_of=as_of,
        facts=facts,
        first_evaluated_at=context.first_evaluated_at(rule, subject),
        wall_now=context.wall_now,
    )
    return definition.evaluate(state_input, memory, settings)

"""The second step, evaluate: ask a rule about its target. Changes nothing.

`EvaluationHistory` keeps recent evaluations for `explain`, in memory, bounded and empty after a
restart. No alert depends on it: `explain` then answers from the stored alerts alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Protocol

from msgspec import Struct

from monitor.alerting.alerts.instance import StepWord
from monitor.alerting.alerts.pending_step import MEMORY
from monitor.alerting.attribution.attribution import RuleTarget
from monitor.alerting.attribution.subjects import fingerprint_of
from monitor.alerting.engine.evaluation_context import EvaluationContext
from monitor.alerting.rules.contract import RuleAnswer, StateInput, Subject, Unknown
from monitor.model.bounded_memory import BoundedMemory

_FAILING_SHOWN = timedelta(hours=1)  # a subject that was never evaluated again
_ASK_AGAIN = timedelta(minutes=1)  # what cannot be seen now
_FAILING_KEPT = 1_000  # subjects of one rule
_EVENTS = 10_000
_OF_STATE = 10_000
_PER_EVENT = 100  # words besides `StepWord.NO_RESULT`


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


class EvaluationRecord(Struct, frozen=True, kw_only=True, gc=False):
    """One evaluation of a rule for a subject: what it made of the alert of that fingerprint."""

    word: StepWord
    at: datetime  # ours
    detail: str = ""


class _HandledEvent(Struct, gc=False):
    """An event, the fingerprints for which rules handled it, and what they found."""

    handled: tuple[str, ...]
    at: datetime
    found: dict[str, EvaluationRecord]


class EvaluationHistory:
    """The newest evaluations: all of each event, and the last of state for each fingerprint."""

    def __init__(self, *, events: int = _EVENTS, of_state: int = _OF_STATE) -> None:
        """Keep the evaluations of so many events, and so many of state."""
        self._events: BoundedMemory[str, _HandledEvent] = BoundedMemory(events)
        self._of_state: BoundedMemory[str, EvaluationRecord] = BoundedMemory(of_state)

    def add_event(self, event_id: str, handled: tuple[str, ...], *, at: datetime) -> None:
        """Add an event for whose ``handled`` fingerprints rules find nothing, until `add` follows.

        A repeated one, as after a failed step, replaces the former.
        """
        self._events.put(event_id, _HandledEvent(handled, at, {}))

    def add(
        self,
        event_id: str | None,
        fingerprint: str,
        word: StepWord,
        *,
        at: datetime,
        detail: str = "",
    ) -> None:
        """Add one evaluation; a repeated one replaces the former.

        ``event_id`` None: the rule evaluated the state of its subject.
        """
        record = EvaluationRecord(word=word, at=at, detail=detail)
        if event_id is None:
            self._of_state.put(fingerprint, record)
            return
        event = self._events.get(event_id)
        if event is None:  # no event was made of it: a failure from before the first evaluation
            event = _HandledEvent((), at, {})
            self._events.put(event_id, event)
        if fingerprint in event.found or len(event.found) < _PER_EVENT:
            event.found[fingerprint] = record

    def of_events(self, ids: Sequence[str], fingerprint: str) -> EvaluationRecord | None:
        """Return what its rule found by the newest of these events that it evaluated, if kept."""
        for event_id in reversed(ids):
            event = self._events.get(event_id)
            if event is None:
                continue
            if (found := event.found.get(fingerprint)) is not None:
                return found
            if fingerprint in event.handled:
                return EvaluationRecord(word=StepWord.NO_RESULT, at=event.at)
        return None

    def last_of_state(self, fingerprint: str) -> EvaluationRecord | None:
        """Return what its rule found when it last evaluated the state of its subject."""
        return self._of_state.get(fingerprint)

"""Asks rules about subjects, and lets their answers become of episodes. Writes into drafts only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any, Protocol, TypeVar

import msgspec
import structlog
from msgspec import Struct

from monitor.alerting.alerts import lifecycle
from monitor.alerting.alerts.labels import labels_of, subject_of
from monitor.alerting.alerts.lifecycle import (
    AlertInstance,
    AlertPast,
    AlertSlot,
    EvaluationMoment,
    LifecycleLimits,
    Outcome,
)
from monitor.alerting.alerts.pending_step import (
    ALERT,
    FIRST,
    MEMORY,
    SILENCE,
    Draft,
    FirstEvaluated,
)
from monitor.alerting.alerts.suppression import Suppression
from monitor.alerting.attribution.subjects import key_of
from monitor.alerting.engine.history import EvaluationHistory, EvaluationRecord
from monitor.alerting.engine.present import OURS, Present
from monitor.alerting.rules.compiled import Compiled, Rule
from monitor.alerting.rules.contract import (
    EvaluationResult,
    EventInput,
    Firing,
    RuleAnswer,
    StateInput,
    Subject,
    Unknown,
)
from monitor.alerting.rules.table import RULE_DEFINITIONS
from monitor.model.alerts import Alert, AlertState, fingerprint
from monitor.model.events import RunEvent
from monitor.model.runs import RunKey
from monitor.tracking.live_state import LiveStateView

T = TypeVar("T")

log = structlog.get_logger()

_FINGERPRINTS_KEPT = 65_536
# The kinds of rule that explain others; only their alerts can hold any back.
_EXPLAINING = frozenset(
    rule for rule, definition in RULE_DEFINITIONS.items() if definition.inhibits
)
_TEXT_KEPT = 4_000  # characters of one fact


class Guard(Protocol):
    """Calls something that may fail: None, and one line to ``on_failure``, where it does."""

    def __call__(
        self, name: str, call: Callable[[], Any], on_failure: Callable[[str], None]
    ) -> Any: ...


class EvaluationContext:
    """One step of alerting: what is known at its moment, and what it changes."""

    def __init__(self, pending: Draft, present: Present, suppression: Suppression) -> None:
        """``suppression`` is by what was held when the draft was begun."""
        self.pending = pending
        self.present = present
        self.suppression = suppression

    def suppress(self) -> None:
        """Let what fires by now hold others back."""
        if changes_suppression(self.pending):
            self.suppression = suppression_of(self.pending)


def suppression_of(pending: Draft) -> Suppression:
    """Return what holds alerts back by what a draft holds."""
    alerts = (instance.alert for _, instance in pending.rows(ALERT))
    silences = (silence for _, silence in pending.rows(SILENCE))
    return Suppression.of(silences, (alert for alert in alerts if alert.rule in _EXPLAINING))


def changes_suppression(pending: Draft) -> bool:
    """True where a draft changes something that may hold others back."""
    return bool(pending.changes(SILENCE)) or any(
        row is None or row.alert.rule in _EXPLAINING for _, row in pending.changes(ALERT)
    )


class RuleTarget(Struct, frozen=True, kw_only=True):
    """One rule and one subject; ``event`` None where the rule looks by itself."""

    rule: Rule
    subject: Subject
    event: RunEvent | None = None
    preexisting: bool = False  # it ended before the rule was judged for the first time

    @property
    def fingerprint(self) -> str:
        return _fingerprint(self.rule.name, self.subject)

    @property
    def event_id(self) -> str | None:
        return self.event.id if self.event is not None else None


class Evaluator:
    """The rules of one configuration, and what went wrong with asking them in this life."""

    def __init__(
        self,
        compiled: Compiled,
        *,
        view: LiveStateView,
        guard: Guard,
        history: EvaluationHistory,
        limits: LifecycleLimits,
    ) -> None:
        self.compiled = compiled
        self.rules = {rule.name: rule for rule in compiled.rules}
        self.failing: dict[str, str] = {}
        self.failures: Counter[str] = Counter()
        self._view = view
        self._guard = guard
        self._history = history
        self.limits = limits

    def on_event(self, context: EvaluationContext, case: RuleTarget, root_run: RunKey) -> None:
        """Let a rule hear an event of a subject."""
        rule, event = case.rule, case.event
        on_event = rule.definition.on_event
        facts = self._asked(rule, lambda: context.present.facts(rule, case.subject, is_event=True))
        if on_event is None or facts is None or event is None:
            return
        memory, first = self._memory(context, case), _first(context, case)
        heard = EventInput(
            event=event,
            subject=case.subject,
            root_run=root_run,
            facts=facts,
            first_evaluated_at=None if first is None else first.at,
        )
        judged = self._asked(rule, lambda: on_event(heard, memory, rule.settings))
        self._settle(context, case, judged)

    def evaluate(self, context: EvaluationContext, case: RuleTarget) -> datetime | None:
        """Let a rule look at a subject; return when it wants to look again."""
        rule = case.rule
        evaluate = rule.definition.evaluate
        facts = self._asked(rule, lambda: context.present.facts(rule, case.subject))
        if evaluate is None or facts is None:
            return None
        memory, first = self._memory(context, case), _first(context, case)
        looked = StateInput(
            subject=case.subject,
            as_of=context.present.as_of(case.subject),
            facts=facts,
            first_evaluated_at=None if first is None else first.at,
        )
        judged = self._asked(rule, lambda: evaluate(looked, memory, rule.settings))
        self._settle(context, case, judged)
        return None if judged is None else judged.again_at

    def pass_time(
        self, context: EvaluationContext, key: str, instance: AlertInstance, rule: Rule
    ) -> None:
        """Let an episode become what time alone makes of it."""
        case = RuleTarget(rule=rule, subject=subject_of(rule, instance.alert))
        muted_by: tuple[str, ...] = ()
        if instance.alert.state is not AlertState.RESOLVED:
            wall_now = context.present.wall_now
            muted_by = context.suppression.reasons(instance.alert, rule.mute, at=wall_now)
        moment = self._moment(context, case, muted_by=muted_by)
        outcome = lifecycle.pass_time(instance, rule.settings, moment)
        _take(context, key, instance, outcome)
        if outcome[2]:
            self._record(context, case, outcome[2])

    def add_evidence(
        self, context: EvaluationContext, key: str, case: RuleTarget, *, run: RunKey | None = None
    ) -> None:
        """Let a failure belong to the episode that began with something inside or around it.

        The error of what failed inside is told where the episode knows none yet.
        """
        held, event = context.pending.held(key), case.event
        if not isinstance(held, AlertInstance) or event is None:
            return
        at, facts = held.alert.starts_at, held.alert.facts
        if event.run.error is not None and facts.get("error") is None:
            facts = {**facts, **_bounded({"error": event.run.error})}
        wrong = Firing(since=at, as_of=at, evidence=(event.id,), run=run, facts=facts)
        subject = subject_of(case.rule, held.alert)
        fresh = fresh_alert(
            self._view,
            case.rule,
            subject,
            wrong,
            url=event.run.url,
            known=held.alert.evidence,
        )
        after = lifecycle.with_evidence(held, wrong, fresh, is_news=False)
        _take(context, key, held, (after, (), "deduplicated"))
        self._record(context, case, "deduplicated", f"evidence of {key}")

    def bring_error(self, context: EvaluationContext, key: str, error: str) -> None:
        """Let an alert that has none tell the error of what failed inside; nothing is told anew."""
        held = context.pending.held(key)
        rule = self.rules.get(held.alert.name) if isinstance(held, AlertInstance) else None
        if not isinstance(held, AlertInstance) or rule is None:
            return
        alert = held.alert
        facts = {**alert.facts, **_bounded({"error": error})}
        wrong = Firing(since=alert.starts_at, as_of=alert.starts_at, facts=facts)
        url = facts.get("url")
        fresh = fresh_alert(
            self._view,
            rule,
            subject_of(rule, alert),
            wrong,
            url=url if isinstance(url, str) else None,
            known=alert.evidence,
        )
        after = lifecycle.with_facts(held, facts, fresh)
        _take(context, key, held, (after, (), ""))

    def record_postponed(
        self, context: EvaluationContext, case: RuleTarget, due_at: datetime
    ) -> None:
        """Say to whoever asks that the event waits."""
        detail = f"at most until {due_at:%H:%M:%S} UTC, for what its run may be a part of"
        self._record(context, case, "postponed", detail)

    def _settle(
        self, context: EvaluationContext, case: RuleTarget, judged: RuleAnswer[Any] | None
    ) -> None:
        if judged is None:
            self._record(context, case, "raised", self.failing.get(case.rule.name, ""))
            return
        memory = None if judged.memory is None else msgspec.json.encode(judged.memory)
        context.pending.put(MEMORY, memory_key(case), memory)
        result = judged.result
        if result is None:
            self._record(context, case, "no verdict")
            return
        key = case.fingerprint
        held = context.pending.held(key)
        outcome = self._judge(context, case, result, held)
        _take(context, key, held, outcome)
        self._record(context, case, outcome[2], result.why if isinstance(result, Unknown) else "")

    def _judge(
        self,
        context: EvaluationContext,
        case: RuleTarget,
        result: EvaluationResult,
        held: AlertSlot,
    ) -> Outcome:
        rule, event = case.rule, case.event
        is_event = event is not None
        if not isinstance(result, Firing):
            if isinstance(held, AlertPast):
                is_unclear = isinstance(result, Unknown)
                return held, (), "unclear" if is_unclear else "nothing was wrong"
            moment = self._moment(context, case, is_event=is_event)
            return lifecycle.judge(held, result, held.alert, rule.settings, moment)
        if case.preexisting or (not is_event and _first(context, case) is None):
            result = msgspec.structs.replace(result, preexisting=True)
        known: tuple[str, ...] = ()
        if isinstance(held, AlertInstance) and held.is_open:
            known = held.alert.evidence
            # What a later failure does not tell does not take back what an earlier one told.
            told = {name: item for name, item in _bounded(result.facts).items() if item is not None}
            result = msgspec.structs.replace(result, facts={**held.alert.facts, **told})
        url = event.run.url if event is not None else self._url_of(result.run)
        fresh = fresh_alert(self._view, rule, case.subject, result, url=url, known=known)
        muted_by: tuple[str, ...] = ()
        if not isinstance(held, AlertInstance) or held.alert.state is not AlertState.FIRING:
            wall_now = context.present.wall_now
            muted_by = context.suppression.reasons(fresh, rule.mute, at=wall_now)
        moment = self._moment(context, case, muted_by=muted_by, is_event=is_event)
        return lifecycle.judge(held, result, fresh, rule.settings, moment)

    def _url_of(self, run: RunKey | None) -> str | None:
        active = self._view.active_run(run) if run is not None else None
        return active.run.url if active is not None else None

    def _moment(
        self,
        context: EvaluationContext,
        case: RuleTarget,
        *,
        muted_by: tuple[str, ...] = (),
        is_event: bool = False,
    ) -> EvaluationMoment:
        return EvaluationMoment(
            now=context.present.now,
            as_of=context.present.as_of(case.subject),
            is_ours=case.subject.subject_kind in OURS,
            muted_by=muted_by,
            is_event=is_event,
            limits=self.limits,
        )

    def _asked(self, rule: Rule, ask: Callable[[], T]) -> T | None:
        def failed(reason: str) -> None:
            self.failing[rule.name] = reason
            self.failures[rule.name] += 1

        answer: T | None = self._guard(f"rule {rule.name}", ask, failed)
        return answer

    @staticmethod
    def _memory(context: EvaluationContext, case: RuleTarget) -> Any:
        value = context.pending.get(MEMORY, memory_key(case))
        if value is None:
            return None
        try:
            return msgspec.json.decode(value, type=case.rule.definition.memory)
        except (msgspec.MsgspecError, ValueError) as exc:
            log.warning(
                "what a rule remembered cannot be read", rule=case.rule.name, reason=str(exc)
            )
            return None

    def _record(
        self, context: EvaluationContext, case: RuleTarget, word: str, detail: str = ""
    ) -> None:
        said = EvaluationRecord(
            rule=case.rule.name,
            fingerprint=case.fingerprint,
            word=word,
            at=context.present.wall_now,
            detail=detail,
        )
        self._history.record(case.event_id, said)


def end(context: EvaluationContext, key: str, instance: AlertInstance, reason: str) -> None:
    """End an episode for which nobody will judge again."""
    present = context.present
    at = max(instance.alert.starts_at, present.wall_now)
    _take(context, key, instance, lifecycle.end(instance, at, now=present.now, reason=reason))


def _take(context: EvaluationContext, key: str, before: AlertSlot, outcome: Outcome) -> None:
    after, tellings, word = outcome
    context.pending.hold(key, before, after, word)
    for told in tellings:
        context.pending.emit(told)


def fresh_alert(
    view: LiveStateView,
    rule: Rule,
    subject: Subject,
    result: Firing,
    *,
    url: str | None,
    known: Collection[str] = (),
) -> Alert:
    """Return the alert as it would begin now; ``known`` is the evidence that there was before."""
    settings = rule.settings
    labels = labels_of(view, settings, subject)
    values = {
        **result.facts,
        **{name: labels.get(name) for name in ("workspace", "kind", "pipeline", "pipeline_id")},
        "rule": settings.name,
        "severity": settings.severity,
        "starts_at": result.since,
        "evidence_count": float(len({*result.evidence, *known})),
        "url": url,
    }
    return Alert(
        fingerprint=_fingerprint(rule.name, subject),
        name=rule.name,
        rule=settings.rule,
        severity=settings.severity,
        state=AlertState.PENDING,
        labels=labels,
        annotations={
            name: annotation.fill(values) for name, annotation in rule.annotations.items()
        },
        starts_at=result.since,
        workspace=subject.workspace,
        kind=subject.kind,
        pipeline=subject.pipeline,
        run=result.run,
        evidence=result.evidence,
        evidence_count=len(result.evidence),
        facts=_bounded(result.facts if url is None else {**result.facts, "url": url}),
        preexisting=result.preexisting,
    )


@lru_cache(_FINGERPRINTS_KEPT)
def _fingerprint(rule_name: str, subject: Subject) -> str:
    return fingerprint(rule_name, subject.identity())


def first_key(rule: Rule, workspace: str, kind: str) -> str:
    return f"{rule.name}:{workspace}:{kind}"


def _first(context: EvaluationContext, case: RuleTarget) -> FirstEvaluated | None:
    domain = context.present.domain(case.subject)
    first: FirstEvaluated | None = context.pending.get(
        FIRST, first_key(case.rule, case.subject.workspace, domain)
    )
    return first


def memory_key(case: RuleTarget) -> str:
    return f"{case.rule.name}:{key_of(case.subject)}"


def _bounded(facts: Mapping[str, str | float | None]) -> dict[str, str | float | None]:
    """Return the facts as the store gives them back: texts of a bounded length, and no integers."""
    return {name: _fact(fact) for name, fact in facts.items()}


def _fact(value: str | float | None) -> str | float | None:
    if value is None:
        return None
    return value[:_TEXT_KEPT] if isinstance(value, str) else float(value)

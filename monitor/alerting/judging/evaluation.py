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

from monitor.alerting.compiled import Compiled, Rule
from monitor.alerting.conditions.table import CONDITIONS
from monitor.alerting.episodes import lifecycle
from monitor.alerting.episodes.draft import EPISODE, FIRST, MEMORY, SILENCE, Draft, FirstJudged
from monitor.alerting.episodes.labels import labels_of, subject_of
from monitor.alerting.episodes.lifecycle import Episode, Held, Moment, Outcome, Pace, Past
from monitor.alerting.episodes.suppression import Suppression
from monitor.alerting.subjects.outermost import key_of
from monitor.alerting.subjects.present import OURS, Present
from monitor.alerting.trail import Evaluation, Trail
from monitor.alerting.verdicts import Heard, Judged, Looked, Subject, Unclear, Verdict, Wrong
from monitor.model.alerts import Alert, AlertState, fingerprint
from monitor.model.events import RunEvent
from monitor.model.runs import RunKey
from monitor.tracking.knowledge import KnowledgeView

T = TypeVar("T")

log = structlog.get_logger()

_FINGERPRINTS_KEPT = 65_536
# The kinds of rule that explain others; only their alerts can hold any back.
_EXPLAINING = frozenset(rule for rule, one in CONDITIONS.items() if one.explains)
_TEXT_KEPT = 4_000  # characters of one fact


class Guard(Protocol):
    """Calls something that may fail: None, and one line to ``on_failure``, where it does."""

    def __call__(
        self, name: str, call: Callable[[], Any], on_failure: Callable[[str], None]
    ) -> Any: ...


class Sitting:
    """One step of alerting: what is known at its moment, and what it changes."""

    def __init__(self, draft: Draft, present: Present, suppression: Suppression) -> None:
        """``suppression`` is by what was held when the draft was begun."""
        self.draft = draft
        self.present = present
        self.suppression = suppression

    def suppress(self) -> None:
        """Let what fires by now hold others back."""
        if changes_suppression(self.draft):
            self.suppression = suppression_of(self.draft)


def suppression_of(draft: Draft) -> Suppression:
    """Return what holds alerts back by what a draft holds."""
    alerts = (episode.alert for _, episode in draft.rows(EPISODE))
    silences = (silence for _, silence in draft.rows(SILENCE))
    return Suppression.of(silences, (one for one in alerts if one.rule in _EXPLAINING))


def changes_suppression(draft: Draft) -> bool:
    """True where a draft changes something that may hold others back."""
    return bool(draft.changes(SILENCE)) or any(
        row is None or row.alert.rule in _EXPLAINING for _, row in draft.changes(EPISODE)
    )


class Case(Struct, frozen=True, kw_only=True):
    """One rule and one subject; ``event`` None where the rule looks by itself."""

    rule: Rule
    subject: Subject
    event: RunEvent | None = None
    was_there: bool = False  # it ended before the rule was judged for the first time

    @property
    def fingerprint(self) -> str:
        return _fingerprint(self.rule.name, self.subject)

    @property
    def event_id(self) -> str | None:
        return self.event.id if self.event is not None else None


class Evaluator:
    """The rules of one configuration, and what went wrong with asking them in this life."""

    def __init__(
        self, compiled: Compiled, *, view: KnowledgeView, guard: Guard, trail: Trail, pace: Pace
    ) -> None:
        self.compiled = compiled
        self.rules = {rule.name: rule for rule in compiled.rules}
        self.failing: dict[str, str] = {}
        self.failures: Counter[str] = Counter()
        self._view = view
        self._guard = guard
        self._trail = trail
        self.pace = pace

    def hear(self, sitting: Sitting, case: Case, outermost: RunKey) -> None:
        """Let a rule hear an event of a subject."""
        rule, event = case.rule, case.event
        hear = rule.condition.hear
        facts = self._asked(rule, lambda: sitting.present.facts(rule, case.subject, is_heard=True))
        if hear is None or facts is None or event is None:
            return
        memory, first = self._memory(sitting, case), _first(sitting, case)
        heard = Heard(
            event=event,
            subject=case.subject,
            outermost=outermost,
            facts=facts,
            first_judged_at=None if first is None else first.at,
        )
        judged = self._asked(rule, lambda: hear(heard, memory, rule.settings))
        self._settle(sitting, case, judged)

    def look(self, sitting: Sitting, case: Case) -> datetime | None:
        """Let a rule look at a subject; return when it wants to look again."""
        rule = case.rule
        look = rule.condition.look
        facts = self._asked(rule, lambda: sitting.present.facts(rule, case.subject))
        if look is None or facts is None:
            return None
        memory, first = self._memory(sitting, case), _first(sitting, case)
        looked = Looked(
            subject=case.subject,
            as_of=sitting.present.as_of(case.subject),
            facts=facts,
            first_judged_at=None if first is None else first.at,
        )
        judged = self._asked(rule, lambda: look(looked, memory, rule.settings))
        self._settle(sitting, case, judged)
        return None if judged is None else judged.again_at

    def pass_time(self, sitting: Sitting, key: str, episode: Episode, rule: Rule) -> None:
        """Let an episode become what time alone makes of it."""
        case = Case(rule=rule, subject=subject_of(rule, episode.alert))
        muted_by: tuple[str, ...] = ()
        if episode.alert.state is not AlertState.RESOLVED:
            wall_now = sitting.present.wall_now
            muted_by = sitting.suppression.reasons(episode.alert, rule.mute, at=wall_now)
        moment = self._moment(sitting, case, muted_by=muted_by)
        outcome = lifecycle.pass_time(episode, rule.settings, moment)
        _take(sitting, key, episode, outcome)
        if outcome[2]:
            self._note(sitting, case, outcome[2])

    def add_evidence(
        self, sitting: Sitting, key: str, case: Case, *, run: RunKey | None = None
    ) -> None:
        """Let a failure belong to the episode that began with something inside or around it.

        The error of what failed inside is told where the episode knows none yet.
        """
        held, event = sitting.draft.held(key), case.event
        if not isinstance(held, Episode) or event is None:
            return
        at, facts = held.alert.starts_at, held.alert.facts
        if event.run.error is not None and facts.get("error") is None:
            facts = {**facts, **_bounded({"error": event.run.error})}
        wrong = Wrong(since=at, as_of=at, evidence=(event.id,), run=run, facts=facts)
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
        _take(sitting, key, held, (after, (), "deduplicated"))
        self._note(sitting, case, "deduplicated", f"evidence of {key}")

    def bring_error(self, sitting: Sitting, key: str, error: str) -> None:
        """Let an alert that has none tell the error of what failed inside; nothing is told anew."""
        held = sitting.draft.held(key)
        rule = self.rules.get(held.alert.name) if isinstance(held, Episode) else None
        if not isinstance(held, Episode) or rule is None:
            return
        alert = held.alert
        facts = {**alert.facts, **_bounded({"error": error})}
        wrong = Wrong(since=alert.starts_at, as_of=alert.starts_at, facts=facts)
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
        _take(sitting, key, held, (after, (), ""))

    def note_postponed(self, sitting: Sitting, case: Case, due_at: datetime) -> None:
        """Say to whoever asks that the event waits."""
        detail = f"at most until {due_at:%H:%M:%S} UTC, for what its run may be a part of"
        self._note(sitting, case, "postponed", detail)

    def _settle(self, sitting: Sitting, case: Case, judged: Judged[Any] | None) -> None:
        if judged is None:
            self._note(sitting, case, "raised", self.failing.get(case.rule.name, ""))
            return
        memory = None if judged.memory is None else msgspec.json.encode(judged.memory)
        sitting.draft.put(MEMORY, memory_key(case), memory)
        verdict = judged.verdict
        if verdict is None:
            self._note(sitting, case, "no verdict")
            return
        key = case.fingerprint
        held = sitting.draft.held(key)
        outcome = self._judge(sitting, case, verdict, held)
        _take(sitting, key, held, outcome)
        self._note(sitting, case, outcome[2], verdict.why if isinstance(verdict, Unclear) else "")

    def _judge(self, sitting: Sitting, case: Case, verdict: Verdict, held: Held) -> Outcome:
        rule, event = case.rule, case.event
        is_heard = event is not None
        if not isinstance(verdict, Wrong):
            if isinstance(held, Past):
                is_unclear = isinstance(verdict, Unclear)
                return held, (), "unclear" if is_unclear else "nothing was wrong"
            moment = self._moment(sitting, case, is_heard=is_heard)
            return lifecycle.judge(held, verdict, held.alert, rule.settings, moment)
        if case.was_there or (not is_heard and _first(sitting, case) is None):
            verdict = msgspec.structs.replace(verdict, was_there=True)
        known: tuple[str, ...] = ()
        if isinstance(held, Episode) and held.is_open:
            known = held.alert.evidence
            # What a later failure does not tell does not take back what an earlier one told.
            told = {name: one for name, one in _bounded(verdict.facts).items() if one is not None}
            verdict = msgspec.structs.replace(verdict, facts={**held.alert.facts, **told})
        url = event.run.url if event is not None else self._url_of(verdict.run)
        fresh = fresh_alert(self._view, rule, case.subject, verdict, url=url, known=known)
        muted_by: tuple[str, ...] = ()
        if not isinstance(held, Episode) or held.alert.state is not AlertState.FIRING:
            wall_now = sitting.present.wall_now
            muted_by = sitting.suppression.reasons(fresh, rule.mute, at=wall_now)
        moment = self._moment(sitting, case, muted_by=muted_by, is_heard=is_heard)
        return lifecycle.judge(held, verdict, fresh, rule.settings, moment)

    def _url_of(self, run: RunKey | None) -> str | None:
        active = self._view.active_run(run) if run is not None else None
        return active.run.url if active is not None else None

    def _moment(
        self,
        sitting: Sitting,
        case: Case,
        *,
        muted_by: tuple[str, ...] = (),
        is_heard: bool = False,
    ) -> Moment:
        return Moment(
            now=sitting.present.now,
            as_of=sitting.present.as_of(case.subject),
            is_ours=case.subject.about in OURS,
            muted_by=muted_by,
            is_heard=is_heard,
            pace=self.pace,
        )

    def _asked(self, rule: Rule, ask: Callable[[], T]) -> T | None:
        def failed(reason: str) -> None:
            self.failing[rule.name] = reason
            self.failures[rule.name] += 1

        answer: T | None = self._guard(f"rule {rule.name}", ask, failed)
        return answer

    @staticmethod
    def _memory(sitting: Sitting, case: Case) -> Any:
        value = sitting.draft.get(MEMORY, memory_key(case))
        if value is None:
            return None
        try:
            return msgspec.json.decode(value, type=case.rule.condition.memory)
        except (msgspec.MsgspecError, ValueError) as exc:
            log.warning(
                "what a rule remembered cannot be read", rule=case.rule.name, reason=str(exc)
            )
            return None

    def _note(self, sitting: Sitting, case: Case, word: str, detail: str = "") -> None:
        said = Evaluation(
            rule=case.rule.name,
            fingerprint=case.fingerprint,
            word=word,
            at=sitting.present.wall_now,
            detail=detail,
        )
        self._trail.note(case.event_id, said)


def end(sitting: Sitting, key: str, episode: Episode, reason: str) -> None:
    """End an episode for which nobody will judge again."""
    present = sitting.present
    at = max(episode.alert.starts_at, present.wall_now)
    _take(sitting, key, episode, lifecycle.end(episode, at, now=present.now, reason=reason))


def _take(sitting: Sitting, key: str, before: Held, outcome: Outcome) -> None:
    after, tellings, word = outcome
    sitting.draft.hold(key, before, after, word)
    for told in tellings:
        sitting.draft.tell(told)


def fresh_alert(
    view: KnowledgeView,
    rule: Rule,
    subject: Subject,
    verdict: Wrong,
    *,
    url: str | None,
    known: Collection[str] = (),
) -> Alert:
    """Return the alert as it would begin now; ``known`` is the evidence that there was before."""
    settings = rule.settings
    labels = labels_of(view, settings, subject)
    values = {
        **verdict.facts,
        **{name: labels.get(name) for name in ("workspace", "kind", "pipeline", "pipeline_id")},
        "rule": settings.name,
        "severity": settings.severity,
        "starts_at": verdict.since,
        "evidence_count": float(len({*verdict.evidence, *known})),
        "url": url,
    }
    return Alert(
        fingerprint=_fingerprint(rule.name, subject),
        name=rule.name,
        rule=settings.rule,
        severity=settings.severity,
        state=AlertState.PENDING,
        labels=labels,
        annotations={name: one.fill(values) for name, one in rule.annotations.items()},
        starts_at=verdict.since,
        workspace=subject.workspace,
        kind=subject.kind,
        pipeline=subject.pipeline,
        run=verdict.run,
        evidence=verdict.evidence,
        evidence_count=len(verdict.evidence),
        facts=_bounded(verdict.facts if url is None else {**verdict.facts, "url": url}),
        was_there=verdict.was_there,
    )


@lru_cache(_FINGERPRINTS_KEPT)
def _fingerprint(rule_name: str, subject: Subject) -> str:
    return fingerprint(rule_name, subject.identity())


def first_key(rule: Rule, workspace: str, kind: str) -> str:
    return f"{rule.name}:{workspace}:{kind}"


def _first(sitting: Sitting, case: Case) -> FirstJudged | None:
    domain = sitting.present.domain(case.subject)
    first: FirstJudged | None = sitting.draft.get(
        FIRST, first_key(case.rule, case.subject.workspace, domain)
    )
    return first


def memory_key(case: Case) -> str:
    return f"{case.rule.name}:{key_of(case.subject)}"


def _bounded(facts: Mapping[str, str | float | None]) -> dict[str, str | float | None]:
    """Return the facts as the store gives them back: texts of a bounded length, and no integers."""
    return {name: _fact(one) for name, one in facts.items()}


def _fact(value: str | float | None) -> str | float | None:
    if value is None:
        return None
    return value[:_TEXT_KEPT] if isinstance(value, str) else float(value)

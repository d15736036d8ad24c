"""What rules found lately, for `explain`. In memory and bounded; empty after a restart.

No alert depends on it: `explain` then answers from the stored alerts alone.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from datetime import datetime

from msgspec import Struct

from monitor.alerting.alerts.outcome import StepWord

_OF_EVENTS = 50_000  # 10,000 events that five rules evaluate each
_HARMLESS = 10_000  # events, with half a kilobyte each
_OF_STATE = 10_000
_PER_EVENT = 100

Words = Mapping[str, StepWord]  # by rule


class EvaluationRecord(Struct, frozen=True, kw_only=True, gc=False):
    """One evaluation of a rule for a subject, and what it made of the alert."""

    rule: str
    fingerprint: str
    word: StepWord
    at: datetime  # ours
    detail: str = ""


class EvaluationHistory:
    """The newest evaluations: all of each event, and the last of state for rule and subject."""

    def __init__(
        self,
        *,
        of_events: int = _OF_EVENTS,
        of_state: int = _OF_STATE,
        harmless: int = _HARMLESS,
    ) -> None:
        """Keep so many evaluations of events and of state, and so many harmless events."""
        self._most_of_events = of_events
        self._most_harmless = harmless
        self._most_of_state = of_state
        self._count_of_events = 0
        self._harmless: OrderedDict[str, tuple[Words, frozenset[str], datetime]] = OrderedDict()
        self._of_events: OrderedDict[str, dict[tuple[str, str], EvaluationRecord]] = OrderedDict()
        self._of_state: OrderedDict[tuple[str, str], EvaluationRecord] = OrderedDict()

    def add(
        self,
        event_id: str | None,
        rule: str,
        fingerprint: str,
        word: StepWord,
        *,
        at: datetime,
        detail: str = "",
    ) -> None:
        """Add one evaluation; a repeated one, as after a failed step, replaces the former.

        ``event_id`` None: the rule evaluated the state of its subject.
        """
        identity = (rule, fingerprint)
        record = EvaluationRecord(
            rule=rule, fingerprint=fingerprint, word=word, at=at, detail=detail
        )
        if event_id is None:
            self._of_state[identity] = record
            self._of_state.move_to_end(identity)
            if len(self._of_state) > self._most_of_state:
                self._of_state.popitem(last=False)
            return
        of_event = self._of_events.setdefault(event_id, {})
        if identity not in of_event:
            if len(of_event) >= _PER_EVENT:
                return
            self._count_of_events += 1
        of_event[identity] = record
        while self._count_of_events > self._most_of_events:
            _, oldest = self._of_events.popitem(last=False)
            self._count_of_events -= len(oldest)

    def add_harmless(
        self, event_id: str, words: Words, fingerprints: frozenset[str], *, at: datetime
    ) -> None:
        """Add what rules make of an event that changes none of these alerts."""
        self._harmless[event_id] = words, fingerprints, at
        if len(self._harmless) > self._most_harmless:
            self._harmless.popitem(last=False)

    def of_events(self, ids: Sequence[str], rule: str, fingerprint: str) -> EvaluationRecord | None:
        """Return what a rule found by the newest of these events that it evaluated, if kept."""
        for event_id in reversed(ids):
            found = self._of_events.get(event_id, {}).get((rule, fingerprint))
            if found is not None:
                return found
            harmless = self._harmless.get(event_id)
            if harmless is not None:
                words, fingerprints, at = harmless
                if rule in words and fingerprint in fingerprints:
                    word = words[rule]
                    return EvaluationRecord(rule=rule, fingerprint=fingerprint, word=word, at=at)
        return None

    def last_of_state(self, rule: str, fingerprint: str) -> EvaluationRecord | None:
        """Return what a rule found when it last evaluated the state of a subject."""
        return self._of_state.get((rule, fingerprint))

"""The newest evaluations, to explain why nobody was notified. In memory, bounded.

Nothing depends on it: alerts follow from the durable state alone. After a restart it is empty, and
explanations rest on that state.
"""

from __future__ import annotations

from collections import OrderedDict
from datetime import datetime

from msgspec import Struct

from monitor.alerting.alerts.outcome import StepWord

_OF_EVENTS = 50_000  # evaluations: 10,000 events where five rules match each
_OF_STATE = 10_000
_PER_EVENT = 100


class EvaluationRecord(Struct, frozen=True, kw_only=True, gc=False):
    """One evaluation of a rule for a subject, and what it made of the alert."""

    rule: str
    fingerprint: str
    word: StepWord
    at: datetime  # ours
    detail: str = ""


class EvaluationHistory:
    """All evaluations of the newest events, and the last one of each rule and subject's state."""

    def __init__(self, *, of_events: int = _OF_EVENTS, of_state: int = _OF_STATE) -> None:
        self._of_events_kept = of_events
        self._of_state_kept = of_state
        self._count = 0
        self._of_events: OrderedDict[str, dict[tuple[str, str], EvaluationRecord]] = OrderedDict()
        self._of_state: OrderedDict[tuple[str, str], EvaluationRecord] = OrderedDict()

    def add(self, event_id: str | None, record: EvaluationRecord) -> None:
        """Add one evaluation; a repeated one replaces the former.

        ``event_id`` None: the rule evaluated the state of its subject.
        """
        identity = (record.rule, record.fingerprint)
        if event_id is None:
            self._of_state[identity] = record
            self._of_state.move_to_end(identity)
            if len(self._of_state) > self._of_state_kept:
                self._of_state.popitem(last=False)
            return
        records = self._of_events.setdefault(event_id, {})
        if identity not in records:
            if len(records) >= _PER_EVENT:
                return
            self._count += 1
        records[identity] = record
        while self._count > self._of_events_kept:
            _, oldest = self._of_events.popitem(last=False)
            self._count -= len(oldest)

    def of_event(self, event_id: str) -> tuple[EvaluationRecord, ...]:
        """Return the evaluations of an event; empty where it is too long ago."""
        return tuple(self._of_events.get(event_id, {}).values())

    def last_of_state(self, rule: str, fingerprint: str) -> EvaluationRecord | None:
        """Return the last evaluation of a subject's state by a rule."""
        return self._of_state.get((rule, fingerprint))

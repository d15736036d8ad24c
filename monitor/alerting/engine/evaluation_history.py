"""Recent evaluations of rules, for `explain`. In memory, bounded, empty after a restart.

No alert depends on it: `explain` then answers from the stored alerts alone.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct

from monitor.alerting.alerts.outcome import StepWord

_EVENTS = 10_000
_OF_STATE = 10_000
_PER_EVENT = 100  # words besides `StepWord.NO_RESULT`


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
        self._most_events = events
        self._most_of_state = of_state
        self._events: OrderedDict[str, _HandledEvent] = OrderedDict()
        self._of_state: OrderedDict[str, EvaluationRecord] = OrderedDict()

    def add_event(self, event_id: str, handled: tuple[str, ...], *, at: datetime) -> None:
        """Add an event for whose ``handled`` fingerprints rules find nothing, until `add` follows.

        A repeated one, as after a failed step, replaces the former.
        """
        self._events.pop(event_id, None)
        self._events[event_id] = _HandledEvent(handled, at, {})
        if len(self._events) > self._most_events:
            self._events.popitem(last=False)

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
            self._of_state[fingerprint] = record
            self._of_state.move_to_end(fingerprint)
            if len(self._of_state) > self._most_of_state:
                self._of_state.popitem(last=False)
            return
        event = self._events.get(event_id)
        if event is None:  # no event was made of it: a failure from before the first evaluation
            self.add_event(event_id, (), at=at)
            event = self._events[event_id]
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

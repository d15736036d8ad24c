"""What rules said lately, so that somebody who was told nothing can ask why. In memory, bounded.

Nothing rests on it: what is told follows from the durable state alone. After a restart it is
empty, and whoever asks is answered from that state.
"""

from __future__ import annotations

from collections import OrderedDict
from datetime import datetime

from msgspec import Struct

_EVALUATIONS = 50_000  # of events; 10,000 of them, where five rules hear each
_LOOKS = 10_000
_PER_EVENT = 100


class EvaluationRecord(Struct, frozen=True, kw_only=True, gc=False):
    """One rule was asked about one subject, and what became of its answer.

    ``word`` is the step's own: "fired", "deduplicated", "pending", "muted", "unclear"...
    """

    rule: str
    fingerprint: str
    word: str
    at: datetime  # ours
    detail: str = ""


class EvaluationHistory:
    """The newest evaluations: all of each event, and the last look of each rule and subject."""

    def __init__(self, *, evaluations: int = _EVALUATIONS, looks: int = _LOOKS) -> None:
        self._most_evaluations = evaluations
        self._most_looks = looks
        self._evaluations = 0
        self._heard: OrderedDict[str, dict[tuple[str, str], EvaluationRecord]] = OrderedDict()
        self._looked: OrderedDict[tuple[str, str], EvaluationRecord] = OrderedDict()

    def record(self, event_id: str | None, said: EvaluationRecord) -> None:
        """Keep one evaluation; the same one, taken again after a failure, replaces the former.

        ``event_id`` None: the rule was not told anything, it looked by itself.
        """
        identity = (said.rule, said.fingerprint)
        if event_id is None:
            self._looked[identity] = said
            self._looked.move_to_end(identity)
            if len(self._looked) > self._most_looks:
                self._looked.popitem(last=False)
            return
        of_event = self._heard.setdefault(event_id, {})
        if identity not in of_event:
            if len(of_event) >= _PER_EVENT:
                return
            self._evaluations += 1
        of_event[identity] = said
        while self._evaluations > self._most_evaluations:
            _, oldest = self._heard.popitem(last=False)
            self._evaluations -= len(oldest)

    def of_event(self, event_id: str) -> tuple[EvaluationRecord, ...]:
        """Return what the rules said to an event; empty where it is too long ago."""
        return tuple(self._heard.get(event_id, {}).values())

    def last_look(self, rule: str, fingerprint: str) -> EvaluationRecord | None:
        """Return what a rule said when it last looked at a subject by itself."""
        return self._looked.get((rule, fingerprint))

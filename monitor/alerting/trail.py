"""What rules said lately, so that somebody who was told nothing can ask why. In memory, bounded.

Nothing rests on it: what is told follows from the durable state alone. After a restart it is
empty, and whoever asks is answered from that state.
"""

from __future__ import annotations

from collections import OrderedDict
from datetime import datetime

from msgspec import Struct

_EVENTS = 10_000
_LOOKS = 10_000
_PER_EVENT = 100


class Evaluation(Struct, frozen=True, kw_only=True, gc=False):
    """One rule was asked about one subject, and what became of its answer.

    ``word`` is the step's own: "fired", "deduplicated", "pending", "muted", "unclear"...
    """

    rule: str
    fingerprint: str
    word: str
    at: datetime  # ours
    detail: str = ""


class Trail:
    """The newest evaluations: all of each event, and the last look of each rule and subject."""

    def __init__(self, *, events: int = _EVENTS, looks: int = _LOOKS) -> None:
        self._most_events = events
        self._most_looks = looks
        self._heard: OrderedDict[str, dict[tuple[str, str], Evaluation]] = OrderedDict()
        self._looked: OrderedDict[tuple[str, str], Evaluation] = OrderedDict()

    def note(self, event_id: str | None, said: Evaluation) -> None:
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
        if len(of_event) < _PER_EVENT or identity in of_event:
            of_event[identity] = said
        if len(self._heard) > self._most_events:
            self._heard.popitem(last=False)

    def of_event(self, event_id: str) -> tuple[Evaluation, ...]:
        """Return what the rules said to an event; empty where it is too long ago."""
        return tuple(self._heard.get(event_id, {}).values())

    def last_look(self, rule: str, fingerprint: str) -> Evaluation | None:
        """Return what a rule said when it last looked at a subject by itself."""
        return self._looked.get((rule, fingerprint))

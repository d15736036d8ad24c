"""A rule about ends that handles one event after the other, without an engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from monitor.alerting.rules.contract import AnyRuleDefinition, EvaluationResult, Firing, Ok
from monitor.alerting.rules.rule_settings import RuleSettings
from monitor.model.events import RunEvent
from monitor.model.runs import RunKey, Status
from tests.alerting.run_samples import at, event_input, rule, run_event, state


class History:
    """One rule that handles one event after the other, its memory stored in between."""

    def __init__(self, definition: AnyRuleDefinition, settings: RuleSettings | None = None) -> None:
        self.definition = definition
        self.settings = settings or rule(definition.rule)
        self.memory: Any = None
        self.is_firing = False
        self.changes: list[str] = []

    def on_event(
        self, event: RunEvent, *, root_run: RunKey | None = None
    ) -> EvaluationResult | None:
        if event.type not in self.definition.event_types:
            return None
        assert self.definition.on_event is not None
        answer = self.definition.on_event(
            event_input(event, root_run=root_run), self.memory, self.settings
        )
        self.memory = self._stored(answer.memory)
        if isinstance(answer.result, Firing) and not self.is_firing:
            self.is_firing = True
            self.changes.append(f"firing at {event.id}")
        elif isinstance(answer.result, Ok) and self.is_firing:
            self.is_firing = False
            self.changes.append(f"ok at {event.id}")
        return answer.result

    def _stored(self, memory: Struct | None) -> Struct | None:
        if memory is None:
            return None
        stored: Struct = msgspec.json.decode(
            msgspec.json.encode(memory), type=self.definition.memory
        )
        return stored

    def end(
        self, number: int, status: Status, *, recipe: str | None = None, after: float = -1.0
    ) -> EvaluationResult | None:
        """Run ``number`` ends so many minutes after zero, by default as many as its number."""
        minutes = number if after < 0 else after
        run = state(
            number, status, finished_at=at(60 * minutes), recipe=recipe, error=f"error {number}"
        )
        return self.on_event(run_event(run))

    def ends(self, statuses: Sequence[Status]) -> None:
        for number, status in enumerate(statuses):
            self.end(number, status)

"""Evaluates one rule for one subject again and again, its memory stored in between."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from monitor.alerting.rules.contract import (
    EvaluationResult,
    Firing,
    Ok,
    StateInput,
    Subject,
    Unknown,
)
from monitor.alerting.rules.rule_settings import RuleKind
from monitor.alerting.rules.table import RULE_DEFINITIONS, default_rule

BEGAN = datetime(2026, 11, 21, 10, tzinfo=UTC)
WORDS: dict[type | None, str] = {Firing: "firing", Ok: "ok", Unknown: "unknown", None: "none"}


def at(seconds: float) -> datetime:
    """Return the instant so long after the scenario began."""
    return BEGAN + timedelta(seconds=seconds)


class EvaluatedRule:
    """One rule and one subject. ``memory_bytes`` is the newest memory as it is stored."""

    def __init__(self, kind: RuleKind, *, thing: str = "", **changed: Any) -> None:
        self.definition = RULE_DEFINITIONS[kind]
        self.rule = msgspec.structs.replace(default_rule(kind), **changed)
        self.subject = Subject(
            subject_kind=self.definition.subject_kind, workspace="marketing", thing=thing
        )
        self.memory_bytes = b""
        self.last: EvaluationResult | None = None
        self.first_evaluated_at: datetime | None = BEGAN
        self.again_at: datetime | None = None

    def evaluate(self, facts: Any, seconds: float | None, *, wall: float | None = None) -> str:
        """Return the word of the result ``seconds`` after the scenario began; None: not known.

        ``wall`` is what the wall clock shows then, if it was set.
        """
        assert self.definition.evaluate is not None
        memory = None
        if self.memory_bytes:
            memory = msgspec.json.decode(self.memory_bytes, type=self.definition.memory)
        as_of = None if seconds is None else at(seconds)
        state = StateInput(
            subject=self.subject,
            as_of=as_of,
            facts=facts,
            first_evaluated_at=self.first_evaluated_at,
            wall_now=as_of if wall is None else at(wall),
        )
        answer = self.definition.evaluate(state, memory, self.rule)
        self.memory_bytes = b"" if answer.memory is None else msgspec.json.encode(answer.memory)
        self.last, self.again_at = answer.result, answer.again_at
        if isinstance(self.last, Firing):  # what annotations may name is what the rule reports
            assert sorted(self.last.facts) == sorted(self.definition.template_fields)
        return WORDS[None if answer.result is None else type(answer.result)]

    @property
    def firing(self) -> Firing:
        """Return the newest result, which must be firing."""
        assert isinstance(self.last, Firing)
        return self.last

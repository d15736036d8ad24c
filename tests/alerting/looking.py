"""Looks at one thing again and again, as the engine does, with a memory that is stored between."""

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
WORDS: dict[type | None, str] = {Firing: "wrong", Ok: "right", Unknown: "unclear", None: "none"}


def at(seconds: float) -> datetime:
    """Return the instant so long after the story began."""
    return BEGAN + timedelta(seconds=seconds)


class Looking:
    """One rule and one subject. ``memory_bytes`` is what the newest memory takes in the store."""

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

    def evaluate(self, facts: Any, seconds: float | None) -> str:
        """Return the word of the verdict ``seconds`` after the story began; None: not known."""
        assert self.definition.evaluate is not None
        memory = None
        if self.memory_bytes:
            memory = msgspec.json.decode(self.memory_bytes, type=self.definition.memory)
        as_of = None if seconds is None else at(seconds)
        looked = StateInput(
            subject=self.subject,
            as_of=as_of,
            facts=facts,
            first_evaluated_at=self.first_evaluated_at,
        )
        judged = self.definition.evaluate(looked, memory, self.rule)
        self.memory_bytes = b"" if judged.memory is None else msgspec.json.encode(judged.memory)
        self.last, self.again_at = judged.result, judged.again_at
        return WORDS[None if judged.result is None else type(judged.result)]

    @property
    def wrong(self) -> Firing:
        """Return the newest verdict, which must be that it is so."""
        assert isinstance(self.last, Firing)
        return self.last

"""Looks at one thing again and again, as the engine does, with a memory that is stored between."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from monitor.alerting.conditions.table import CONDITIONS
from monitor.alerting.settings.defaults import default_rule
from monitor.alerting.settings.rules import RuleKind
from monitor.alerting.verdicts import Looked, Right, Subject, Unclear, Verdict, Wrong

BEGAN = datetime(2026, 11, 21, 10, tzinfo=UTC)
WORDS: dict[type | None, str] = {Wrong: "wrong", Right: "right", Unclear: "unclear", None: "none"}


def at(seconds: float) -> datetime:
    """Return the instant so long after the story began."""
    return BEGAN + timedelta(seconds=seconds)


class Looking:
    """One rule and one subject. ``memory_bytes`` is what the newest memory takes in the store."""

    def __init__(self, kind: RuleKind, *, thing: str = "", **changed: Any) -> None:
        self.condition = CONDITIONS[kind]
        self.rule = msgspec.structs.replace(default_rule(kind), **changed)
        self.subject = Subject(about=self.condition.about, workspace="marketing", thing=thing)
        self.memory_bytes = b""
        self.last: Verdict | None = None
        self.first_judged_at: datetime | None = BEGAN
        self.again_at: datetime | None = None

    def look(self, facts: Any, seconds: float | None) -> str:
        """Return the word of the verdict ``seconds`` after the story began; None: not known."""
        assert self.condition.look is not None
        memory = None
        if self.memory_bytes:
            memory = msgspec.json.decode(self.memory_bytes, type=self.condition.memory)
        as_of = None if seconds is None else at(seconds)
        looked = Looked(
            subject=self.subject, as_of=as_of, facts=facts, first_judged_at=self.first_judged_at
        )
        judged = self.condition.look(looked, memory, self.rule)
        self.memory_bytes = b"" if judged.memory is None else msgspec.json.encode(judged.memory)
        self.last, self.again_at = judged.verdict, judged.again_at
        return WORDS[None if judged.verdict is None else type(judged.verdict)]

    @property
    def wrong(self) -> Wrong:
        """Return the newest verdict, which must be that it is so."""
        assert isinstance(self.last, Wrong)
        return self.last

"""One healthy subject, and what its rules keep of its successes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from monitor.alerting.attribution.attribution import Attribution
from monitor.alerting.attribution.lineage import has_parents
from monitor.alerting.attribution.subjects import key_of, of_pipeline
from monitor.alerting.engine.evaluation import decoded_memory
from monitor.alerting.engine.history import Words
from monitor.alerting.rules.compiled import Rule
from monitor.alerting.rules.contract import EventInput
from monitor.alerting.rules.kept_successes import only_successes, success_of, with_success
from monitor.alerting.rules.part_ends import SubjectEnds
from monitor.model.events import EventType, RunEvent
from monitor.model.runs import Pipeline, Status

SUCCESSES = frozenset({EventType.RUN_SUCCEEDED, EventType.RUN_CONFIRMED, EventType.RUN_DETAILED})
HARMLESS = frozenset({EventType.RUN_QUEUED, EventType.RUN_STARTED, *SUCCESSES})
_NO_ENDS = SubjectEnds()


def is_plain(event: RunEvent) -> bool:
    """True where a run by itself waits, starts or ended well, and nothing about it is odd."""
    run = event.run
    return (
        event.type in HARMLESS
        and (event.type not in SUCCESSES or run.status is Status.SUCCEEDED)
        and not has_parents(run)
        and not run.implausible
        and run.failed_part is None
        and not run.historical
    )


class KeptSuccesses:
    """The successes that some rules keep alike, and the rows that they keep them in."""

    __slots__ = ("count", "ends", "event_types", "is_changed", "rows")

    def __init__(self, ends: SubjectEnds, count: int, event_types: frozenset[EventType]) -> None:
        self.ends = ends
        self.count = count
        self.event_types = event_types
        self.rows: list[tuple[str, Rule]] = []
        self.is_changed = False

    def take(self, ends: SubjectEnds) -> None:
        self.is_changed = self.is_changed or ends is not self.ends
        self.ends = ends

    def row(self, rule: Rule) -> bytes | None:
        kept_ends = rule.definition.kept_ends
        if kept_ends is None or not self.ends.parts:
            return None
        return msgspec.json.encode(kept_ends.memory_of(self.ends))


class AskedRule(Struct, gc=False):
    """A rule that an event may change only where it has a memory, and its newest memory."""

    rule: Rule
    key: str
    stored: bytes | None = None
    decoded: Any = None

    def memory(self, stored: bytes) -> Any:
        if stored is not self.stored:
            self.stored, self.decoded = stored, decoded_memory(self.rule, stored)
        return self.decoded


class HealthySubject:
    """What is known of one subject; ``fingerprints`` and ``watched`` must have no rows."""

    __slots__ = (
        *("asked", "fingerprints", "kept", "learned_key", "memories", "own", "pipeline"),
        *("pipeline_subject", "successes", "traits", "watched", "words"),
    )

    def __init__(self, attribution: Attribution, pipeline: Pipeline) -> None:
        run = attribution.event.run
        self.own = attribution.own
        self.pipeline = pipeline
        self.pipeline_subject = of_pipeline(run.key.workspace, pipeline)
        self.traits = attribution.traits
        self.learned_key = key_of(self.own)
        self.fingerprints: frozenset[str] = frozenset()
        self.kept: list[KeptSuccesses] = []
        self.asked: list[AskedRule] = []
        self.watched: frozenset[str] = frozenset()  # keys of memories
        self.memories: frozenset[str] = frozenset()  # the same, with those of the rules to ask
        self.words: Mapping[EventType, Words] = {}
        self.successes: list[RunEvent] = []  # not learned yet

    def keep(self, rule: Rule, key: str, stored: bytes | None) -> bool:
        """Add the successes that a rule keeps; False where it remembers anything else."""
        kept_ends = rule.definition.kept_ends
        memory = None if stored is None else decoded_memory(rule, stored)
        if kept_ends is None or (memory is None and stored is not None):
            return False
        ends = SubjectEnds() if memory is None else kept_ends.ends_of(memory)
        if ends is None or not only_successes(ends):
            return False
        event_types = SUCCESSES.intersection(rule.definition.event_types)
        count = kept_ends.kept(rule.settings)
        # One object where they are equal: what becomes of it is found once.
        ends = next((kept.ends for kept in self.kept if kept.ends == ends), ends)
        for kept in self.kept:
            if (kept.ends, kept.count, kept.event_types) == (ends, count, event_types):
                kept.rows.append((key, rule))
                return True
        self.kept.append(KeptSuccesses(ends, count, event_types))
        self.kept[-1].rows.append((key, rule))
        return True

    def add_success(self, event: RunEvent) -> None:
        """Add the success of a root run to what rules keep."""
        event_input = EventInput(event=event, root_run=event.run.key)
        success = success_of(event_input)
        before = after = _NO_ENDS
        count = 0
        for kept in self.kept:
            if event.type in kept.event_types:
                if kept.ends is not before or kept.count != count:
                    before, count = kept.ends, kept.count
                    after = with_success(event_input, success, before, kept=count)
                kept.take(after)

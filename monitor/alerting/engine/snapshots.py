"""Immutable snapshots of alerting for others; made anew only when something changed."""

from __future__ import annotations

from datetime import datetime, timedelta
from urllib.parse import unquote

import msgspec
import structlog
from msgspec import Struct

from monitor.alerting.alerts.pending_step import (
    ALERT,
    LEARNED,
    MEMORY,
    SILENCE,
    TRANSITIONS,
    PendingStep,
    Tables,
)
from monitor.alerting.engine.context import read_learned
from monitor.alerting.engine.evaluation import Evaluator
from monitor.alerting.engine.rule_set import RuleSet
from monitor.alerting.rules.awaited_starts import AwaitedStarts, upcoming
from monitor.alerting.rules.baselines import MINIMUM_RUNS, age_seconds, limit_seconds
from monitor.model.alerts import (
    AlertingSnapshot,
    LearnedLimit,
    PipelineOfKind,
    StartAfterGrace,
)
from monitor.model.clock import Clock
from monitor.model.runs import Pipeline, PipelineKind, RunKind

log = structlog.get_logger()

_WAITING = msgspec.json.Decoder(AwaitedStarts)
_YIELD_EVERY = 50  # rows


class _Awaited(Struct, frozen=True, kw_only=True):
    """What one rule awaits of one pipeline; ``upcoming`` as `upcoming` returns it."""

    of: PipelineOfKind
    upcoming: tuple[datetime, ...]
    grace: timedelta
    missed: int


class Snapshots:
    """Makes snapshots. Baselines are decoded once for each change, not for each snapshot."""

    def __init__(self) -> None:
        self._limits: dict[str, LearnedLimit] = {}
        self._cadences: dict[str, LearnedLimit] = {}
        self._awaited: dict[str, _Awaited] = {}
        self._newest: AlertingSnapshot | None = None
        self._made_of: tuple[RuleSet, int] | None = None

    async def learn_all(self, tables: Tables, rules: RuleSet, clock: Clock) -> None:
        """Decode everything that is shown, in place of what was shown.

        A cancelled call leaves a part of it; call again.
        """
        self._limits, self._cadences, self._awaited = {}, {}, {}
        for number, (key, value) in enumerate(list(tables[LEARNED].items()), 1):
            self._learn(key, value)
            if number % _YIELD_EVERY == 0:
                await clock.sleep(0)
        for number, (key, value) in enumerate(list(tables[MEMORY].items()), 1):
            self._await(key, value, rules)
            if number % _YIELD_EVERY == 0:
                await clock.sleep(0)
        # Not before: a snapshot that was made meanwhile contains only a part.
        self._newest = None

    def committed(self, pending: PendingStep, rules: RuleSet) -> None:
        """Apply what a durable step changed."""
        self._newest = None
        for key, value in pending.changed[LEARNED].items():
            self._learn(key, value)
        if rules.awaiting or self._awaited:
            for key, value in pending.changed[MEMORY].items():
                self._await(key, value, rules)

    def of(self, tables: Tables, rules: RuleSet, evaluator: Evaluator) -> AlertingSnapshot:
        """Return the snapshot of the committed state."""
        made_of = (rules, evaluator.version)
        if self._newest is None or self._made_of != made_of:
            self._newest, self._made_of = self._make(tables, rules, evaluator), made_of
        return self._newest

    def _make(self, tables: Tables, rules: RuleSet, evaluator: Evaluator) -> AlertingSnapshot:
        expected = self._expected()
        counts = {key.rpartition(":")[::2]: row for key, row in tables[TRANSITIONS].items()}
        return AlertingSnapshot(
            alerts=tuple(instance.alert for instance in tables[ALERT].values()),
            silences=tuple(tables[SILENCE].values()),
            limits=tuple(self._limits.values()),
            cadences=tuple(self._cadences.values()),
            expected={of: awaited.upcoming[0] for of, awaited in expected.items()},
            after_grace={of: _after_grace(awaited) for of, awaited in expected.items()},
            missed=self._missed(),
            transitions={(name, to): row.count for (name, to), row in counts.items()},
            rules=tuple((rule.name, rule.settings.severity) for rule in rules.compiled.rules),
            failing_rules=evaluator.failing(),
            failures=dict(evaluator.failures),
        )

    def _expected(self) -> dict[PipelineOfKind, _Awaited]:
        """Return what is awaited next of each pipeline; several rules may await the same."""
        expected: dict[PipelineOfKind, _Awaited] = {}
        for awaited in self._awaited.values():
            if awaited.upcoming:
                other = expected.setdefault(awaited.of, awaited)
                if awaited.upcoming < other.upcoming:
                    expected[awaited.of] = awaited
        return expected

    def _missed(self) -> dict[PipelineOfKind, int]:
        """Return how many starts of each pipeline were missed, ever."""
        missed: dict[PipelineOfKind, int] = {}
        for awaited in self._awaited.values():
            missed[awaited.of] = max(awaited.missed, missed.get(awaited.of, 0))
        return missed

    def _await(self, key: str, value: bytes | None, rules: RuleSet) -> None:
        """Set the next expected start of a pipeline and its missed starts."""
        # Also of a removed rule.
        self._awaited.pop(key, None)
        rule, _, subject = key.partition(":")
        waiting = _read_waiting(value) if rule in rules.awaiting else None
        if waiting is not None:
            self._awaited[key] = _Awaited(
                of=_identity(subject),
                upcoming=upcoming(waiting),
                grace=timedelta(seconds=rules.by_name[rule].settings.threshold),
                missed=waiting.count,
            )

    def _learn(self, key: str, value: bytes | None) -> None:
        self._limits.pop(key, None)
        self._cadences.pop(key, None)
        learned = read_learned(value)
        if learned is None:
            return
        workspace, kind, pipeline_id = _identity(key)
        of = PipelineKind.PLAN if kind is RunKind.PLAN_RUN else PipelineKind.FLOW
        for seconds, learned_from, limits in (
            (limit_seconds(learned), learned.durations, self._limits),
            (age_seconds(learned, minimum_runs=MINIMUM_RUNS), learned.gaps, self._cadences),
        ):
            if seconds is not None and learned_from is not None:
                limits[key] = LearnedLimit(
                    workspace=workspace,
                    kind=kind,
                    pipeline=Pipeline(kind=of, id=pipeline_id),
                    seconds=seconds,
                    runs=learned_from.count,
                )


def _after_grace(awaited: _Awaited) -> StartAfterGrace:
    next_at = awaited.upcoming[1] if len(awaited.upcoming) > 1 else None
    return StartAfterGrace(grace_ends_at=awaited.upcoming[0] + awaited.grace, next_at=next_at)


def _identity(subject_key: str) -> PipelineOfKind:
    _, workspace, kind, pipeline_id, _ = map(unquote, subject_key.split(":"))
    return workspace, RunKind(kind), pipeline_id


def _read_waiting(value: bytes | None) -> AwaitedStarts | None:
    if value is None:
        return None
    try:
        return _WAITING.decode(value)
    except (msgspec.MsgspecError, ValueError) as exc:
        log.warning("awaited starts unreadable", reason=str(exc))
        return None

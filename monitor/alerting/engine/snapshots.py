"""What alerting holds, as others see it: made anew only when something has changed."""

from __future__ import annotations

from collections.abc import Container, Iterable
from datetime import datetime
from urllib.parse import unquote

import msgspec
import structlog

from monitor.alerting.alerts.pending_step import (
    ALERT,
    LEARNED,
    MEMORY,
    SILENCE,
    TRANSITIONS,
    Draft,
    Tables,
)
from monitor.alerting.engine.evaluation import Evaluator
from monitor.alerting.engine.present import read_learned
from monitor.alerting.rules.awaited_starts import AwaitedStarts
from monitor.alerting.rules.baselines import MINIMUM_RUNS, age_seconds, limit_seconds
from monitor.alerting.rules.compiled import Rule
from monitor.alerting.rules.rule_settings import RuleKind
from monitor.model.alerts import AlertingSnapshot, LearnedLimit, PipelineOfKind
from monitor.model.clock import Clock
from monitor.model.runs import Pipeline, PipelineKind, RunKind

log = structlog.get_logger()

_WAITING = msgspec.json.Decoder(AwaitedStarts)
_IN_ONE_GO = 50  # pipelines, without letting others have a turn


class Snapshots:
    """Makes pictures. What was learned is worked out once for each change, not each picture."""

    def __init__(self) -> None:
        self._limits: dict[str, LearnedLimit] = {}
        self._cadences: dict[str, LearnedLimit] = {}
        self._awaited: dict[str, tuple[PipelineOfKind, datetime | None, int]] = {}
        self._made: AlertingSnapshot | None = None
        self._made_of: tuple[Evaluator, int] | None = None

    async def learn_all(self, tables: Tables, rules: Iterable[Rule], clock: Clock) -> None:
        """Work out what is shown of all that is remembered, in place of what was shown."""
        self._limits, self._cadences, self._awaited = {}, {}, {}
        awaiting = _awaiting(rules)
        for number, (key, value) in enumerate(list(tables[LEARNED].items()), 1):
            self._learn(key, value)
            if number % _IN_ONE_GO == 0:
                await clock.sleep(0)
        for number, (key, value) in enumerate(list(tables[MEMORY].items()), 1):
            self._await(key, value, awaiting)
            if number % _IN_ONE_GO == 0:
                await clock.sleep(0)
        # Not before: what was made meanwhile knows a part only.
        self._made = None

    def changed(self, pending: Draft, rules: Iterable[Rule]) -> None:
        """Take note of what a step changed."""
        self._made = None
        awaiting = _awaiting(rules)
        for key, value in pending.changes(LEARNED):
            self._learn(key, value)
        for key, value in pending.changes(MEMORY):
            self._await(key, value, awaiting)

    def of(self, tables: Tables, evaluator: Evaluator) -> AlertingSnapshot:
        """Return the picture of what is held now."""
        made_of = (evaluator, evaluator.failures.total())
        if self._made is None or self._made_of != made_of:
            self._made, self._made_of = self._make(tables, evaluator), made_of
        return self._made

    def _make(self, tables: Tables, evaluator: Evaluator) -> AlertingSnapshot:
        rules = evaluator.compiled.rules
        expected, missed = self._starts()
        counts = {key.rpartition(":")[::2]: row for key, row in tables[TRANSITIONS].items()}
        return AlertingSnapshot(
            alerts=tuple(instance.alert for instance in tables[ALERT].values()),
            silences=tuple(tables[SILENCE].values()),
            limits=tuple(self._limits.values()),
            cadences=tuple(self._cadences.values()),
            expected=expected,
            missed=missed,
            transitions={(name, to): row.count for (name, to), row in counts.items()},
            rules=tuple((rule.name, rule.settings.severity) for rule in rules),
            failing_rules=dict(evaluator.failing),
            failures=dict(evaluator.failures),
        )

    def _starts(self) -> tuple[dict[PipelineOfKind, datetime], dict[PipelineOfKind, int]]:
        """Return the next start of each pipeline, and how many never came."""
        expected: dict[PipelineOfKind, datetime] = {}
        missed: dict[PipelineOfKind, int] = {}
        # Several rules may await the same starts.
        for of, next_at, count in self._awaited.values():
            if next_at is not None:
                expected[of] = min(next_at, expected.get(of, next_at))
            missed[of] = max(count, missed.get(of, 0))
        return expected, missed

    def _await(self, key: str, value: bytes | None, awaiting: Container[str]) -> None:
        """Show when a pipeline should start next, and how often it has not."""
        # Also of a rule that is there no more.
        self._awaited.pop(key, None)
        rule, _, subject = key.partition(":")
        waiting = _read_waiting(value) if rule in awaiting else None
        if waiting is not None:
            self._awaited[key] = _identity(subject), waiting.next_at, waiting.count

    def _learn(self, key: str, value: bytes | None) -> None:
        self._limits.pop(key, None)
        self._cadences.pop(key, None)
        learned = read_learned(value)
        if learned is None:
            return
        workspace, kind, pipeline_id = _identity(key)
        of = PipelineKind.PLAN if kind is RunKind.PLAN_RUN else PipelineKind.FLOW
        for seconds, held, shown in (
            (limit_seconds(learned), learned.durations, self._limits),
            (age_seconds(learned, minimum_runs=MINIMUM_RUNS), learned.gaps, self._cadences),
        ):
            if seconds is not None and held is not None:
                shown[key] = LearnedLimit(
                    workspace=workspace,
                    kind=kind,
                    pipeline=Pipeline(kind=of, id=pipeline_id),
                    seconds=seconds,
                    runs=held.count,
                )


def _awaiting(rules: Iterable[Rule]) -> frozenset[str]:
    """Return the names of the rules that remember which starts are awaited."""
    return frozenset(rule.name for rule in rules if rule.settings.rule is RuleKind.SCHEDULE_MISSED)


def _identity(subject_key: str) -> PipelineOfKind:
    _, workspace, kind, pipeline_id, _ = map(unquote, subject_key.split(":"))
    return workspace, RunKind(kind), pipeline_id


def _read_waiting(value: bytes | None) -> AwaitedStarts | None:
    if value is None:
        return None
    try:
        return _WAITING.decode(value)
    except (msgspec.MsgspecError, ValueError) as exc:
        log.warning("what is awaited of a pipeline cannot be read", reason=str(exc))
        return None

"""What alerting holds, as others see it: made anew only when something has changed."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import unquote

from monitor.alerting.baselines import MINIMUM_RUNS, age_seconds, limit_seconds
from monitor.alerting.draft import EPISODE, LEARNED, SILENCE, TRANSITIONS, Draft, Tables
from monitor.alerting.evaluation import Evaluator
from monitor.alerting.present import read_learned
from monitor.model.alerts import AlertingPicture, LearnedLimit
from monitor.model.clock import Clock
from monitor.model.runs import Pipeline, PipelineKind, RunKind
from monitor.tracking.knowledge import KnowledgeView

_IN_ONE_GO = 50  # pipelines, without letting others have a turn


class Pictures:
    """Makes pictures. What was learned is worked out once for each change, not each picture."""

    def __init__(self, view: KnowledgeView) -> None:
        self._view = view
        self._limits: dict[str, LearnedLimit] = {}
        self._cadences: dict[str, LearnedLimit] = {}
        self._made: AlertingPicture | None = None
        self._made_of: tuple[Evaluator, int] | None = None

    async def learn_all(self, learned: Mapping[str, bytes], clock: Clock) -> None:
        """Work out what is shown of all that was learned, in place of what was shown."""
        self._limits, self._cadences, self._made = {}, {}, None
        for number, (key, value) in enumerate(list(learned.items()), 1):
            self._learn(key, value)
            if number % _IN_ONE_GO == 0:
                await clock.sleep(0)

    def changed(self, draft: Draft) -> None:
        """Take note of what a step changed."""
        self._made = None
        for key, value in draft.changes(LEARNED):
            self._learn(key, value)

    def of(self, tables: Tables, evaluator: Evaluator) -> AlertingPicture:
        """Return the picture of what is held now."""
        made_of = (evaluator, evaluator.failures.total())
        if self._made is None or self._made_of != made_of:
            self._made, self._made_of = self._make(tables, evaluator), made_of
        return self._made

    def _make(self, tables: Tables, evaluator: Evaluator) -> AlertingPicture:
        rules = evaluator.compiled.rules
        counts = {key.rpartition(":")[::2]: row for key, row in tables[TRANSITIONS].items()}
        return AlertingPicture(
            alerts=tuple(episode.alert for episode in tables[EPISODE].values()),
            silences=tuple(tables[SILENCE].values()),
            limits=tuple(self._limits.values()),
            cadences=tuple(self._cadences.values()),
            transitions={(name, to): row.count for (name, to), row in counts.items()},
            rules=tuple((rule.name, rule.settings.severity) for rule in rules),
            failing_rules=dict(evaluator.failing),
            failures=dict(evaluator.failures),
        )

    def _learn(self, key: str, value: bytes | None) -> None:
        self._limits.pop(key, None)
        self._cadences.pop(key, None)
        learned = read_learned(value)
        if learned is None:
            return
        _, workspace, kind_word, pipeline_id, _ = map(unquote, key.split(":"))
        kind = RunKind(kind_word)
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

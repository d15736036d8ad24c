"""Immutable snapshots of alerting for others; replaced only when something changed."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime, timedelta
from itertools import islice
from urllib.parse import unquote

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
from monitor.alerting.engine.evaluation import Evaluator
from monitor.alerting.engine.rule_set import RuleSet
from monitor.alerting.engine.shown_deadlines import ShownDeadlines
from monitor.alerting.rules.awaited_starts import AwaitedStarts, upcoming
from monitor.alerting.rules.baselines import (
    MINIMUM_RUNS,
    Learned,
    age_seconds,
    known_durations,
    known_gaps,
    limit_seconds,
)
from monitor.alerting.rules.deadlines import AwaitedDeadlines
from monitor.alerting.rules.expected_starts import last_pass
from monitor.model.alerts import (
    AlertingSnapshot,
    LearnedLimit,
    PipelineOfKind,
    StartAfterGrace,
)
from monitor.model.runs import Pipeline, PipelineKind, RunKind
from monitor.model.slices import in_slices

_AT_ONCE = 20  # of 10,000 rows and more: a learned limit takes 0.1 ms


class _Awaited(Struct, frozen=True, kw_only=True):
    """What one rule awaits of one pipeline; ``upcoming`` as `upcoming` returns it.

    ``last_at``: when the first of them comes for the last time.
    """

    of: PipelineOfKind
    upcoming: tuple[datetime, ...]
    last_at: datetime | None
    grace: timedelta
    missed: int


class Snapshots:
    """Makes snapshots. Baselines are decoded once for each change, not for each snapshot."""

    def __init__(self) -> None:
        self._limits: dict[str, LearnedLimit] = {}
        self._cadences: dict[str, LearnedLimit] = {}
        self._changed: dict[str, None] = {}  # keys of baselines whose limits are to be computed
        self._awaited: dict[str, _Awaited] = {}
        self._rows_of: defaultdict[PipelineOfKind, dict[str, _Awaited]] = defaultdict(dict)
        self._expected: dict[PipelineOfKind, datetime] = {}
        self._after_grace: dict[PipelineOfKind, StartAfterGrace] = {}
        self._missed: dict[PipelineOfKind, int] = {}  # starts that were missed, ever
        self._deadlines = ShownDeadlines()
        self._newest: AlertingSnapshot | None = None
        self._made_of: tuple[RuleSet, int] | None = None

    async def learn_all(self, tables: Tables, rules: RuleSet) -> None:
        """Decode everything that is shown, in place of what was shown.

        A cancelled call leaves a part of it; call again.
        """
        for shown in (self._limits, self._cadences, self._changed, self._awaited):
            shown.clear()
        for of_pipelines in (self._rows_of, self._expected, self._after_grace, self._missed):
            of_pipelines.clear()
        async for key in in_slices(list(tables[LEARNED]), size=_AT_ONCE):
            self._learn(key, tables.decoded(LEARNED, key, Learned))
        self._deadlines.clear()
        async for key in in_slices(list(tables[MEMORY]), size=_AT_ONCE):
            if (rule := key.partition(":")[0]) in rules.awaiting:
                self._await(key, tables.decoded(MEMORY, key, AwaitedStarts), rules)
            elif rule in rules.with_deadline:
                self._put_deadlines(key, tables.decoded(MEMORY, key, AwaitedDeadlines), rules)
        # Not before: a snapshot that was made meanwhile contains only a part.
        self._newest = None

    async def committed(self, pending: PendingStep, tables: Tables, rules: RuleSet) -> None:
        """Apply what a durable step changed."""
        self._changed |= dict.fromkeys(pending.changed[LEARNED])
        self.refresh(tables)
        memories, prefixes = pending.changed[MEMORY], tuple(f"{name}:" for name in rules.awaiting)
        awaited = [key for key in memories if key.startswith(prefixes) or key in self._awaited]
        async for key in in_slices(awaited, size=_AT_ONCE):
            self._await(key, memories[key], rules)
        prefixes = tuple(f"{name}:" for name in rules.with_deadline)
        due = [key for key in memories if key.startswith(prefixes) or key in self._deadlines]
        async for key in in_slices(due, size=_AT_ONCE):
            self._put_deadlines(key, memories[key], rules)
        self._newest = None

    def refresh(self, tables: Tables) -> None:
        """Show limits as they are now, the longest unchanged ones first; the rest in later calls.

        Each success changes a limit a little, and computing it costs more than all else.
        """
        for key in list(islice(self._changed, _AT_ONCE)):
            del self._changed[key]
            self._learn(key, tables.decoded(LEARNED, key, Learned))
            self._newest = None

    def of(self, tables: Tables, rules: RuleSet, evaluator: Evaluator) -> AlertingSnapshot:
        """Return the snapshot of the committed state."""
        made_of = (rules, evaluator.version)
        if self._newest is None or self._made_of != made_of:
            self._newest, self._made_of = self._make(tables, rules, evaluator), made_of
        return self._newest

    def _make(self, tables: Tables, rules: RuleSet, evaluator: Evaluator) -> AlertingSnapshot:
        counts = {key.rpartition(":")[::2]: row for key, row in tables[TRANSITIONS].items()}
        return AlertingSnapshot(
            alerts=tuple([instance.alert for instance in tables[ALERT].values()]),
            silences=tuple(tables[SILENCE].values()),
            limits=tuple(self._limits.values()),
            cadences=tuple(self._cadences.values()),
            expected=dict(self._expected),
            after_grace=dict(self._after_grace),
            missed=dict(self._missed),
            deadlines=self._deadlines.all(),
            transitions={(name, to): row.count for (name, to), row in counts.items()},
            rules=tuple((rule.name, rule.settings.severity) for rule in rules.compiled.rules),
            failing_rules=evaluator.failing(),
            failures=dict(evaluator.failures),
        )

    def _await(self, key: str, waiting: AwaitedStarts | None, rules: RuleSet) -> None:
        """Set the next expected start of a pipeline and its missed starts."""
        rule, _, subject = key.partition(":")
        # Also of a removed rule.
        before = self._awaited.pop(key, None)
        if before is not None:
            self._rows_of[before.of].pop(key)
            self._show(before.of)
        if waiting is not None and rule in rules.awaiting:
            coming = upcoming(waiting)
            awaited = self._awaited[key] = _Awaited(
                of=_identity(subject),
                upcoming=coming,
                last_at=last_pass(waiting.definitions, coming[0]) if coming else None,
                grace=timedelta(seconds=rules.by_name[rule].settings.threshold),
                missed=waiting.count,
            )
            self._rows_of[awaited.of][key] = awaited
            self._show(awaited.of)

    def _put_deadlines(self, key: str, awaited: AwaitedDeadlines | None, rules: RuleSet) -> None:
        rule, _, subject = key.partition(":")
        is_shown = rule in rules.with_deadline
        self._deadlines.put(key, _identity(subject), awaited if is_shown else None)

    def _show(self, of: PipelineOfKind) -> None:
        """Show what is awaited next of a pipeline; several rules may await the same."""
        rows = self._rows_of[of].values()
        nearest = min((row for row in rows if row.upcoming), key=_upcoming, default=None)
        if nearest is None:
            self._expected.pop(of, None)
            self._after_grace.pop(of, None)
        else:
            self._expected[of] = nearest.upcoming[0]
            self._after_grace[of] = _after_grace(nearest)
        if rows:
            self._missed[of] = max(row.missed for row in rows)
        else:
            self._missed.pop(of, None)
            del self._rows_of[of]

    def _learn(self, key: str, learned: Learned | None) -> None:
        self._limits.pop(key, None)
        self._cadences.pop(key, None)
        if learned is None:
            return
        workspace, kind, pipeline_id = _identity(key)
        of = PipelineKind.PLAN if kind is RunKind.PLAN_RUN else PipelineKind.FLOW
        for seconds, learned_from, limits in (
            (limit_seconds(learned), known_durations(learned), self._limits),
            (
                age_seconds(learned, minimum_runs=MINIMUM_RUNS),
                known_gaps(learned),
                self._cadences,
            ),
        ):
            if seconds is not None and learned_from is not None:
                limits[key] = LearnedLimit(
                    workspace=workspace,
                    kind=kind,
                    pipeline=Pipeline(kind=of, id=pipeline_id),
                    seconds=seconds,
                    runs=learned_from.count,
                )


def _upcoming(awaited: _Awaited) -> tuple[datetime, ...]:
    return awaited.upcoming


def _after_grace(awaited: _Awaited) -> StartAfterGrace:
    next_at = awaited.upcoming[1] if len(awaited.upcoming) > 1 else None
    return StartAfterGrace(
        grace_ends_at=(awaited.last_at or awaited.upcoming[0]) + awaited.grace,
        grace_seconds=awaited.grace.total_seconds(),
        next_at=next_at,
    )


def _identity(subject_key: str) -> PipelineOfKind:
    _, workspace, kind, pipeline_id, _ = map(unquote, subject_key.split(":"))
    return workspace, RunKind(kind), pipeline_id

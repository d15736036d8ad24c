"""What fails inside something is told once, also where that it was inside becomes known later.

A flow run of a plan is linked to its plan run only after that has ended; so is many a job group to
its flow run. Whichever of both failures is told first stands, and the other one is its evidence.
Where a link is likely and not there yet, the second failure waits for it, for a bounded time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from enum import Enum, auto

import msgspec
from msgspec import Struct

from monitor.alerting.alerts.firing_runs import FiringRuns
from monitor.alerting.alerts.lifecycle import AlertInstance
from monitor.alerting.alerts.pending_step import ALERT, POSTPONED, Draft, Postponed
from monitor.alerting.attribution.subjects import Lineage, of_run
from monitor.alerting.engine.evaluation import EvaluationContext, Evaluator, RuleTarget
from monitor.alerting.rules.compiled import Rule
from monitor.alerting.rules.contract import Subject
from monitor.alerting.store import Store
from monitor.model.events import EventType, RunEvent
from monitor.model.runs import Parents, RunKey, RunKind, RunState, Trigger
from monitor.tracking.live_state import LiveStateView

BAD_ENDS = (EventType.RUN_FAILED, EventType.RUN_CANCELED)
# Each can be a part of those behind it.
SIZES = {RunKind.JOB_GROUP: 0, RunKind.FLOW_RUN: 1, RunKind.PLAN_RUN: 2}
_FLOW_RUN, _JOB_GROUP = RunKind.FLOW_RUN, RunKind.JOB_GROUP
_PLAN = "plan"  # why a job group ran, in the workspace's word
_ROUNDS = 60  # in which an alert without an error is asked for one
_AT_ONCE = 20  # such alerts in one round
_PARTS = 100  # of one plan run whose own parts are asked for


class WaitState(Enum):
    """What becomes of waiting for a link."""

    WAIT = auto()
    OVER = auto()  # it took too long
    OVERTAKEN = auto()  # by a success, so that there is nothing left to tell by itself


class RelatedRuns(Struct, frozen=True, kw_only=True):
    """What a failed run may belong to, or have inside it."""

    inside: frozenset[RunKey] = frozenset()  # what is known to be inside it
    relatives: frozenset[RunKey] = frozenset()  # not linked, but likely to be
    around: tuple[Subject, ...] = ()  # plans whose active runs it must be a part of one of


class ParentCorrelation:
    """Decides for each failure whether it is one to be told by itself."""

    def __init__(
        self,
        evaluator: Evaluator,
        firing: FiringRuns,
        *,
        subjects: Lineage,
        view: LiveStateView,
        wait_seconds: float,
    ) -> None:
        self._evaluator = evaluator
        self._firing = firing
        self._subjects = subjects
        self._view = view
        self._wait = timedelta(seconds=wait_seconds)
        self._families: dict[RunKey, RelatedRuns] = {}
        self._due: dict[str, datetime] = {}
        self._errors: dict[str, str] = {}
        self._asked: Counter[tuple[str, RunKey]] = Counter()
        self.waiting: dict[str, RunEvent] = {}  # what waits, by id, as its run is known now

    async def prepare(self, pending: Draft, events: Sequence[RunEvent], bus: Store) -> None:
        """Learn what may belong to the failures of a batch, and what those that wait are now.

        Raises:
            BusUnavailableError: the store does not answer.
        """
        self._families, self.waiting = {}, {}
        self._due = {row.event_id: row.due_at for _, row in pending.rows(POSTPONED)}
        if self._due:
            self.waiting = await _as_known(self._due, bus)
        known = [*events, *self.waiting.values()]
        self._errors = await self._inner_errors(pending, bus) if not events else {}
        await self._subjects.prepare(event.run for event in known)
        root_run = {run.key: run for run in map(self._root_run, known) if run is not None}
        if not root_run:
            return
        beside = FiringRuns.of(root_run.values())
        wanted = {
            key: [*beside.near(run), *self._firing.near(run)] for key, run in root_run.items()
        }
        asked = {key for keys in wanted.values() for key in keys} - root_run.keys()
        states = root_run | (await bus.runs(asked) if asked else {})
        for key, run in root_run.items():
            others = [states[other] for other in wanted[key] if other in states]
            around = self._around(run)
            if others or around:
                family = await _family(run, others, bus)
                family = msgspec.structs.replace(family, around=around)
                if family != RelatedRuns():  # else every alert would be held against it in vain
                    self._families[key] = family

    def takes(
        self, context: EvaluationContext, case: RuleTarget, root: RunKey, patience: WaitState
    ) -> bool:
        """True where a failure is evidence of another episode than its own, or waits."""
        event, family = case.event, self._families.get(root)
        if event is None or family is None or event.type not in BAD_ENDS:
            return False
        own = context.pending.held(case.fingerprint)
        if isinstance(own, AlertInstance) and own.is_open:
            return False
        if event.run.key != root and root.kind is RunKind.PLAN_RUN:
            # Of several flows of one plan each is told, until the plan itself is.
            family = msgspec.structs.replace(family, inside=frozenset())
        related, likely = _related(context.pending, case.rule, family)
        if related is None and likely is None:
            return False
        if related is None and patience is WaitState.WAIT:
            self._postpone(context, case, event)
            return True
        if related is None and patience is WaitState.OVER:
            return False
        self._evaluator.add_evidence(context, related or likely or "", case)
        return True

    def bring_errors(self, context: EvaluationContext) -> None:
        """Tell alerts without an error that of what is known by now to have failed inside."""
        for key, error in self._errors.items():
            self._evaluator.bring_error(context, key, error)

    async def _inner_errors(self, pending: Draft, bus: Store) -> dict[str, str]:
        """Return errors by fingerprint. Each alert is asked for in a few rounds, not for ever."""
        lacking = {
            (key, run)
            for key, row in pending.rows(ALERT)
            if row.is_open
            and row.alert.facts.get("error", "") is None
            and (run := row.about_run) is not None
            and run.kind is not RunKind.JOB_GROUP
        }
        # Those that have been asked for least come first, so that many are a matter of time only.
        turns = sorted((self._asked[row], row) for row in lacking if self._asked[row] < _ROUNDS)
        chosen = [turn for _, turn in turns[:_AT_ONCE]]
        self._asked = Counter({row: self._asked[row] + (row in chosen) for row in lacking})
        errors: dict[str, str] = {}
        for key, run in chosen:
            told = [part.error for part in await _parts(run, bus) if part.error is not None]
            if told:
                errors[key] = told[0]
        return errors

    def _postpone(self, context: EvaluationContext, case: RuleTarget, event: RunEvent) -> None:
        due_at = self._due.get(event.id, context.present.now + self._wait)
        row = Postponed(event_id=event.id, rule=case.rule.name, due_at=due_at)
        context.pending.put(POSTPONED, f"{row.rule}:{row.event_id}", row)
        self.waiting[event.id] = event
        self._evaluator.record_postponed(context, case, due_at)

    def _around(self, run: RunState) -> tuple[Subject, ...]:
        """Return the plans that run now and that a run which a plan has started may be part of."""
        if run.key.kind is RunKind.PLAN_RUN or not is_of_a_plan(run) or run.created_at is None:
            return ()
        return tuple(
            of_run(other_run.run.key, other_run.run.pipeline)
            for other_run in self._view.active_runs(run.key.workspace)
            if other_run.run.key.kind is RunKind.PLAN_RUN
            and other_run.run.created_at is not None
            and other_run.run.created_at <= run.created_at
        )

    def _root_run(self, event: RunEvent) -> RunState | None:
        """Return the outermost run of a failure as it is known, if by its id alone."""
        if event.type not in BAD_ENDS:
            return None
        root = self._subjects.root_run(event.run)
        if root.run is not None:
            return root.run
        return msgspec.structs.replace(
            event.run, key=root.key, pipeline=root.pipeline, parents=Parents()
        )

    def take_due(
        self, context: EvaluationContext, *, before: RunState | None = None
    ) -> Iterator[tuple[RunEvent, str, WaitState]]:
        """Yield what waits, with the name of its rule, and what becomes of its waiting.

        ``before`` narrows it to what has been overtaken by that run's success.
        """
        for key, row in list(context.pending.rows(POSTPONED)):
            event = self.waiting.get(row.event_id)
            if event is None:
                context.pending.put(POSTPONED, key, None)  # the log holds it no more
            elif before is None or _is_of(event, before):
                context.pending.put(POSTPONED, key, None)
                patience = WaitState.OVERTAKEN
                if before is None:
                    # Where our clock was set back over a restart, nothing waits for longer.
                    left = row.due_at - context.present.now
                    is_over = not timedelta(0) < left <= self._wait
                    patience = WaitState.OVER if is_over else WaitState.WAIT
                yield event, row.rule, patience


def _related(pending: Draft, rule: Rule, family: RelatedRuns) -> tuple[str | None, str | None]:
    """Return the episode that is known to be of the family, and one that is likely to be."""
    around = {_fingerprint_of(rule, subject) for subject in family.around}
    found: set[str] = set()
    likely: str | None = None
    for key, instance in pending.rows(ALERT):
        if instance.alert.name != rule.name or not instance.is_open:
            continue
        if instance.about_run in family.inside:
            return key, None
        if key in around:
            found.add(key)
        if instance.about_run in family.relatives:
            likely = key
    # Whichever of those plans it is, somebody has been told of it.
    return (min(found) if found and found == around else None), likely


def _fingerprint_of(rule: Rule, subject: Subject) -> str:
    return RuleTarget(rule=rule, subject=subject).fingerprint


async def _family(run: RunState, others: Sequence[RunState], bus: Store) -> RelatedRuns:
    inside = await _parts(run.key, bus)
    return RelatedRuns(
        inside=frozenset(part.key for part in inside),
        relatives=frozenset(other.key for other in others if are_likely_related(run, other)),
    )


async def _parts(run: RunKey, bus: Store) -> list[RunState]:
    """Return the runs that are known to be inside of one."""
    if run.kind is RunKind.JOB_GROUP:
        return []
    inside = await bus.children(run)
    for part in [child for child in inside if child.key.kind is RunKind.FLOW_RUN][:_PARTS]:
        inside += await bus.children(part.key)
    return inside


def are_likely_related(first: RunState, other: RunState) -> bool:
    """True where the smaller is not known to be inside anything, and ran while the larger did."""
    smaller, larger = sorted((first, other), key=lambda run: SIZES[run.key.kind])
    is_plan = larger.key.kind is RunKind.PLAN_RUN
    if is_plan and not is_of_a_plan(smaller) and smaller.trigger is not Trigger.UNKNOWN:
        return False
    if (smaller.parents.plan_run if is_plan else smaller.parents.flow_run) is not None:
        return False
    if smaller.created_at is None or larger.created_at is None:
        return False
    ended_at = larger.finished_at or smaller.created_at
    return larger.created_at <= smaller.created_at <= ended_at


def is_of_a_plan(run: RunState) -> bool:
    """True where the workspace says that a plan started it, if not which."""
    return run.trigger is Trigger.PLAN or run.ran_for == _PLAN


async def _as_known(ids: Iterable[str], bus: Store) -> dict[str, RunEvent]:
    """Return the events with what their runs are a part of, as that is known by now."""
    found = await bus.events_by_id(set(ids))
    events = [
        other_event.event
        for other_event in found.values()
        if isinstance(other_event.event, RunEvent)
    ]
    runs = await bus.runs({event.run.key for event in events})
    known: dict[str, RunEvent] = {}
    for event in events:
        state = runs.get(event.run.key, event.run)
        run = msgspec.structs.replace(event.run, parents=state.parents)
        known[event.id] = msgspec.structs.replace(event, run=run)
    return known


def _is_of(event: RunEvent, success: RunState) -> bool:
    """True where the success settles the failure: of the same pipeline, and not of another part."""
    run = event.run
    if (run.key.workspace, run.key.kind) != (success.key.workspace, success.key.kind):
        return False
    if (run.pipeline and run.pipeline.id) != (success.pipeline and success.pipeline.id):
        return False
    return run.recipe is None or success.recipe is None or run.recipe.id == success.recipe.id

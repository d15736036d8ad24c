"""Failures before a rule's first evaluation: handled once, as preexisting.

Runs that ended before a workspace was followed make no events, and a new rule has not handled
earlier events. So once for each rule, workspace and kind of run, the failures that no later run
has followed are read from the store and handled as events.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from monitor.alerting.alerting_store import Store
from monitor.alerting.alerts.pending_step import (
    ALERT,
    FIRST,
    MEMORY,
    FirstEvaluated,
    PendingStep,
)
from monitor.alerting.attribution.attribution import (
    NEEDED_CAPABILITIES,
    SIZES,
    Lineage,
    RootRun,
    RuleTarget,
    are_likely_related,
    is_of_a_plan,
)
from monitor.alerting.attribution.subjects import first_key, keys_of, of_run, traits_of
from monitor.alerting.rules.compiled import Rule
from monitor.alerting.rules.contract import EventInput
from monitor.model.alerts import Alert
from monitor.model.ends import run_end
from monitor.model.events import EventType, RunEvent, end_event_id
from monitor.model.runs import RunKey, RunKind, RunState, Status
from monitor.model.slices import in_slices
from monitor.tracking.live_state import LiveStateView

# The parents of a run are known only once their own kind is, which may never come to be.
_WAIT = timedelta(seconds=60)


_PipelineKey = tuple[str, RunKind, str]
KindOfRun = tuple[str, RunKind]  # workspace, kind
Complete = Mapping[KindOfRun, datetime]  # until when everything is known of each kind of run


class InitialEvaluation:
    """Finds what rules evaluate for the first time; afterwards it costs a set lookup."""

    def __init__(self, *, bus: Store, lineage: Lineage, view: LiveStateView) -> None:
        self._bus = bus
        self._lineage = lineage
        self._view = view
        self._waits_since: dict[str, datetime] = {}  # ours, by workspace
        self._evaluated: set[KindOfRun] = set()

    def reset(self) -> None:
        """Check again for rules that were never evaluated, as after a start."""
        self._evaluated.clear()

    async def load(
        self, pending: PendingStep, rules: Sequence[Rule], *, complete: Complete, now: datetime
    ) -> EarlierFailures | None:
        """Return the failures to handle now; None where no rule is new.

        After a cancelled call `reset` is due: some rules count as evaluated.

        Raises:
            BusUnavailableError: the store does not answer.
        """
        new = self._new_rules(pending, rules, complete, now)
        if not new:
            return None
        keys: set[RunKey] = set()
        successes: dict[_PipelineKey, datetime] = {}
        async for health in in_slices(self._view.pipeline_health()):  # 10,000 and more
            if health.last_success_at is not None:
                place = health.workspace, health.run_kind, health.pipeline.id
                newest = successes.get(place, health.last_success_at)
                successes[place] = max(newest, health.last_success_at)
            is_new = (health.workspace, health.run_kind) in new
            if is_new and health.last_status is Status.FAILED and health.last_run_id is not None:
                keys.add(RunKey(health.workspace, health.run_kind, health.last_run_id))
        parts = await _preexisting_before(pending, new)
        both = keys | parts.keys()
        stored = await self._bus.runs(both) if both else {}
        await self._lineage.prepare(stored.values())
        failed = [stored[key] for key in keys & stored.keys()]
        failures = EarlierFailures(
            sorted((run for run in failed if run.status is Status.FAILED), key=_order),
            new,
            complete=complete,
            handled=await _handled_events(pending),
            successes=successes,
            lineage=self._lineage,
            view=self._view,
        )
        failures.skip_parents_of(parts, stored)
        return failures

    def _new_rules(
        self, pending: PendingStep, rules: Sequence[Rule], complete: Complete, now: datetime
    ) -> dict[KindOfRun, tuple[Rule, ...]]:
        found: dict[KindOfRun, tuple[Rule, ...]] = {}
        for workspace, kind in complete.keys() - self._evaluated:
            if not self._is_time(workspace, complete, now):
                continue
            self._evaluated.add((workspace, kind))
            new = tuple(
                rule
                for rule in rules
                if rule.definition.considers_past
                and pending.get(FIRST, first_key(rule.name, workspace, kind)) is None
            )
            if new:
                found[workspace, kind] = new
        return found

    def _is_time(self, workspace: str, complete: Complete, now: datetime) -> bool:
        """True where every kind of run that can be followed is known, or one takes too long."""
        status = self._view.workspace(workspace)
        capabilities = frozenset() if status is None else status.capabilities
        followed = [kind for kind, need in NEEDED_CAPABILITIES.items() if need in capabilities]
        if all((workspace, kind) in complete for kind in (RunKind.JOB_GROUP, *followed)):
            return True
        return now - self._waits_since.setdefault(workspace, now) >= _WAIT


class EarlierFailures:
    """The failures to handle, oldest first, so that the first one begins the alert."""

    def __init__(
        self,
        failed: Sequence[RunState],
        rules: Mapping[KindOfRun, tuple[Rule, ...]],
        *,
        complete: Complete,
        handled: Collection[tuple[str, str]],
        successes: Mapping[_PipelineKey, datetime],
        lineage: Lineage,
        view: LiveStateView,
    ) -> None:
        """``handled`` are names of rules with ids of events that need no second handling.

        ``successes`` are the newest ones, by pipeline.
        """
        self.runs = failed
        self._rules = rules
        self._complete = complete
        self._handled = handled
        self._lineage = lineage
        self._view = view
        self._plan_runs = [run for run in failed if run.key.kind is RunKind.PLAN_RUN]
        self._skipped: set[tuple[str, RunKey]] = set()  # name of a rule, run
        self._successes = successes

    def skip_parents_of(
        self, parts: Mapping[RunKey, Sequence[str]], stored: Mapping[RunKey, RunState]
    ) -> None:
        """Skip the root runs of failures that have an alert already, by rule."""
        for key in parts.keys() & stored.keys():
            root = self._root_of(stored[key]).key
            self._skipped.update((name, root) for name in parts[key])

    def targets(self, pending: PendingStep, run: RunState) -> Iterator[RuleTarget]:
        """Yield the rules that have not handled the failure; each is to be handled at once."""
        root = self._root_of(run)
        own = RootRun(key=run.key, pipeline=run.pipeline, run=run)
        event = _event(run)
        for rule in self._rules[run.key.workspace, run.key.kind]:
            judged = own if rule.names_kind else root
            if judged.key != run.key and self._is_over(run, root):
                continue
            subject = of_run(judged.key, judged.pipeline)
            keys = keys_of(rule.name, subject)
            if not rule.matches(traits_of(self._view, subject, judged.run or run)):
                continue
            if (rule.name, run.key) in self._skipped:
                continue
            if not run.historical and (
                (rule.name, event.id) in self._handled
                or pending.get(MEMORY, keys.memory) is not None
            ):
                continue
            yield RuleTarget(
                rule=rule,
                subject=subject,
                keys=keys,
                event_input=EventInput(event=event, root_run=judged.key),
                preexisting=True,
            )

    def store_first(self, pending: PendingStep) -> None:
        """Store that these rules have been evaluated."""
        for (workspace, kind), rules in self._rules.items():
            row = FirstEvaluated(at=self._complete[workspace, kind])
            for rule in rules:
                pending.put(FIRST, first_key(rule.name, workspace, kind), row)

    def _root_of(self, run: RunState) -> RootRun:
        """Return the root run; of a run that a plan started, the failed plan run that fits."""
        root = self._lineage.line(run)[-1]
        if root.key.kind is RunKind.PLAN_RUN or not is_of_a_plan(run):
            return root
        for plan_run in self._plan_runs:
            is_near = plan_run.key.workspace == run.key.workspace
            if is_near and are_likely_related(run, plan_run):
                return RootRun(key=plan_run.key, pipeline=plan_run.pipeline, run=plan_run)
        return root

    def _is_over(self, run: RunState, root: RootRun) -> bool:
        """True where the pipeline of the root run has succeeded since."""
        if root.pipeline is None:
            return False
        success_at = self._successes.get((root.key.workspace, root.key.kind, root.pipeline.id))
        return success_at is not None and success_at >= _ended_at(run)


async def _handled_events(pending: PendingStep) -> frozenset[tuple[str, str]]:
    """Return names of rules with ids of events that are evidence of their alerts."""
    handled: set[tuple[str, str]] = set()
    async for _, instance in in_slices(pending.rows(ALERT)):  # thousands in an outage
        alert: Alert = instance.alert
        handled.update((alert.name, event_id) for event_id in alert.evidence)
    return frozenset(handled)


async def _preexisting_before(
    pending: PendingStep, rules: Mapping[KindOfRun, tuple[Rule, ...]]
) -> dict[RunKey, list[str]]:
    """Return the runs with preexisting alerts from an initial evaluation of their own kind.

    The runs that contain them may be known only now, and get no alert beside them.
    """
    names = {
        (workspace, rule.name)
        for (workspace, _), new in rules.items()
        for rule in new
        if not rule.names_kind
    }
    found: defaultdict[RunKey, list[str]] = defaultdict(list)
    async for _, instance in in_slices(pending.rows(ALERT)):  # thousands in an outage
        alert, run = instance.alert, instance.root_run
        if run is None or (run.workspace, run.kind) in rules or not instance.is_open:
            continue
        if alert.preexisting and (run.workspace, alert.name) in names:
            found[run].append(alert.name)
    return found


def _event(run: RunState) -> RunEvent:
    """Return the event that the failure would have made, from what the store holds."""
    return RunEvent(
        id=end_event_id(run),
        type=EventType.RUN_FAILED,
        run=run,
        before=None,
        occurred_at=run.finished_at,
        recorded_at=run.confirmed_at,
        observed_by=run.ended_by or run.confirmed_by,
    )


def _ended_at(run: RunState) -> datetime:
    end = run_end(run)
    return run.confirmed_at if end is None else end.at


def _order(run: RunState) -> tuple[datetime, int, RunKey]:
    # Of runs that ended in the same second the inner one comes first: it knows the error.
    return _ended_at(run), SIZES[run.key.kind], run.key

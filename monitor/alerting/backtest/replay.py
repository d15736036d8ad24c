"""Lets a private engine evaluate recorded events, as if their time passed once more.

The engine has a timeline of its own: whatever no event touches is evaluated only when its time has
come, and the instants in between are passed over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import groupby
from types import MappingProxyType
from typing import Any, Protocol

from msgspec import Struct
from msgspec.structs import replace

from monitor.alerting.alerts.instance import AlertInstance
from monitor.alerting.alerts.pending_step import ALERT
from monitor.alerting.backtest.replay_store import ReplayStore
from monitor.alerting.engine.engine import Engine
from monitor.alerting.engine.evaluation_context import EvaluationContext
from monitor.alerting.engine.rule_set import RuleSet
from monitor.alerting.engine.suppression import PREFIX
from monitor.alerting.engine.timeline import NOW, NextEvaluation, SlowReads, Timeline
from monitor.alerting.rules.contract import Subject
from monitor.alerting.rules.table import RULE_DEFINITIONS
from monitor.alerting.settings import AlertingSettings
from monitor.bus.contract import Recorded, Retention
from monitor.model.alerts import AlertingSnapshot
from monitor.model.events import AlertEvent, Event, RunEvent
from monitor.model.live_state import ActiveRun, Reachability, WorkspaceStatus
from monitor.model.runs import RunKey, RunKind, RunState, Status
from monitor.tracking.live_state import LiveState

# Events this close together are one batch; closer where rules count seconds.
_LEAST_SECONDS, _MOST_SECONDS = 2.0, 30.0
_RETRY = timedelta(seconds=60)  # between evaluations of what is due but cannot be judged yet
NO_PARTS: Parts = MappingProxyType({})


class RecordedTimeline(Timeline):
    """Finds the instants at which an evaluation may change something."""

    considers_past = False  # the past that is recorded begins with its first event
    sweep_seconds = 6 * 3_600.0

    def reset(self, rules: RuleSet) -> None:
        super().reset(rules)
        self._waiting: dict[str, datetime] = {}  # fingerprint -> when a likely link is given up

    def evaluated(
        self,
        context: EvaluationContext,
        subject: Subject,
        again_at: datetime | None,
        *,
        is_changed: bool,
    ) -> None:
        if is_changed:
            # With another memory a rule may answer otherwise, though nothing else has changed.
            again_at = context.as_of(subject)
        super().evaluated(context, subject, again_at, is_changed=is_changed)

    def committed(self, fingerprint: str, instance: AlertInstance | None) -> None:
        super().committed(fingerprint, instance)
        self._waiting.pop(fingerprint, None)
        if instance is not None and instance.is_open:
            until = [each.until for each in instance.inhibited_by if each.until is not None]
            self._waiting |= {fingerprint: min(until)} if until else {}

    def next_evaluation(self) -> NextEvaluation:
        if self._is_new or self.touched:
            return NextEvaluation(ours=NOW)
        ours = [self._alert_timers.next_at()]
        theirs: list[datetime | None] = []
        for (_, run_kind), timers in self._timers.items():
            (theirs if run_kind else ours).append(timers.next_at())
        return NextEvaluation(
            ours=min((at for at in ours if at is not None), default=None),
            theirs=min((at for at in theirs if at is not None), default=None),
        )

    def next_link_at(self) -> datetime | None:
        """Return when the first alert that waits for a likely link waits no longer (ours)."""
        return min(self._waiting.values(), default=None)

    def _of_alerts(self, context: EvaluationContext) -> Iterator[Subject]:
        # What only events change was evaluated when the newest of them was handled.
        return super()._of_alerts(context) if self._is_new else iter(())

    def _are_schedules_new(self, before: SlowReads, status: WorkspaceStatus) -> bool:
        return before.schedules is not status.schedules


class PartOfPlan(Struct, frozen=True, kw_only=True, gc=False):
    """A run inside a plan run, as it is known today: both are read after its events were made."""

    key: RunKey
    created_at: datetime | None


Parts = Mapping[RunKey, Sequence[PartOfPlan]]  # by plan run


class HealthTracker(Protocol):
    """Keeps the pipelines' health in a live state, as the observer's tracker does."""

    def learn(self, runs: Iterable[RunState], before: Mapping[RunKey, RunState]) -> None:
        """Take over what runs say of their pipelines' health."""


class ReplayClock:
    """Stands at the time that is replayed."""

    def __init__(self, start: datetime) -> None:
        self._start = start
        self._now = start

    def now(self) -> datetime:
        return self._now

    def monotonic(self) -> float:
        return (self._now - self._start).total_seconds()

    async def sleep(self, seconds: float) -> None:
        """Return at once: no other task waits for a turn."""

    def move(self, at: datetime) -> None:
        self._now = max(self._now, at)


class CheckingTimeline(Timeline):
    """The daemon's timeline, with all alerts checked at each interval: the same, and slower."""

    async def alerts(self, context: EvaluationContext) -> Collection[str]:
        return context.pending.keys(ALERT)


class Replay:
    """A store, a live state and an engine of their own, from ``start`` on.

    The engine evaluates only when something may be due. With ``every_interval`` it evaluates at
    each interval, as a daemon does: the same alerts, much slower. Alerts go to ``store``.
    ``known_until`` returns until when everything was known of a workspace at a time.
    """

    def __init__(
        self,
        settings: AlertingSettings,
        *,
        workspaces: Sequence[WorkspaceStatus],
        start: datetime,
        store: ReplayStore,
        known_until: Callable[[str, datetime], datetime],
        health_tracker: Callable[[LiveState], HealthTracker],
        parts: Parts = NO_PARTS,
        every_interval: bool = False,
    ) -> None:
        self._store = store
        self._known_until = known_until
        self._parts = parts
        self._created_at = {part.key: part.created_at for some in parts.values() for part in some}
        self._clock = ReplayClock(start)
        self._live_state = LiveState([status.workspace for status in workspaces])
        for status in workspaces:
            self._live_state.workspaces[status.workspace] = replace(
                status, reachability=Reachability.REACHABLE, since=start, known_at=start
            )
        self._health_tracker = health_tracker(self._live_state)
        self._timeline = RecordedTimeline(self._live_state.view)
        self._engine = Engine(
            bus=store,
            view=self._live_state.view,
            clock=self._clock,
            settings=recorded_rules(settings),
            retention=Retention(),
            guard=_unguarded,
            timeline=CheckingTimeline(self._live_state.view) if every_interval else self._timeline,
        )
        self._batch_seconds = _batch_seconds(settings)
        self._interval = timedelta(seconds=settings.evaluation_interval_seconds)
        self._every_interval = every_interval
        self._runs: dict[RunKey, RunState] = {}
        self._snapshot: AlertingSnapshot | None = None

    async def begin(self) -> None:
        await self._engine.restore()

    async def replay(self, events: Sequence[Recorded]) -> None:
        """Replay the next events; recorded alerts are left out."""
        for first, last in _batches(events, self._batch_seconds):
            batch = [recorded.event for recorded in events[first:last]]
            for at, committed in groupby(batch, key=_recorded_at):
                await self._pass_time(at)
                logged = list(committed)
                await self._record(
                    [self._filled(each) for each in logged if not isinstance(each, AlertEvent)]
                )
                if self._has_released_alerts():
                    await self._evaluate()
            await self._evaluate()
        await asyncio.sleep(0)  # lets a signal cancel it

    async def finish(self, at: datetime) -> None:
        """Let time pass until ``at``, up to which everything is known."""
        await self._pass_time(at)

    async def _pass_time(self, to: datetime) -> None:
        known_until = max(self._known_until(name, to) for name in self._live_state.workspaces)
        while (at := self._next_evaluation(known_until)) is not None and at < to:
            self._clock.move(at)
            await self._evaluate()

    def _has_released_alerts(self) -> bool:
        """True where an alert waits for one that has ended; a daemon's next cycle fires it."""
        snapshot = self._engine.snapshot()
        if snapshot is self._snapshot:
            return False
        self._snapshot = snapshot
        waiting = [alert for alert in snapshot.alerts if alert.muted_by and not alert.ends_at]
        open_alerts = {alert.fingerprint for alert in snapshot.alerts if not alert.ends_at}
        return any(
            reason.startswith(PREFIX) and reason.removeprefix(PREFIX) not in open_alerts
            for alert in waiting
            for reason in alert.muted_by
        )

    def _next_evaluation(self, known_until: datetime) -> datetime | None:
        """Return when something may be due next; None: not before the next event."""
        now = self._clock.now()
        if self._every_interval:
            return now + self._interval
        timers = self._engine.next_evaluation()
        times = [] if timers.ours is None else [timers.ours]
        if timers.theirs is not None and timers.theirs <= known_until:
            times.append(timers.theirs)
        times = [at if at > now else now + _RETRY for at in times]
        if (link_at := self._timeline.next_link_at()) is not None and link_at > now:
            times.append(link_at)
        if not times:
            return None
        return now - (now - min(times)) // self._interval * self._interval  # rounded up

    async def _evaluate(self) -> None:
        for workspace in self._live_state.workspaces:
            known_until = self._known_until(workspace, self._clock.now())
            for kind in RunKind:
                self._live_state.confirm(
                    workspace, kind, self._clock.now(), complete_at=known_until
                )
            # As if schedules were read all the time: they are evaluated as they are today.
            self._live_state.update_workspace(
                workspace, known_at=self._clock.now(), schedules_read_at=known_until
            )
        await self._engine.evaluate()

    async def _record(self, events: Sequence[Event]) -> None:
        """Let events of one commit be handled, as of what was known then and not later."""
        if not events:
            return
        self._clock.move(events[-1].recorded_at)
        await self._store.record(events)
        of_runs = [event for event in events if isinstance(event, RunEvent)]
        runs = {event.run.key: event.run for event in of_runs}
        self._health_tracker.learn(runs.values(), self._runs)
        for event in of_runs:
            self._learn(event)
        for event in of_runs:
            if event.run.status.is_terminal and (parts := self._parts.get(event.run.key)):
                await self._link(event.run.key, parts)
        while await self._engine.take_some():
            pass

    def _filled(self, event: Event) -> Event:
        """Return an event with what was read of its run before the next one, as is known today."""
        if not isinstance(event, RunEvent) or event.run.created_at is not None:
            return event
        created_at = self._created_at.get(event.run.key)
        if created_at is None:
            return event
        return replace(event, run=replace(event.run, created_at=created_at))

    async def _link(self, plan_run: RunKey, parts: Sequence[PartOfPlan]) -> None:
        keys = {part.key for part in parts}
        await self._store.link(plan_run, keys)
        active = self._live_state.active
        for key in active.keys() & keys:
            run = active[key].run
            if run.parents.plan_run is None:
                parents = replace(run.parents, plan_run=plan_run.id)
                active[key] = replace(active[key], run=replace(run, parents=parents))

    def _learn(self, event: RunEvent) -> None:
        run, key, pipeline = event.run, event.run.key, event.run.pipeline
        if pipeline is not None:
            self._live_state.name_pipeline(key.workspace, pipeline.kind, pipeline.id, pipeline.name)
        if run.unconfirmed_end is not None:
            # The workspace itself has not reported an end: the run stays active until it does.
            run = replace(run, status=event.before or Status.RUNNING)
        if run.status.is_terminal:
            self._live_state.active.pop(key, None)
            self._runs.pop(key, None)
            return
        self._runs[key] = run
        self._live_state.active[key] = ActiveRun(
            run=run, confirmed_at=event.recorded_at, confirmed_by=event.observed_by
        )


def recorded_rules(settings: AlertingSettings) -> AlertingSettings:
    """Return the settings without silences, and without rules about what no log holds."""
    recorded = [rule for rule in settings.rules if not RULE_DEFINITIONS[rule.rule].not_recorded]
    return replace(settings, rules=tuple(recorded), silences=())


def _batch_seconds(settings: AlertingSettings) -> float:
    waits = [rule.for_seconds for rule in settings.rules if rule.for_seconds > 0]
    shortest = min(waits, default=4 * _MOST_SECONDS)
    return max(_LEAST_SECONDS, min(_MOST_SECONDS, shortest / 4))


def _batches(events: Sequence[Recorded], seconds: float) -> Iterator[tuple[int, int]]:
    """Yield the first index of each batch and the one after its last."""
    first = 0
    for index, recorded in enumerate(events):
        begun = events[first].event.recorded_at
        if (recorded.event.recorded_at - begun).total_seconds() > seconds:
            yield first, index
            first = index
    if events:
        yield first, len(events)


def _recorded_at(event: Event) -> datetime:
    return event.recorded_at


def _unguarded(
    name: str,  # noqa: ARG001 - a Guard
    call: Callable[[], Any],
    on_failure: Callable[[str], None],  # noqa: ARG001
) -> Any:
    """Let a rule that raises end the backtest."""
    return call()

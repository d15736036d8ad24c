"""Attributes each event once: own subject, root run and its subject, related runs.

`Lineage` finds the runs that contain a run, up to its root run, as far as they are known.
Routing, inhibitors and the rules read the answer and ask nothing again. A failure counts for its
root run as known now: links become known late, and what was decided before them stands.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

import msgspec
from msgspec import Struct

from monitor.alerting.alerting_store import Store
from monitor.alerting.alerts.firing_runs import FiringRuns
from monitor.alerting.attribution.subjects import RuleKeys, of_run
from monitor.alerting.rules.compiled import Rule
from monitor.alerting.rules.contract import EventInput, Subject
from monitor.model.bounded_memory import BoundedMemory
from monitor.model.ends import run_end
from monitor.model.events import EventType, RunEvent
from monitor.model.runs import (
    Parents,
    Pipeline,
    PipelineKind,
    RunKey,
    RunKind,
    RunState,
    Status,
    Trigger,
)
from monitor.model.slices import in_slices
from monitor.tracking.live_state import LiveStateView

NEEDED_CAPABILITIES = {RunKind.FLOW_RUN: "follow_flow_runs", RunKind.PLAN_RUN: "list_plan_runs"}
# A run can be a part of runs of a larger size.
SIZES = {RunKind.JOB_GROUP: 0, RunKind.FLOW_RUN: 1, RunKind.PLAN_RUN: 2}
_PARENTS_CACHED = 10_000
_LEVELS = 2
_NO_PARENTS = Parents()
_RAN_FOR_PLAN = "plan"  # why a job group ran, in the workspace's word
BAD_ENDS = (EventType.RUN_FAILED, EventType.RUN_CANCELED, EventType.RUN_LOST)
_COMPARED_AT_ONCE = 3  # ended runs of a batch, each with up to 400 others at 2 us
_BAD = (Status.FAILED, Status.CANCELED, Status.LOST)


class RootRun(Struct, frozen=True, kw_only=True):
    """A run of a lineage. ``run`` is its own state where that is known."""

    key: RunKey
    pipeline: Pipeline | None
    run: RunState | None


class Lineage:
    """Finds the runs that contain a run, in the live state and in the store."""

    def __init__(self, *, bus: Store, view: LiveStateView) -> None:
        self._bus = bus
        self._view = view
        self._parents: BoundedMemory[RunKey, RunState] = BoundedMemory(_PARENTS_CACHED)

    async def prepare(self, runs: Iterable[RunState]) -> None:
        """Read the parents of these runs, up to 40,000, with one query for each level.

        A cancelled call has cached some of them, which does no harm.

        Raises:
            BusUnavailableError: the store does not answer.
        """
        children = [run async for run in in_slices(runs) if run.parents != _NO_PARENTS]
        for _ in range(_LEVELS):
            parents: set[RunKey] = set()
            async for run in in_slices(children):
                parents.update(self._parent_keys(run))
            if not parents:
                return
            stored: set[RunKey] = set()
            async for key in in_slices(parents):
                if (active := self._view.active_run(key)) is None:
                    stored.add(key)
                else:  # it may end, and be active no more, before `line` is asked for it
                    self._parents.put(key, active.run)
            if stored:
                for key, run in (await self._bus.runs(stored)).items():
                    self._parents.put(key, run)
            found = [self._state(key) async for key in in_slices(parents)]
            children = [run for run in found if run is not None]

    def line(self, run: RunState) -> tuple[RootRun, ...]:
        """Return the run and the runs that contain it, the root run last.

        A parent that is known by its id alone is left out: an alert must say what failed. So is
        one that was never observed and cannot be followed: its end would not be seen.
        """
        own = RootRun(key=run.key, pipeline=run.pipeline, run=run)
        if run.parents == _NO_PARENTS:
            return (own,)
        keys = dict.fromkeys(self._parent_keys(run))
        for key in list(keys):
            state = self._state(key)
            if key.kind is RunKind.FLOW_RUN and state is not None:
                keys |= dict.fromkeys(self._parent_keys(state))
        line = [own]
        for key in sorted(keys, key=lambda key: SIZES[key.kind]):
            state = self._state(key)
            if state is None and not self._may_follow(key):
                continue
            pipeline = state.pipeline if state is not None else None
            if pipeline is None and key.kind is RunKind.FLOW_RUN:
                pipeline = run.pipeline  # a job group runs in a flow run of its own flow
            if pipeline is not None:
                line.append(RootRun(key=key, pipeline=pipeline, run=state))
        return tuple(line)

    def _parent_keys(self, run: RunState) -> list[RunKey]:
        """Return the reported parents."""
        parents = run.parents
        return [
            RunKey(run.key.workspace, kind, run_id)
            for kind, run_id in (
                (RunKind.FLOW_RUN, parents.flow_run),
                (RunKind.PLAN_RUN, parents.plan_run),
            )
            if run_id is not None
        ]

    def _may_follow(self, key: RunKey) -> bool:
        """True where runs of that kind can be followed, or that was not probed yet."""
        status = self._view.workspace(key.workspace)
        if status is None:
            return False
        return status.edition is None or NEEDED_CAPABILITIES[key.kind] in status.capabilities

    def _state(self, key: RunKey) -> RunState | None:
        active = self._view.active_run(key)
        return active.run if active is not None else self._parents.get(key)


def are_likely_related(first: RunState, second: RunState) -> bool:
    """True where the smaller run has no known parent, and began while the larger run ran."""
    smaller, larger = sorted((first, second), key=lambda run: SIZES[run.key.kind])
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
    """True where the workspace reports that a plan started it, if not which."""
    return run.trigger is Trigger.PLAN or run.ran_for == _RAN_FOR_PLAN


class RelatedRuns(Struct, frozen=True, kw_only=True):
    """Which runs with an open alert are about the same trouble as the root run of an event."""

    inside: frozenset[RunKey] = frozenset()  # inside a run of the same pipeline, all levels
    likely: frozenset[RunKey] = frozenset()  # not linked, but likely inside it or around it
    plans: tuple[Subject, ...] = ()  # one of whose active runs must contain it


class Attribution(Struct, frozen=True, kw_only=True):
    """What the event of a run is about. ``line``: the run first, its root run last."""

    event: RunEvent
    line: tuple[RootRun, ...]
    own: Subject  # the run's own pipeline
    root: Subject  # the root run's pipeline; the same object where it is the run itself
    root_run: RunKey
    related: RelatedRuns | None = None  # only for ends

    @property
    def is_inside(self) -> bool:
        """True where the run is inside another one."""
        return self.root is not self.own

    @property
    def plan(self) -> str | None:
        """The name of the plan that the run is of, or inside of, as far as it is known."""
        pipelines = (run.pipeline for run in reversed(self.line))
        return next(
            (
                pipeline.name or pipeline.id
                for pipeline in pipelines
                if pipeline is not None and pipeline.kind is PipelineKind.PLAN
            ),
            None,
        )


class RuleTarget(Struct, frozen=True, kw_only=True):
    """One rule and one subject; ``event_input`` None: evaluate its state now."""

    rule: Rule
    subject: Subject
    keys: RuleKeys
    event_input: EventInput | None = None
    preexisting: bool = False  # it ended before the rule was first evaluated
    attribution: Attribution | None = None  # of the event, where it was routed

    @property
    def event(self) -> RunEvent | None:
        return None if self.event_input is None else self.event_input.event


class Attributor:
    """Reads what is needed for a batch of events, and attributes each of them."""

    def __init__(
        self, *, lineage: Lineage, firing: FiringRuns, view: LiveStateView, bus: Store
    ) -> None:
        self._lineage = lineage
        self._firing = firing
        self._view = view
        self._bus = bus

    async def attribute(self, events: Sequence[RunEvent]) -> list[Attribution]:
        """Return the attribution of each event, late failures by when they happened.

        A cancelled call leaves nothing.

        Raises:
            BusUnavailableError: the store does not answer.
        """
        if not events:
            return []
        events = _late_failures_in_order(events)
        runs = await self._with_parents_known_now([event.run for event in events])
        await self._lineage.prepare(runs)
        lines = [self._lineage.line(run) for run in runs]
        ended: dict[RunKey, RunState] = {}
        failed: set[RunKey] = set()
        for event, line in zip(events, lines, strict=True):
            if event.run.status.is_terminal:
                root = line[-1]  # of some only id and pipeline are known
                ended[root.key] = root.run or msgspec.structs.replace(
                    event.run, key=root.key, pipeline=root.pipeline, parents=_NO_PARENTS
                )
                if event.run.status in _BAD:
                    failed.add(root.key)
        related = await self._related(ended, failed) if ended else {}
        return [
            _attribution(event, line, related) for event, line in zip(events, lines, strict=True)
        ]

    async def _with_parents_known_now(self, runs: Sequence[RunState]) -> list[RunState]:
        """Return the runs, failed ones with the plan run that became known after their event."""
        unlinked = {
            run.key
            for run in runs
            if run.status in _BAD
            and run.key.kind is not RunKind.PLAN_RUN
            and run.parents.plan_run is None
        }
        known = await self._bus.runs(unlinked) if unlinked else {}
        return [
            msgspec.structs.replace(run, parents=known[run.key].parents)
            if run.key in known
            else run
            for run in runs
        ]

    async def _related(
        self, ended: Mapping[RunKey, RunState], failed: set[RunKey]
    ) -> dict[RunKey, RelatedRuns]:
        """Return the related runs of ended root runs; those without any are left out."""
        batch = FiringRuns(ended[key] for key in failed) if len(failed) > 1 else None
        candidates: dict[RunKey, list[RunKey]] = {}
        stored: set[RunKey] = set()
        for key, run in ended.items():
            if key in failed:
                others = [*(batch.candidates(run) if batch else ()), *self._firing.candidates(run)]
            else:
                others = self._firing.parts(run)
            candidates[key] = others
            stored.update(others)
        plans = self._plans_around([ended[key] for key in failed])
        if not stored and not any(plans.values()):
            return {}
        states = {**await self._bus.runs(stored - ended.keys()), **ended}
        await self._lineage.prepare([states[key] for key in stored if key in states])
        found: dict[RunKey, RelatedRuns] = {}
        async for key, run in in_slices(ended.items(), size=_COMPARED_AT_ONCE):
            known = [states[other] for other in candidates[key] if other in states]
            inside = frozenset(part for other in known for part in self._line_inside(other, run))
            likely = frozenset(
                other.key
                for other in known
                if key in failed and other.key not in inside and are_likely_related(run, other)
            )
            related = RelatedRuns(inside=inside, likely=likely, plans=plans.get(key, ()))
            if related != RelatedRuns():  # else every alert would be compared with it in vain
                found[key] = related
        return found

    def _plans_around(self, runs: Sequence[RunState]) -> dict[RunKey, tuple[Subject, ...]]:
        """Return the plans with an active run that may contain each run which a plan started."""
        started = [
            run
            for run in runs
            if run.key.kind is not RunKind.PLAN_RUN and is_of_a_plan(run) and run.created_at
        ]
        active = {
            workspace: [
                active.run
                for active in self._view.active_runs(workspace)
                if active.run.key.kind is RunKind.PLAN_RUN
            ]
            for workspace in {run.key.workspace for run in started}
        }
        return {
            run.key: tuple(
                of_run(plan_run.key, plan_run.pipeline)
                for plan_run in active[run.key.workspace]
                if plan_run.created_at is not None
                and run.created_at is not None
                and plan_run.created_at <= run.created_at
            )
            for run in started
        }

    def _line_inside(self, part: RunState, whole: RunState) -> tuple[RunKey, ...]:
        """Return a run and what contains it, as far as that is inside a run of the pipeline."""
        if not self.is_inside(part, whole):
            return ()
        line = self._lineage.line(part)
        return tuple(run.key for run in line if SIZES[run.key.kind] < SIZES[whole.key.kind])

    def is_inside(self, part: RunState, whole: RunState) -> bool:
        """True where a run is inside any run of the other one's pipeline, as far as it is known.

        The parents of ``part`` must have been prepared.
        """
        kind, pipeline = whole.key.kind, whole.pipeline
        if SIZES[part.key.kind] >= SIZES[kind] or pipeline is None:
            return False
        return any(
            run.key.kind is kind
            and (run.key == whole.key or (run.pipeline and run.pipeline.id == pipeline.id))
            for run in self._lineage.line(part)[1:]
        )

    async def states(self, keys: Iterable[RunKey]) -> dict[RunKey, RunState]:
        """Return runs as the store has them, with their parents prepared.

        Raises:
            BusUnavailableError: the store does not answer.
        """
        runs = await self._bus.runs(set(keys))
        await self._lineage.prepare(runs.values())
        return runs


def _attribution(
    event: RunEvent, line: tuple[RootRun, ...], related: Mapping[RunKey, RelatedRuns]
) -> Attribution:
    run, root_run = event.run, line[-1]
    own = of_run(run.key, run.pipeline)
    root = of_run(root_run.key, root_run.pipeline) if len(line) > 1 else own
    return Attribution(
        event=event,
        line=line,
        own=own,
        root=root,
        root_run=root_run.key,
        related=related.get(root_run.key) if run.status.is_terminal else None,
    )


def _late_failures_in_order(events: Sequence[RunEvent]) -> list[RunEvent]:
    """Return the events of a batch with their failures by when they happened.

    Failures that were over when they were seen then make one alert, from the first of them. The
    events of one run stay in their order.
    """
    last = {event.run.key: at for at, event in enumerate(events)}
    places = [
        at
        for at, event in enumerate(events)
        if event.type is EventType.RUN_FAILED and last[event.run.key] == at
    ]
    failures = sorted((events[place] for place in places), key=_ended_order)
    ordered = list(events)
    for place, event in zip(places, failures, strict=True):
        ordered[place] = event
    return ordered


def _ended_order(event: RunEvent) -> datetime:
    end = run_end(event.run)
    return event.recorded_at if end is None else end.at

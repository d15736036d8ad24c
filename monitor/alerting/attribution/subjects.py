"""Whom a run's events concern: the outermost run that it is known to be a part of."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from functools import lru_cache
from types import MappingProxyType
from urllib.parse import quote

from msgspec import Struct

from monitor.alerting.rules.compiled import Traits
from monitor.alerting.rules.contract import Subject, SubjectKind
from monitor.alerting.store import Store
from monitor.model.live_state import ScheduleKnown
from monitor.model.runs import Pipeline, PipelineKind, RunKey, RunKind, RunState
from monitor.tracking.live_state import LiveStateView

# A parent counts only where the workspace lets it be followed: else its end would never be seen.
NEEDS = {RunKind.FLOW_RUN: "follow_flow_runs", RunKind.PLAN_RUN: "list_plan_runs"}
_PARENTS_KEPT = 10_000
_KEYS_KEPT = 65_536
_OF_PIPELINES = frozenset({SubjectKind.PIPELINE, SubjectKind.FLOW_OR_PLAN})
_UNKNOWN = Pipeline(kind=PipelineKind.FLOW, id="")

ROOT_KINDS = MappingProxyType(
    {
        PipelineKind.FLOW: RunKind.FLOW_RUN,
        PipelineKind.PLAN: RunKind.PLAN_RUN,
    }
)


class RootRun(Struct, frozen=True, kw_only=True):
    """The outermost known run. ``run`` is its own state where that is known."""

    key: RunKey
    pipeline: Pipeline | None
    run: RunState | None


class Lineage:
    """Climbs from a run to the outermost one, by what is known of the runs above it."""

    def __init__(self, *, bus: Store, view: LiveStateView) -> None:
        self._bus = bus
        self._view = view
        self._parents: OrderedDict[RunKey, RunState] = OrderedDict()

    async def prepare(self, runs: Iterable[RunState]) -> None:
        """Learn of the runs above these, with one question for each level.

        Raises:
            BusUnavailableError: the store does not answer.
        """
        below = runs
        for _ in range(2):
            wanted = {above for run in below for above in self._above(run)}
            asked = {key for key in wanted if self._view.active_run(key) is None}
            if asked:
                for key, run in (await self._bus.runs(asked)).items():
                    self._keep(key, run)
            found = (self._state(key) for key in wanted)
            below = [run for run in found if run is not None]
            if not below:
                return

    def root_run(self, run: RunState) -> RootRun:
        """Return the run above all that is known, perhaps itself."""
        return self.line(run)[-1]

    def line(self, run: RunState) -> list[RootRun]:
        """Return the run and what it is known to be a part of, the outermost last.

        Where only the id of a larger one is known, it counts for nothing: an alert must say what
        failed.
        """
        line = [RootRun(key=run.key, pipeline=run.pipeline, run=run)]
        above = dict.fromkeys(self._above(run))
        for key in list(above):
            state = self._state(key)
            if key.kind is RunKind.FLOW_RUN and state is not None:
                above |= dict.fromkeys(self._above(state))
        for key in sorted(above, key=lambda item: item.kind is RunKind.PLAN_RUN):
            state = self._state(key)
            pipeline = state.pipeline if state is not None else None
            if pipeline is None and key.kind is RunKind.FLOW_RUN:
                pipeline = run.pipeline  # a job group runs in a flow run of its own flow
            if pipeline is not None:
                line.append(RootRun(key=key, pipeline=pipeline, run=state))
        return line

    def _above(self, run: RunState) -> list[RunKey]:
        """Return the runs that are told to contain it, and that can be followed."""
        told = (
            (RunKind.FLOW_RUN, run.parents.flow_run),
            (RunKind.PLAN_RUN, run.parents.plan_run),
        )
        return [
            RunKey(run.key.workspace, kind, run_id)
            for kind, run_id in told
            if run_id is not None and self._is_followed(run.key.workspace, kind)
        ]

    def _is_followed(self, workspace: str, kind: RunKind) -> bool:
        status = self._view.workspace(workspace)
        return status is not None and NEEDS[kind] in status.capabilities

    def _state(self, key: RunKey) -> RunState | None:
        active = self._view.active_run(key)
        return active.run if active is not None else self._parents.get(key)

    def _keep(self, key: RunKey, run: RunState) -> None:
        self._parents[key] = run
        self._parents.move_to_end(key)
        if len(self._parents) > _PARENTS_KEPT:
            self._parents.popitem(last=False)


def of_run(key: RunKey, pipeline: Pipeline | None) -> Subject:
    """Return the pipeline as runs of that kind execute it."""
    return Subject(
        subject_kind=SubjectKind.PIPELINE, workspace=key.workspace, kind=key.kind, pipeline=pipeline
    )


def of_pipeline(workspace: str, pipeline: Pipeline) -> Subject:
    """Return the flow or plan as such. Its kind is that of the runs that schedules start.

    It is the same also where flow runs cannot be followed: identities do not change with rights.
    """
    return Subject(
        subject_kind=SubjectKind.FLOW_OR_PLAN,
        workspace=workspace,
        kind=ROOT_KINDS[pipeline.kind],
        pipeline=pipeline,
    )


def of_schedule(workspace: str, schedule: ScheduleKnown) -> Subject:
    """Return the schedule, as one of the first pipeline that it starts and that is there."""
    pipeline = next(iter((*schedule.starts, *schedule.pipelines)), None)
    return Subject(
        subject_kind=SubjectKind.SCHEDULE,
        workspace=workspace,
        kind=None if pipeline is None else ROOT_KINDS[pipeline.kind],
        pipeline=pipeline,
        thing=schedule.id,
    )


@lru_cache(_KEYS_KEPT)
def key_of(subject: Subject) -> str:
    """Return what tells a subject from all others; a new name of a pipeline changes nothing."""
    pipeline = subject.pipeline.id if subject.pipeline is not None else ""
    words = (subject.workspace, subject.kind or "", pipeline, subject.thing)
    return ":".join((subject.subject_kind, *(quote(word, safe="") for word in words)))


def traits_of(view: LiveStateView, subject: Subject, run: RunState | None = None) -> Traits:
    """Return what rules match by: of one run of the subject, or of the subject as such.

    Runs of one pipeline have owners and triggers of their own, so without a run both stay open.
    """
    pipeline = subject.pipeline
    folder = owner = None
    if pipeline is not None:
        folder, owner = view.place(subject.workspace, pipeline)
    if run is not None:
        owner = run.owner
    has_pipeline = subject.subject_kind in _OF_PIPELINES or pipeline is not None
    has_owner = has_pipeline and (
        run is not None or subject.subject_kind is not SubjectKind.PIPELINE
    )
    named = pipeline or _UNKNOWN
    name = named.name or (view.label(subject.workspace, pipeline) if pipeline is not None else "")
    return Traits(
        workspace=subject.workspace,
        kind=(subject.kind or "") if has_pipeline else None,
        pipeline=name if has_pipeline else None,
        pipeline_id=named.id if has_pipeline else None,
        folder=(folder or "") if has_pipeline else None,
        owner=(owner or "") if has_owner else None,
        trigger=run.trigger if run is not None else None,
    )

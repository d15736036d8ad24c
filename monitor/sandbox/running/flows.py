"""Runs a flow: its recipes run as job groups, each after those it builds upon."""

from __future__ import annotations

from dataclasses import dataclass, field

from monitor.sandbox.running.destinations import FlowOverrides
from monitor.sandbox.running.jobs import JobGroups
from monitor.sandbox.running.states import RunContext, summed_up
from monitor.sandbox.world.records.objects import Flow, Recipe
from monitor.sandbox.world.records.runs import FlowRun, JobGroup, NativeStatus, RanFor, RanFrom, Run


class NothingToRunError(ValueError):
    """A flow without outputs, or a plan without nodes or with missing flows."""


@dataclass(slots=True, kw_only=True)
class _Progress:
    """What is still to come in one flow run."""

    flow_run: FlowRun
    by: int
    ran_for: RanFor
    fires_webhooks: bool
    overrides: FlowOverrides
    is_scheduled: bool  # whether the scheduled outputs are made
    remaining: dict[int, Recipe]
    chosen: frozenset[int]  # recipe ids; what a recipe builds upon beside them is taken as done
    complete: set[int] = field(default_factory=set)  # recipe ids
    active: set[int] = field(default_factory=set)  # job group ids
    handing_over: int = 0  # job groups that are about to appear
    is_stopping: bool = False
    ends: list[NativeStatus] = field(default_factory=list)


class FlowRuns:
    """Makes flow runs and lets their job groups appear, one after the other."""

    def __init__(self, context: RunContext, job_groups: JobGroups) -> None:
        self._context = context
        self._world, self._states, self._tasks = context.world, context.states, context.tasks
        self._job_groups = job_groups
        self._progress: dict[int, _Progress] = {}
        self._states.begun.append(self._on_begun)
        self._states.ended.append(self._on_ended)

    def start(
        self,
        flow: Flow,
        *,
        by: int,
        ran_from: RanFrom = RanFrom.API,
        recipe_ids: tuple[int, ...] | None = None,
        plan_run_id: int | None = None,
        schedule_execution_id: int | None = None,
        request_id: str | None = None,
        fires_webhooks: bool = True,
        overrides: FlowOverrides | None = None,
    ) -> FlowRun:
        """Run all outputs of a flow, or those of the named recipes.

        The job groups that wait for nothing exist on return; others appear later. A
        ``schedule_execution_id`` makes the scheduled outputs, for any starter of the run.

        Raises:
            NothingToRunError: no chosen recipe of the flow has an output.
        """
        recipes = self._runnable(flow, recipe_ids)
        flow_run = self._world.create(
            FlowRun,
            by=by,
            flow_id=flow.id,
            ran_from=ran_from,
            plan_run_id=plan_run_id,
            schedule_execution_id=schedule_execution_id,
            request_id=request_id,
        )
        self._states.create(flow_run)
        progress = _Progress(
            flow_run=flow_run,
            by=by,
            ran_for=RanFor.RECIPE if plan_run_id is None else RanFor.PLAN,
            fires_webhooks=fires_webhooks,
            overrides=overrides or FlowOverrides(),
            is_scheduled=ran_from is RanFrom.SCHEDULE or schedule_execution_id is not None,
            remaining={recipe.id: recipe for recipe in recipes},
            chosen=frozenset(recipe.id for recipe in recipes),
        )
        self._progress[flow_run.id] = progress
        for recipe in self._take_ready(progress):
            self._start_job_group(progress, recipe)
        return flow_run

    def stop(self, flow_run: FlowRun, *, keep_working: bool) -> None:
        """Start nothing more; cancel what is active, unless it is to ``keep_working``."""
        progress = self._progress.get(flow_run.id)
        if progress is None:
            return
        progress.is_stopping = True
        progress.ends.append(NativeStatus.CANCELED)
        if not keep_working:
            for job_group in self._world.job_groups_of(flow_run):
                self._job_groups.cancel(job_group)

    def _runnable(self, flow: Flow, recipe_ids: tuple[int, ...] | None) -> list[Recipe]:
        recipes = [
            recipe
            for recipe in self._world.recipes_of(flow.id)
            if (recipe_ids is None or recipe.id in recipe_ids) and self._world.outputs_of(recipe.id)
        ]
        if not recipes:
            raise NothingToRunError(f"flow {flow.id} has no output to run")
        return recipes

    @staticmethod
    def _take_ready(progress: _Progress) -> list[Recipe]:
        """Remove and return the recipes that wait for nothing that is still to be completed.

        One that builds upon a recipe which did not complete stays, and never runs.
        """
        ready = [
            recipe
            for recipe in progress.remaining.values()
            if progress.complete.issuperset(progress.chosen.intersection(recipe.upstream_ids))
        ]
        for recipe in ready:
            del progress.remaining[recipe.id]
        return ready

    def _start_job_group(self, progress: _Progress, recipe: Recipe) -> None:
        flow_run = progress.flow_run
        overrides = progress.overrides.of(recipe)
        profiling = overrides.profiler
        if profiling is None:
            outputs = self._world.outputs_of(recipe.id)
            profiling = any(output.profiler for output in outputs)
        job_group = self._job_groups.start(
            recipe,
            by=progress.by,
            ran_from=flow_run.ran_from,
            ran_for=progress.ran_for,
            profiling=profiling,
            overrides=overrides,
            flow_run_id=flow_run.id,
            plan_run_id=flow_run.plan_run_id,
            fires_webhooks=progress.fires_webhooks,
            is_scheduled=progress.is_scheduled,
        )
        flow_run.job_group_ids.append(job_group.id)
        flow_run.updated_at = job_group.created_at
        progress.active.add(job_group.id)

    def _on_begun(self, run: Run) -> None:
        if isinstance(run, JobGroup) and run.flow_run_id in self._progress:
            self._states.begin(self._progress[run.flow_run_id].flow_run)

    def _on_ended(self, run: Run) -> None:
        if isinstance(run, FlowRun):
            self._progress.pop(run.id, None)
        elif isinstance(run, JobGroup) and run.flow_run_id in self._progress:
            self._on_job_group_ended(self._progress[run.flow_run_id], run)

    def _on_job_group_ended(self, progress: _Progress, job_group: JobGroup) -> None:
        progress.active.discard(job_group.id)
        is_gone = job_group.deleted_at is not None
        progress.ends.append(NativeStatus.CANCELED if is_gone else job_group.status)
        if job_group.status is NativeStatus.COMPLETE:
            progress.complete.add(job_group.recipe_id)
            if not progress.is_stopping:
                for recipe in self._take_ready(progress):
                    self._hand_over(progress, recipe)
        if not progress.active and not progress.handing_over:
            self._tasks.begin(f"flow-run-end-{progress.flow_run.id}", lambda: self._end(progress))

    def _hand_over(self, progress: _Progress, recipe: Recipe) -> None:
        progress.handing_over += 1
        name = f"hand-over-{progress.flow_run.id}-{recipe.id}"
        self._tasks.begin(name, lambda: self._start_later(progress, recipe))

    async def _start_later(self, progress: _Progress, recipe: Recipe) -> None:
        await self._context.hand_over("flow_run", progress.flow_run.id, recipe.id)
        progress.handing_over -= 1
        if progress.is_stopping or not self._states.is_active(progress.flow_run):
            await self._end_if_over(progress)
        else:
            self._start_job_group(progress, recipe)

    async def _end_if_over(self, progress: _Progress) -> None:
        if not progress.active and not progress.handing_over:
            await self._end(progress)

    async def _end(self, progress: _Progress) -> None:
        # The workspace sums a flow run up a while after its last job group: for that time every
        # job group is over and the flow run is not.
        await self._context.hand_over("flow_run", progress.flow_run.id, "end")
        self._states.end(progress.flow_run, summed_up(progress.ends))

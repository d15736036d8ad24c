"""The steps that runs take: each one stamps the run, goes into the ledger and is published."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from monitor.sandbox.running.tasks import Tasks
from monitor.sandbox.settings import WorkSettings
from monitor.sandbox.world.ledger import DELETED, Ledger
from monitor.sandbox.world.records.runs import FlowRun, JobGroup, NativeStatus, PlanSnapshotRun, Run
from monitor.sandbox.world.shelves import World

Listener = Callable[[Run], None]


class States:
    """Moves runs from state to state; nothing else writes their status.

    ``begun`` and ``ended`` are called at once, inside the step; a deleted run ends too.
    """

    def __init__(self, world: World, ledger: Ledger, *, runs_kept: int) -> None:
        self.begun: list[Listener] = []
        self.ended: list[Listener] = []
        self._world = world
        self._ledger = ledger
        self._runs_kept = runs_kept
        self._over: dict[type[Run], deque[int]] = {
            FlowRun: deque(),
            JobGroup: deque(),
            PlanSnapshotRun: deque(),
        }
        self._waiters: dict[tuple[type[Run], int], asyncio.Event] = {}

    @staticmethod
    def is_active(run: Run) -> bool:
        return run.deleted_at is None and not run.status.is_over

    def create(self, run: Run) -> None:
        """Publish that a run was created."""
        self._waiters[type(run), run.id] = asyncio.Event()
        self._record(run, None, run.status)

    def begin(self, run: Run) -> None:
        """Created to InProgress; nothing for a run that is further already."""
        if not self.is_active(run) or run.status is not NativeStatus.CREATED:
            return
        self._step(run, NativeStatus.IN_PROGRESS)
        if isinstance(run, PlanSnapshotRun):
            run.started_at = run.updated_at
        for listener in self.begun:
            listener(run)

    def end(self, run: Run, status: NativeStatus) -> None:
        """Give a run its end; nothing for a run that has one."""
        if not self.is_active(run):
            return
        self._step(run, status)
        if isinstance(run, PlanSnapshotRun):
            run.finished_at = run.updated_at
        self._publish_end(run)

    def delete(self, run: Run) -> None:
        """Make a run disappear; an active one has ended by that."""
        if run.deleted_at is not None:
            return
        was_active = self.is_active(run)
        self._world.delete(run)
        if was_active:
            self._record(run, run.status, DELETED)
            self._publish_end(run)

    async def over(self, run: Run) -> None:
        """Return when the run has ended or is deleted."""
        waiter = self._waiters.get((type(run), run.id))
        if waiter is not None:
            await waiter.wait()

    def _step(self, run: Run, status: NativeStatus) -> None:
        before = run.status
        run.status = status
        run.updated_at = self._world.now()
        self._record(run, before, status)

    def _publish_end(self, run: Run) -> None:
        waiter = self._waiters.pop((type(run), run.id), None)
        if waiter is not None:
            waiter.set()
        for listener in self.ended:
            listener(run)
        over = self._over[type(run)]
        over.append(run.id)
        if len(over) > self._runs_kept:
            self._forget(type(run), over.popleft())

    def _forget(self, kind: type[Run], run_id: int) -> None:
        world = self._world
        if kind is JobGroup:
            job_group = world.job_groups.get(run_id, with_deleted=True)
            for job_id in job_group.job_ids if job_group else ():
                world.jobs.forget(job_id)
        elif kind is PlanSnapshotRun:
            for task_run in world.task_runs_of(run_id):
                world.plan_task_runs.forget(task_run.id)
        world.shelf(kind).forget(run_id)

    def _record(self, run: Run, before: NativeStatus | None, after: str) -> None:
        self._ledger.record(
            run_id=run.id,
            before=None if before is None else before.value,
            after=str(after),
            at=run.updated_at,
            ran_from=run.ran_from.value,
            **self._family(run),
        )

    def _family(self, run: Run) -> dict[str, Any]:
        if isinstance(run, PlanSnapshotRun):
            plan = self._world.plans.get(run.plan_id, with_deleted=True)
            return {
                "kind": "plan_run",
                "pipeline_kind": "plan",
                "pipeline_id": run.plan_id,
                "pipeline_name": plan.name if plan else "",
            }
        flow = self._world.flows.get(run.flow_id, with_deleted=True)
        family: dict[str, Any] = {
            "pipeline_kind": "flow",
            "pipeline_id": run.flow_id,
            "pipeline_name": flow.name if flow else "",
            "plan_run_id": run.plan_run_id,
        }
        if isinstance(run, FlowRun):
            return {"kind": "flow_run", **family}
        return {
            "kind": "job_group",
            "ran_for": run.ran_for.value,
            "recipe_id": run.recipe_id,
            "flow_run_id": run.flow_run_id,
            **family,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext:
    """What all runs share: the world, their steps, where their work happens, and its pace."""

    world: World
    states: States
    tasks: Tasks
    settings: WorkSettings

    async def pause(self, seconds: float) -> None:
        """Let work time pass."""
        await self.world.clock.sleep(seconds / self.settings.speed)

    async def hand_over(self, *step: object) -> None:
        """Let the time pass that lies between one run's end and what follows it."""
        await self.pause(self.world.random(*step).uniform(*self.settings.hand_over_seconds))


def summed_up(ends: Collection[NativeStatus]) -> NativeStatus:
    """Return the end of what consists of several: one failure fails it, else one cancel."""
    for status in (NativeStatus.FAILED, NativeStatus.CANCELED):
        if status in ends:
            return status
    return NativeStatus.COMPLETE

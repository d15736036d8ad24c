"""Makes things run: starts and cancels runs for people, programs and schedules."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from monitor.sandbox.running.destinations import FlowOverrides, RunOverrides
from monitor.sandbox.running.faults import RunFaults
from monitor.sandbox.running.flows import FlowRuns, NothingToRunError
from monitor.sandbox.running.jobs import JobGroups, Order, Outcome
from monitor.sandbox.running.plans import HttpSender, PlanRuns
from monitor.sandbox.running.states import States
from monitor.sandbox.running.tasks import PastClock, Tasks, Work
from monitor.sandbox.settings import WorkSettings
from monitor.sandbox.world.ledger import Ledger
from monitor.sandbox.world.records.objects import Flow, Plan, Recipe
from monitor.sandbox.world.records.runs import (
    FlowRun,
    JobGroup,
    PlanSnapshotRun,
    RanFor,
    RanFrom,
    Run,
)
from monitor.sandbox.world.shelves import World

__all__ = ["Engine", "NothingToRunError", "Order", "Outcome"]


class Engine:
    """Starts, cancels and ends runs. Every method answers at once; the work goes on in `run`.

    ``changed_schedules`` is to be set when a schedule was made or changed.
    """

    def __init__(self, world: World, *, ledger: Ledger, settings: WorkSettings) -> None:
        self.world = world
        self.ledger = ledger
        self.settings = settings
        self.changed_schedules = asyncio.Event()
        self._tasks = Tasks(world)
        self._states = States(world, ledger, runs_kept=settings.runs_kept)
        self._job_groups = JobGroups(world, self._states, self._tasks, settings=settings)
        self.faults = RunFaults(
            world, self._states, self._tasks, self._job_groups, settings=settings
        )
        self._flow_runs = FlowRuns(
            world, self._states, self._tasks, self._job_groups, settings=settings
        )
        self._plan_runs = PlanRuns(
            world, self._states, self._tasks, self._job_groups, self._flow_runs, settings=settings
        )

    async def run(self) -> None:
        """Let things run until cancelled. Runs may be started before."""
        await self._tasks.run()

    def live_through(self, clock: PastClock, starter: Work, *, until: datetime) -> None:
        """Let ``starter`` start runs by the past's clock, and all go as they would have gone.

        What has ended counts nowhere; what has not goes on in `run`.
        """
        self._tasks.begin("past", starter)
        self._tasks.live_through(clock, until=until)
        self.ledger.forget_ended()

    def schedules_changed(self) -> None:
        """Let the schedules be checked again, now."""
        self.changed_schedules.set()

    def on_job_group_ended(self, listener: Callable[[JobGroup], None]) -> None:
        """Call ``listener`` inside the step in which a job group ends; not for deleted ones."""

        def on_change(run: Run) -> None:
            if isinstance(run, JobGroup) and run.deleted_at is None:
                listener(run)

        self._states.ended.append(on_change)

    def send_plan_requests_by(self, sender: HttpSender) -> None:
        """Let the HTTP nodes of plans really send."""
        self._plan_runs.http_sender = sender

    def start_job_group(
        self,
        recipe: Recipe,
        *,
        by: int,
        ran_from: RanFrom = RanFrom.UI,
        ran_for: RanFor = RanFor.RECIPE,
        profiling: bool = False,
        overrides: RunOverrides | None = None,
    ) -> JobGroup:
        """Run one recipe on its own, or take a sample of it, as ``ran_for`` says."""
        return self._job_groups.start(
            recipe,
            by=by,
            ran_from=ran_from,
            ran_for=ran_for,
            profiling=profiling,
            overrides=overrides,
        )

    def start_flow_run(
        self,
        flow: Flow,
        *,
        by: int,
        ran_from: RanFrom = RanFrom.API,
        recipe_ids: tuple[int, ...] | None = None,
        schedule_execution_id: int | None = None,
        request_id: str | None = None,
        overrides: FlowOverrides | None = None,
    ) -> FlowRun:
        """Run all outputs of a flow, or those of the named recipes.

        A ``schedule_execution_id`` makes the scheduled outputs, for any starter of the run.

        The job groups that wait for nothing exist on return; others appear later.

        Raises:
            NothingToRunError: no chosen recipe of the flow has an output.
        """
        return self._flow_runs.start(
            flow,
            by=by,
            ran_from=ran_from,
            recipe_ids=recipe_ids,
            plan_run_id=None,
            schedule_execution_id=schedule_execution_id,
            request_id=request_id,
            fires_webhooks=True,
            overrides=overrides,
        )

    def start_plan_run(
        self,
        plan: Plan,
        *,
        by: int,
        ran_from: RanFrom = RanFrom.API,
        schedule_history_id: int | None = None,
        parameters: Mapping[int, Mapping[str, Any]] | None = None,
    ) -> PlanSnapshotRun:
        """Take a snapshot of a plan where it has changed, and run it.

        ``parameters`` are values by node id and override key; they win over the plan's own.

        Raises:
            NothingToRunError: the plan has no node, or a flow of it is deleted.
        """
        return self._plan_runs.start(
            plan,
            by=by,
            ran_from=ran_from,
            schedule_history_id=schedule_history_id,
            parameters=parameters or {},
        )

    def cancel_job_group(self, job_group: JobGroup, *, by: int | None = None) -> list[int]:
        """Cancel; return the ids of the jobs that this stopped, none if it was over."""
        return self._job_groups.cancel(job_group, by=by)

    def cancel_plan_run(self, plan_run: PlanSnapshotRun, *, by: int | None = None) -> None:
        """Cancel a plan run and what it runs; no effect when it is over."""
        self._plan_runs.cancel(plan_run, by=by)

    def delete_run(self, run: Run) -> None:
        """Delete a run, finished or not. An active one ends by that, without a callback."""
        self._states.delete(run)

    def edit(self, run: Run, *, by: int | None = None, **values: Any) -> None:
        """Change a run as people do afterwards, such as its name: ``updated_at`` moves.

        Raises:
            TypeError: a name is not a field of the run.
        """
        self.world.update(run, by=by, **values)

    def order(self, order: Order) -> None:
        """Decide how the next job groups that fit will go."""
        self._job_groups.order(order)

    async def over(self, run: Run) -> None:
        """Return when the run has ended or is deleted."""
        await self._states.over(run)

    async def idle(self, *, timeout_seconds: float) -> bool:
        """Return True as soon as nothing is under way, False after the time-out (real seconds)."""
        return await self._tasks.idle(timeout_seconds=timeout_seconds)

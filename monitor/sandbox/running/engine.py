"""Makes things run: starts and cancels runs for people, programs and schedules."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime
from typing import Any

from monitor.sandbox.running.faults import RunFaults
from monitor.sandbox.running.flows import FlowRuns, NothingToRunError
from monitor.sandbox.running.jobs import JobGroups, Order, Outcome
from monitor.sandbox.running.plans import HttpSender, PlanRuns
from monitor.sandbox.running.states import RunContext, States
from monitor.sandbox.running.tasks import PastClock, Tasks, Work
from monitor.sandbox.settings import WorkSettings
from monitor.sandbox.world.ledger import Ledger
from monitor.sandbox.world.records.runs import (
    JobGroup,
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
        context = RunContext(world=world, states=self._states, tasks=self._tasks, settings=settings)
        self._job_groups = JobGroups(context)
        self.faults = RunFaults(context, self._job_groups)
        self._flow_runs = FlowRuns(context, self._job_groups)
        self._plan_runs = PlanRuns(context, self._flow_runs)
        self.order = self._job_groups.order
        self.start_job_group = self._job_groups.start
        self.start_flow_run = self._flow_runs.start
        self.start_plan_run = self._plan_runs.start
        self.cancel_job_group = self._job_groups.cancel
        self.cancel_plan_run = self._plan_runs.cancel
        self.delete_run = self._states.delete
        self.over = self._states.over
        self.idle = self._tasks.idle

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

    def edit(self, run: Run, *, by: int | None = None, **values: Any) -> None:
        """Change a run as people do afterwards, such as its name: ``updated_at`` moves.

        Raises:
            TypeError: a name is not a field of the run.
        """
        self.world.update(run, by=by, **values)

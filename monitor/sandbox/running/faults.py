"""Faults of runs: some are deleted at work, and samples come in crowds."""

from __future__ import annotations

from monitor.sandbox.running.jobs import JobGroups
from monitor.sandbox.running.states import RunContext
from monitor.sandbox.world.records.runs import RanFor, RanFrom, Run

_CHECK_SECONDS = 5.0  # between two checks of a rate that is 0
_KINDS = (RanFor.SAMPLING, RanFor.REFRESH, RanFor.PENDING_DATASOURCE)


class RunFaults:
    """Deletes active runs and starts samples, as the world's options say at that moment."""

    def __init__(self, context: RunContext, job_groups: JobGroups) -> None:
        self._context = context
        self._world, self._states, self._tasks = context.world, context.states, context.tasks
        self._job_groups = job_groups
        self._is_sampling = True
        self._states.begun.append(self._on_begun)

    def stop_sampling(self) -> None:
        """Start no more samples."""
        self._is_sampling = False

    async def sample(self) -> None:
        """Start samples at their rate until stopped or cancelled."""
        chance = self._world.random("fault", "samples_per_minute")
        while self._is_sampling:
            rate = self._world.options.samples_per_minute
            await self._world.clock.sleep(60.0 / rate if rate > 0 else _CHECK_SECONDS)
            recipes = list(self._world.recipes.live())
            if rate > 0 and self._is_sampling and recipes:
                recipe = chance.choice(recipes)
                self._job_groups.start(
                    recipe,
                    by=recipe.creator_id,
                    ran_from=RanFrom.UI,
                    ran_for=chance.choice(_KINDS),
                    profiling=False,
                )

    def _on_begun(self, run: Run) -> None:
        kind = type(run).__name__
        if chance := self._world.struck("deleted_runs", kind, run.id):
            # Within the shortest work, so that the run is visible at work and never ends by itself.
            seconds = chance.uniform(0.2, 0.8) * self._context.settings.work_seconds[0]
            self._tasks.begin(f"delete-{kind}-{run.id}", lambda: self._delete(run, seconds))

    async def _delete(self, run: Run, seconds: float) -> None:
        await self._context.pause(seconds)
        if self._states.is_active(run):
            self._states.delete(run)

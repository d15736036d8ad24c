"""The people and programs that start things at a steady, seeded rate."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import TypeVar

from monitor.sandbox.running.engine import Engine, NothingToRunError
from monitor.sandbox.settings import TrafficSettings
from monitor.sandbox.world.records.objects import Recipe, Record
from monitor.sandbox.world.records.runs import RanFor, RanFrom
from monitor.sandbox.world.shelves import World

T = TypeVar("T", bound=Record)

_HOUR_SECONDS = 3_600.0
_FIRST_WAIT = 0.05  # of a usual gap: one of each kind comes soon after the start


class Traffic:
    """Starts runs until it is stopped.

    Each kind draws from a generator of its own, so what is chosen depends on the seed alone.
    """

    def __init__(self, world: World, engine: Engine, settings: TrafficSettings) -> None:
        self._world = world
        self._engine = engine
        self._settings = settings
        self._is_stopped = False

    def stop(self) -> None:
        """Start nothing more; what runs goes on."""
        self._is_stopped = True

    def kinds(self) -> dict[str, tuple[float, Callable[[random.Random], None]]]:
        """Return the kinds of what is started: how often in an hour of work, and what starts it."""
        settings = self._settings
        return {
            "flow-runs": (settings.flow_runs_per_hour, self._start_flow_run),
            "plan-runs": (settings.plan_runs_per_hour, self._start_plan_run),
            "job-groups": (settings.job_groups_per_hour, self._start_job_group),
            "samples": (settings.samples_per_hour, self._start_sample),
        }

    async def run(self) -> None:
        """Start runs until stopped or cancelled."""
        async with asyncio.TaskGroup() as group:
            for name, (rate, start) in self.kinds().items():
                if rate > 0:
                    group.create_task(self._keep_starting(name, rate, start), name=name)

    async def _keep_starting(
        self, name: str, rate: float, start: Callable[[random.Random], None]
    ) -> None:
        chance = self._world.random("traffic", name)
        usual_gap = _HOUR_SECONDS / rate / self._engine.settings.speed
        await self._world.clock.sleep(usual_gap * _FIRST_WAIT)
        while not self._is_stopped:
            active = self._engine.ledger.active(with_samples=True)
            if len(active) < self._settings.active_runs:
                start(chance)
            await self._world.clock.sleep(usual_gap * chance.uniform(0.5, 1.5))

    def _start_flow_run(self, chance: random.Random) -> None:
        flow = _one(chance, list(self._world.flows.live()))
        if flow is not None:
            try:
                self._engine.start_flow_run(flow, by=flow.creator_id, ran_from=_origin(chance))
            except NothingToRunError:
                return  # a user deleted its outputs; another one next time

    def _start_plan_run(self, chance: random.Random) -> None:
        plan = _one(chance, list(self._world.plans.live()))
        if plan is not None:
            try:
                self._engine.start_plan_run(plan, by=plan.creator_id, ran_from=_origin(chance))
            except NothingToRunError:
                return  # a user deleted one of its flows

    def _start_job_group(self, chance: random.Random) -> None:
        recipe = self._recipe(chance)
        if recipe is not None:
            self._engine.start_job_group(
                recipe,
                by=recipe.creator_id,
                ran_from=_origin(chance),
                profiling=chance.random() < 0.5,  # noqa: PLR2004 - half of them
            )

    def _start_sample(self, chance: random.Random) -> None:
        recipe = self._recipe(chance)
        if recipe is not None:
            self._engine.start_job_group(
                recipe,
                by=recipe.creator_id,
                ran_for=chance.choice([RanFor.SAMPLING, RanFor.REFRESH, RanFor.PENDING_DATASOURCE]),
            )

    def _recipe(self, chance: random.Random) -> Recipe | None:
        runnable = self._world.recipe_ids_with_outputs()
        recipes = [recipe for recipe in self._world.recipes.live() if recipe.id in runnable]
        return _one(chance, recipes)


def _one(chance: random.Random, things: Sequence[T]) -> T | None:
    return chance.choice(things) if things else None


def _origin(chance: random.Random) -> RanFrom:
    return chance.choice([RanFrom.UI, RanFrom.UI, RanFrom.API])

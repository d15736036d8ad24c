"""The parameter that a seeded world has from the start."""

from __future__ import annotations

import pytest

from monitor.sandbox.running.engine import Engine
from monitor.sandbox.settings import WorkSettings
from monitor.sandbox.world.ledger import Ledger
from monitor.sandbox.world.records.parts import PlanOverride
from monitor.sandbox.world.seeding.seed import seed_world
from monitor.sandbox.world.shelves import World
from tests.clocks import ManualClock


@pytest.mark.parametrize("with_plans", [True, False])
def test_a_seeded_flow_writes_into_the_folder_of_a_region(*, with_plans: bool) -> None:
    """Its runs put the flow's own value into their paths, and its plan has another one."""
    world = World(clock=ManualClock(), seed=3)
    seed_world(world, with_plans=with_plans, with_schedules=False)
    recipe = next(world.recipes.live())
    engine = Engine(world, ledger=Ledger(), settings=WorkSettings())

    job_group = engine.start_job_group(recipe, by=recipe.creator_id)

    (written,) = job_group.destinations.write_settings
    assert written.path == f"gs://sandbox-output/manual/north/{recipe.id}.csv"
    values = [plan_override.value for plan_override in world.shelf(PlanOverride).live()]
    assert values == ([{"variable": {"value": "south"}}] if with_plans else [])

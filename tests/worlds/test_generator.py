"""The generator: reproducible, complete, and of one piece."""

from __future__ import annotations

from tests.worlds.generator import BATCH, world
from tests.worlds.script import Ingredient


def test_a_seed_makes_one_world() -> None:
    """A seed alone reproduces a world, so that a failing one can be played again."""
    assert [world(seed) for seed in range(40)] == [world(seed) for seed in range(40)]
    assert world(1) != world(2)


def test_a_hundred_worlds_have_every_ingredient_often() -> None:
    """No ingredient is left to chance: each is in at least five of the gate's worlds."""
    worlds = [world(seed) for seed in range(100)]
    for ingredient in Ingredient:
        assert sum(ingredient in each.ingredients for each in worlds) >= 5, ingredient


def test_a_kind_that_is_left_out_changes_nothing_else() -> None:
    """Without plans the other pipelines of a world keep their runs, times and ids."""
    for seed in range(40):
        whole, rest = world(seed), world(seed, without=[Ingredient.PLANS])
        assert [group for group in whole.job_groups if group in rest.job_groups]
        assert whole.stops == rest.stops


def test_a_batch_shares_its_stops() -> None:
    """One daemon follows the worlds of a batch, so it stops in all of them at the same time."""
    for first in range(0, 100, BATCH):
        stops = {world(seed).stops for seed in range(first, first + BATCH)}
        assert len(stops) == 1


def test_facts_are_shown_after_they_happen() -> None:
    """Nothing is shown before it happens, and an end lies after its start."""
    for seed in range(100):
        made = world(seed)
        for group in made.job_groups:
            assert group.created <= group.started < group.ended <= group.end_shown_from
            assert group.created <= group.shown_from <= group.end_shown_from
        for run in made.flow_runs:
            groups = [made.group(group) for group in run.job_groups]
            assert run.ended == max(group.ended for group in groups)
            assert run.end_shown_from >= max(group.end_shown_from for group in groups)

"""Makes a world from a seed. The same seed makes the same world, in every batch.

Each world gets one ingredient by the number of its seed, so that as many seeds in a row as there
are ingredients have all of them, and some more by chance. The worlds of a batch share the stops of
their daemon.
"""

from __future__ import annotations

from collections.abc import Collection
from random import Random

from tests.worlds.deadline_scripts import add_deadlines, night_of_batch
from tests.worlds.draft import Draft
from tests.worlds.flow_scripts import add_flow_runs, add_job_groups_alone
from tests.worlds.impairment_scripts import add_impairments
from tests.worlds.plan_scripts import add_plan
from tests.worlds.schedule_scripts import add_schedule
from tests.worlds.script import NEVER, Ingredient, World
from tests.worlds.surprises import (
    add_surprises,
    clock_sets_of_batch,
    harm_of_batch,
    stops_of_batch,
)

BATCH = 10  # worlds that a daemon follows at the same time
_MOST_BY_CHANCE = 5
_FLOW_RUNS_SHARE = 0.4  # of the worlds that have no need of flow runs
# An ingredient that is nothing without another.
_NEEDS = {
    Ingredient.LATE_CHILDREN: Ingredient.PLANS,
    Ingredient.WITHDRAWN_SCHEDULES: Ingredient.SCHEDULES,
    Ingredient.SHORT_SCHEDULES: Ingredient.SCHEDULES,
    Ingredient.OTHER_PERSON: Ingredient.SCHEDULES,
}
_ALL = tuple(Ingredient)
# These come on top: what else a world has does not depend on them.
_ON_TOP = frozenset({Ingredient.DEADLINES, Ingredient.DAYLIGHT_SAVING})
_CHOSEN_FROM = tuple(ingredient for ingredient in Ingredient if ingredient not in _ON_TOP)
_DEADLINES_SHARE = 0.5
_OF_THE_BATCH = frozenset(
    {
        Ingredient.RESTARTS,
        Ingredient.OUR_CLOCK,
        Ingredient.DAMAGED_STORE,
        Ingredient.DELETED_STORE,
    }
)
# Schedules and deadlines go by the workspace's clock, and the script has none for that.
_BY_A_STEADY_CLOCK = frozenset(
    {
        Ingredient.SCHEDULES,
        Ingredient.WITHDRAWN_SCHEDULES,
        Ingredient.SHORT_SCHEDULES,
        Ingredient.OTHER_PERSON,
        Ingredient.DEADLINES,
    }
)


def world(seed: int, *, without: Collection[Ingredient] = ()) -> World:
    """Return the world of a seed; ``without`` leaves ingredients out and keeps the others."""
    random = Random(f"world {seed}")  # noqa: S311 - a reproducible world
    chosen = _chosen(random, seed)
    stops = () if Ingredient.RESTARTS in without else stops_of_batch(seed // BATCH)
    clock_sets = () if Ingredient.OUR_CLOCK in without else clock_sets_of_batch(seed // BATCH)
    draft = Draft(seed=seed, random=random, ingredients=chosen - frozenset(without))
    draft.begin("job groups alone")
    add_job_groups_alone(draft)
    if draft.has(Ingredient.FLOW_RUNS):
        draft.begin("flow runs")
        add_flow_runs(draft)
    if draft.has(Ingredient.PLANS):
        draft.begin("plans")
        add_plan(draft)
    if draft.has(Ingredient.SCHEDULES):
        draft.begin("schedules")
        add_schedule(draft)
    add_impairments(draft)
    add_surprises(draft)
    night = None if Ingredient.DAYLIGHT_SAVING in without else night_of_batch(seed // BATCH)
    if draft.has(Ingredient.DEADLINES):
        draft.begin("deadlines")
        add_deadlines(draft, night)
    ingredients = draft.ingredients | ({Ingredient.RESTARTS} if stops else frozenset())
    ingredients |= {Ingredient.OUR_CLOCK} if clock_sets else frozenset()
    ingredients |= {Ingredient.DAYLIGHT_SAVING} if night else frozenset()
    harm = harm_of_batch(seed // BATCH) if stops else None
    harm = None if harm in without else harm
    ingredients |= {harm} if harm else frozenset()
    return World(
        seed=seed,
        ingredients=tuple(ingredient for ingredient in _ALL if ingredient in ingredients),
        flows=tuple(draft.flows),
        plans=tuple(draft.plans),
        job_groups=tuple(draft.job_groups),
        flow_runs=tuple(draft.flow_runs),
        plan_runs=tuple(draft.plan_runs),
        callbacks=tuple(sorted(draft.callbacks, key=lambda callback: callback.at)),
        outages=tuple(draft.outages),
        schedules=tuple(draft.schedules),
        withdrawals=tuple(draft.withdrawals),
        short_lists=tuple(draft.short_lists),
        hidings=tuple(draft.hidings),
        page_cap=draft.page_cap,
        other_person_from=draft.other_person_from,
        workspace_clock_set=draft.workspace_clock_set,
        deadlines=tuple(draft.deadlines),
        stops=stops,
        our_clock_sets=clock_sets,
        is_store_damaged=harm is Ingredient.DAMAGED_STORE,
        store_deleted_at=stops[0].begin if harm is Ingredient.DELETED_STORE else NEVER,
        begins_at=None if night is None else night.begins_at,
    )


def _chosen(random: Random, seed: int) -> frozenset[Ingredient]:
    by_chance = random.sample(_CHOSEN_FROM, random.randint(0, _MOST_BY_CHANCE))
    chosen = {_CHOSEN_FROM[seed % len(_CHOSEN_FROM)], *by_chance}
    if random.random() < _FLOW_RUNS_SHARE:
        chosen.add(Ingredient.FLOW_RUNS)
    drawn = Random(f"deadlines of world {seed}").random()  # noqa: S311 - a reproducible world
    if drawn < _DEADLINES_SHARE or night_of_batch(seed // BATCH) is not None:
        chosen.add(Ingredient.DEADLINES)
    chosen |= {_NEEDS[ingredient] for ingredient in chosen if ingredient in _NEEDS}
    if Ingredient.WORKSPACE_CLOCK in chosen:
        chosen -= _BY_A_STEADY_CLOCK
    return frozenset(chosen) - _OF_THE_BATCH

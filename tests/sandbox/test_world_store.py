"""What stands in the sandbox's world, and that the seed alone decides it."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest

from monitor.sandbox.settings import WorldOptions
from monitor.sandbox.world.records.objects import Flow, Person, Plan, PlanSnapshot, Token
from monitor.sandbox.world.seeding.seed import seed_world
from monitor.sandbox.world.shelves import World
from monitor.schedules import check, next_after
from tests.clocks import ManualClock
from tests.sandbox.bench import ANYBODY


def seeded(seed: int = 1) -> World:
    world = World(clock=ManualClock(), seed=seed)
    seed_world(world)
    return world


def test_the_same_seed_makes_the_same_world() -> None:
    """Everything is equal, down to ids, stamps and tokens; another seed makes another world."""

    def snapshot(world: World) -> list[str]:
        values = [token.value for token in world.tokens]
        shelves = (world.people, world.flows, world.recipes, world.plans, world.schedules)
        return [*values, *(repr(list(shelf)) for shelf in shelves)]

    assert snapshot(seeded(7)) == snapshot(seeded(7))
    assert snapshot(seeded(7)) != snapshot(seeded(8))


def test_a_seeded_world_has_what_a_workspace_has() -> None:
    """Several people, flows (two of them share a name), plans with every rule, all rhythms."""
    world = seeded()
    names = Counter(flow.name for flow in world.flows.live())
    assert sorted(names.values())[-2:] == [1, 2]
    assert 6 <= len(world.flows) <= 10
    assert len(world.people) >= 3
    assert 3 <= len(world.plans) <= 4
    assert {edge.status_rule for edge in world.plan_edges} == {"success", "failure", "always"}
    kinds = {
        type(trigger).__name__ for schedule in world.schedules for trigger in schedule.triggers
    }
    assert kinds == {
        "CronTrigger",
        "HourlyTrigger",
        "DailyTrigger",
        "WeeklyTrigger",
        "MonthlyTrigger",
        "MonthlyWeekdayTrigger",
    }


@pytest.mark.parametrize("seed", range(1, 6))
def test_every_link_of_a_seeded_world_leads_somewhere(seed: int) -> None:
    """Owners, flows, recipes, nodes and schedules name things that exist and can run."""
    world = seeded(seed)
    for flow in world.flows:
        assert world.people.get(flow.creator_id)
        assert all(world.outputs_of(recipe.id) for recipe in world.recipes_of(flow.id))
        assert world.recipes_of(flow.id)
    for node in world.plan_nodes:
        assert node.http_task is not None or world.flows.get(node.flow_id or 0)
    for schedule in world.schedules:
        for trigger in schedule.triggers:
            check(trigger)
            assert next_after(trigger, world.now())
        for task in schedule.tasks:
            shelf = world.flows if task.kind == "flow" else world.plans
            assert shelf.get(task.target_id)


@pytest.mark.parametrize("seed", range(1, 6))
def test_the_administrator_owns_most_schedules(seed: int) -> None:
    """The token that is handed out lists all schedules but one, which a colleague owns."""
    world = seeded(seed)
    administrator = next(person.id for person in world.people if person.is_admin)

    others = [schedule for schedule in world.schedules if schedule.creator_id != administrator]

    assert len(world.schedules) == 10
    assert [other.name for other in others] == ["Clicks every ten minutes"]
    flow = world.flows.get(others[0].tasks[0].target_id)
    assert flow is not None
    assert others[0].creator_id in {flow.creator_id, *flow.shared_with}


def test_an_edition_without_plans_is_seeded_without() -> None:
    """No plan and no schedule exists where nothing could show them."""
    world = World(clock=ManualClock(), seed=1)
    seed_world(world, with_plans=False, with_schedules=False)
    assert (len(world.plans), len(world.plan_nodes), len(world.schedules)) == (0, 0, 0)
    assert len(world.flows) > 0


def test_the_administrators_token_can_be_chosen() -> None:
    """The given token is the first person's; the others keep their own."""
    world = World(clock=ManualClock(), seed=1)
    assert seed_world(world, token="chosen") == "chosen"
    person = world.person_of("chosen")
    assert person is not None
    assert person.is_admin
    assert len({token.value for token in world.tokens}) == len(world.people)


async def test_a_token_ends_with_its_time_or_its_deletion() -> None:
    """An expired, deleted or unknown token has no person; a good one remembers its use."""
    clock = ManualClock()
    world = World(clock=clock)
    person = world.create(Person, by=0, email="a@sandbox.example", name="A")
    token = world.create(
        Token,
        by=person.id,
        token_id="one",
        value="v",
        expires_at=world.now() + timedelta(seconds=10),
    )
    assert world.person_of("v") is person
    assert token.last_used_at == world.now()
    assert world.person_of("other") is None
    await clock.advance(10)
    assert world.person_of("v") is None
    world.update(token, expires_at=None)
    assert world.person_of("v") is person
    world.delete(token)
    assert world.person_of("v") is None


def test_a_secret_stays_out_of_a_records_text() -> None:
    """The text of a record may land in a log, and holds no secret."""
    world = seeded()
    assert not any(token.value in repr(token) for token in world.tokens)


def test_a_deleted_thing_is_kept_and_hidden() -> None:
    """It is not listed and not found, unless deleted ones are requested."""
    world = World(clock=ManualClock())
    flow = world.create(Flow, by=ANYBODY, name="flow")
    world.delete(flow)
    assert list(world.flows.live()) == []
    assert world.flows.get(flow.id) is None
    assert world.flows.get(flow.id, with_deleted=True) is flow
    assert list(world.flows) == [flow]


async def test_an_update_moves_the_stamp_and_refuses_unknown_names() -> None:
    """The change is stamped and signed; a wrong name changes nothing."""
    clock = ManualClock()
    world = World(clock=clock)
    flow = world.create(Flow, by=ANYBODY, name="flow")
    await clock.advance(5)
    with pytest.raises(TypeError, match="Flow has no colour"):
        world.update(flow, colour="red")
    assert flow.updated_at == flow.created_at
    world.update(flow, by=12, name="renamed")
    assert (flow.name, flow.updater_id, flow.updated_at) == ("renamed", 12, world.now())
    assert flow.created_at < flow.updated_at


def test_ids_of_plans_and_snapshots_never_meet() -> None:
    """Both come from one counter, as a snapshot is read where a plan is."""
    world = World(clock=ManualClock())
    first = world.create(Plan, by=ANYBODY, name="first")
    snapshot = world.create(
        PlanSnapshot, by=ANYBODY, original_plan_id=first.id, name="first", nodes=(), edges=()
    )
    second = world.create(Plan, by=ANYBODY, name="second")
    assert [snapshot.id - first.id, second.id - first.id] == [1, 2]


def test_kinds_count_from_far_apart() -> None:
    """An id of one kind is no id of another, so that a mix-up is noticed."""
    world = seeded()
    shelves = (world.flows, world.recipes, world.plans, world.plan_nodes, world.schedules)
    ids = [thing.id for shelf in shelves for thing in shelf]
    assert len(ids) == len(set(ids))


def test_sharing_is_for_others_and_administrators() -> None:
    """Owners own; those it is shared with and administrators see; no other person does."""
    world = World(clock=ManualClock())
    administrator = world.create(Person, by=0, email="a", name="A", is_admin=True)
    owner, friend, stranger = (
        world.create(Person, by=0, email=character, name=character) for character in "bcd"
    )
    flow = world.create(Flow, by=owner.id, name="flow", shared_with=frozenset({friend.id}))
    people = (administrator, owner, friend, stranger)
    assert [world.is_shared_with(flow, person.id) for person in people] == [
        True,
        False,
        True,
        False,
    ]


def test_the_workspaces_clock_may_be_wrong() -> None:
    """The offset moves every stamp and may be changed while the world lives."""
    clock = ManualClock()
    world = World(clock=clock, options=WorldOptions(clock_offset_seconds=-90))
    assert world.now() == clock.now() - timedelta(seconds=90)
    world.options.clock_offset_seconds = 30
    flow = world.create(Flow, by=ANYBODY, name="flow")
    assert flow.created_at == clock.now() + timedelta(seconds=30)

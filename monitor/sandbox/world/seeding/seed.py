"""Fills a world from its seed: the same seed gives the same people, flows, plans and schedules."""

from __future__ import annotations

import base64
import json
import random
import uuid
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from monitor.sandbox.world.records.objects import (
    Connection,
    Flow,
    HttpTask,
    ImportedDataset,
    Person,
    Plan,
    PlanEdge,
    PlanNode,
    Schedule,
    ScheduleTask,
    Token,
)
from monitor.sandbox.world.seeding.flows import (
    add_flow,
    seed_folders,
    seed_functions,
    seed_more_flows,
    seed_packages,
    seed_parameters,
    seed_regions,
)
from monitor.sandbox.world.seeding.seeds import SeededSchedule, seeds
from monitor.sandbox.world.shelves import World


@dataclass(slots=True, kw_only=True)
class _Seeding:
    """What was made so far, in the order of the lists of `seeds`."""

    world: World
    chance: random.Random
    people: list[Person] = field(default_factory=list)
    connections: list[Connection] = field(default_factory=list)
    datasets: list[ImportedDataset] = field(default_factory=list)
    flows: dict[int, Flow] = field(default_factory=dict)  # by their places
    plans: dict[int, Plan] = field(default_factory=dict)

    def past(self) -> datetime:
        """Return some moment of the last year, never of the last month."""
        return self.world.now() - timedelta(seconds=self.chance.randint(30 * 86_400, 365 * 86_400))

    def person(self) -> Person:
        return self.chance.choice(self.people)


def seed_world(
    world: World,
    *,
    token: str | None = None,
    with_plans: bool = True,
    with_schedules: bool = True,
    flows: int | None = None,
) -> str:
    """Fill an empty world and return a token of its administrator, ``token`` where it is given.

    ``with_plans`` and ``with_schedules`` are false for editions that have none. So many ``flows``
    are made, with what belongs to them; None makes the usual ones.
    """
    usual = seeds().flows
    seeding = _Seeding(world=world, chance=world.random("seeding"))
    administrator_token = _seed_people(seeding, token)
    _seed_data(seeding)
    for index in range(len(usual) if flows is None else min(flows, len(usual))):
        _seed_flow(seeding, index)
    if with_plans:
        for index, plan in enumerate(seeds().plans):
            if all(place is None or place in seeding.flows for place in plan.flows):
                _seed_plan(seeding, index)
    if with_schedules:
        _seed_schedules(seeding)
    administrator_id = seeding.people[0].id
    seed_functions(world, by=administrator_id)
    seed_folders(world, tuple(seeding.flows.values()), by=administrator_id)
    seed_parameters(world, seeding.flows[0])
    seed_regions(world, seeding.flows[0], seeding.plans.get(0))
    seed_packages(world, by=seeding.people[0].id)
    seed_more_flows(world, (flows or 0) - len(usual), with_schedules=with_schedules)
    return administrator_token


def _seed_people(seeding: _Seeding, token: str | None) -> str:
    world, chance = seeding.world, seeding.chance
    values: list[str] = []
    for name in seeds().people:
        account = name.split()[0].lower()
        person = world.create(
            Person,
            by=0,
            created_at=seeding.past(),
            email=f"{account}@sandbox.example",
            name=name,
            is_admin=not seeding.people,
            output_home_dir=f"/home/{account}/output",
            upload_dir=f"/home/{account}/upload",
        )
        person.creator_id = person.updater_id = person.id
        seeding.people.append(person)
        token_id = str(uuid.UUID(int=chance.getrandbits(128), version=4))
        secret = f"{chance.getrandbits(256):064x}"
        document = json.dumps({"tokenId": token_id, "secret": secret})
        value = base64.b64encode(document.encode()).decode()
        values.append(token if token is not None and not values else value)
        world.create(
            Token,
            by=person.id,
            created_at=person.created_at,
            token_id=token_id,
            value=values[-1],
            description="made with the sandbox",
        )
    return values[0]


def _seed_data(seeding: _Seeding) -> None:
    world = seeding.world
    for row in seeds().connections:
        connection = world.create(
            Connection,
            by=seeding.people[0].id,
            created_at=seeding.past(),
            uuid=str(uuid.UUID(int=seeding.chance.getrandbits(128), version=4)),
            host=f"{row['vendor']}.sandbox.example",
            is_global=True,
            ssl=True,
            credentials=({"username": "sandbox", "password": world.uuid("password", row["name"])},),
            **row,
        )
        seeding.connections.append(connection)
        table = connection.name.lower().replace(" ", "_")
        for number in (1, 2):
            seeding.datasets.append(
                world.create(
                    ImportedDataset,
                    by=seeding.person().id,
                    created_at=seeding.past(),
                    name=f"{table}_{number}",
                    connection_id=connection.id,
                    **_place(connection, f"{table}_{number}"),
                )
            )
    for name in seeds().files:
        seeding.datasets.append(
            world.create(
                ImportedDataset,
                by=seeding.person().id,
                created_at=seeding.past(),
                name=name,
                uri=f"gs://sandbox-uploads/{name}",
            )
        )


def _place(connection: Connection, name: str) -> dict[str, Any]:
    """Return where a dataset lies on a connection: in a table, or in a file."""
    if connection.type == "remotefile":
        return {"uri": f"{connection.vendor}://{connection.host}/{name}.csv"}
    return {"table_path": ("public", name)}


def _seed_flow(seeding: _Seeding, index: int) -> None:
    flow = seeds().flows[index]
    owner = seeding.person()
    seeding.flows[index] = add_flow(
        seeding.world,
        flow.name,
        flow.recipes,
        by=owner.id,
        created_at=seeding.past(),
        failure_ratio=flow.failure_ratio,
        chance=seeding.chance,
    )


def _seed_plan(seeding: _Seeding, index: int) -> None:
    seeded = seeds().plans[index]
    world, owner, created_at = seeding.world, seeding.person(), seeding.past()
    plan = world.create(Plan, by=owner.id, created_at=created_at, name=seeded.name, description="")
    seeding.plans[index] = plan
    nodes: list[PlanNode] = []
    for place, flow_place in enumerate(seeded.flows):
        flow = None if flow_place is None else seeding.flows[flow_place]
        nodes.append(
            world.create(
                PlanNode,
                by=owner.id,
                created_at=created_at,
                plan_id=plan.id,
                handle=f"{'abcdefgh'[place]}{index}",
                name=flow.name if flow else "Send HTTP request",
                task_type="flow" if flow else "http",
                flow_id=flow.id if flow else None,
                http_task=None if flow else HttpTask(),
                x=200 * place,
                y=100 * index,
            )
        )
    for begin, end, rule in seeded.edges:
        world.create(
            PlanEdge,
            by=owner.id,
            created_at=created_at,
            plan_id=plan.id,
            in_plan_node_id=nodes[begin].id,
            out_plan_node_id=nodes[end].id,
            status_rule=rule,
        )


def _seed_schedules(seeding: _Seeding) -> None:
    for scheduled in seeds().schedules:
        kind, place = scheduled.starts
        target = (seeding.plans if kind == "plan" else seeding.flows).get(place)
        if target is not None:
            _seed_schedule(seeding, scheduled, kind, target)


def _seed_schedule(
    seeding: _Seeding, scheduled: SeededSchedule, kind: str, target: Flow | Plan
) -> None:
    """Make a schedule, of the administrator unless it is to be a colleague's.

    A list shows the caller's own schedules only, and the administrator's token is the one that
    is handed out.
    """
    owner_id = seeding.people[0].id
    if scheduled.is_of_a_colleague:
        # Who sees the flow and is not the administrator: two see it by sharing alone.
        people = (target.creator_id, *sorted(target.shared_with))
        owner_id = next(person for person in people if person != owner_id)
    seeding.world.create(
        Schedule,
        by=owner_id,
        created_at=seeding.past(),
        name=scheduled.name,
        triggers=(scheduled.trigger,),
        tasks=(ScheduleTask(kind=kind, target_id=target.id),),
        enabled=scheduled.is_enabled,
        disable_reason=None if scheduled.is_enabled else "switched off by its owner",
    )

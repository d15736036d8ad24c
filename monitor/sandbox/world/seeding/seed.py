"""Fills a world from its seed: the same seed gives the same people, flows, plans and schedules."""

from __future__ import annotations

import base64
import json
import random
import uuid
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from monitor.model.triggers import (
    CronTrigger,
    DailyTrigger,
    HourlyTrigger,
    MonthlyTrigger,
    MonthlyWeekdayTrigger,
    ScheduleTrigger,
    Weekday,
    WeeklyTrigger,
)
from monitor.sandbox.world.records.objects import (
    Connection,
    Flow,
    HttpTask,
    ImportedDataset,
    OutputObject,
    Person,
    Plan,
    PlanEdge,
    PlanNode,
    Publication,
    Recipe,
    Schedule,
    ScheduleTask,
    Token,
    WriteSetting,
)
from monitor.sandbox.world.seeding.parts import (
    seed_folders,
    seed_functions,
    seed_packages,
    seed_parameters,
    seed_regions,
)
from monitor.sandbox.world.shelves import World

_PEOPLE = ("Ada Lindqvist", "Bruno Okafor", "Chiyo Tanaka", "Dana Novak")
_CONNECTIONS = (
    ("Warehouse", "bigquery", "BigQuery", "jdbc", None),
    ("Orders database", "postgres", "PostgreSQL", "jdbc", 5432),
    ("Partner drop", "sftp", "SFTP", "remotefile", 22),
)
# Name, the recipes with those they build upon, and how often its job groups fail. Two have the
# same name, as happens where people copy flows.
_FLOWS: tuple[tuple[str, tuple[tuple[str, tuple[int, ...]], ...], float], ...] = (
    ("Daily sales", (("Clean sales", ()), ("Sales by region", (0,)), ("Sales report", (1,))), 0.08),
    ("Customer 360", (("Customers", ()), ("Contacts", ()), ("Joined customers", (0, 1))), 0.1),
    ("Web clicks", (("Sessions", ()),), 0.05),
    ("Inventory", (("Stock", ()), ("Reorder list", (0,))), 0.1),
    ("Daily sales", (("Clean sales", ()), ("Sales by shop", (0,))), 0.15),
    ("Invoices: überfällig", (("Überfällige Rechnungen", ()),), 0.3),
    ("Marketing spend", (("Spend", ()), ("Return on spend", (0,))), 0.1),
    ("Sensor feed", (("Readings", ()),), 0.05),
)
# Name, the flows of its nodes by their place above (None sends a request), and the edges
# between the nodes with their rule.
_PLANS: tuple[tuple[str, tuple[int | None, ...], tuple[tuple[int, int, str], ...]], ...] = (
    ("Nightly load", (3, 0, 1), ((0, 1, "success"), (1, 2, "success"))),
    ("Finance close", (5, 6, None), ((0, 1, "success"), (0, 2, "failure"))),
    ("Marketing refresh", (2, 6, 1), ((0, 2, "always"), (1, 2, "success"))),
    ("Sensors", (7,), ()),
)


@dataclass(slots=True, kw_only=True)
class _Seeding:
    """What was made so far, in the order of the lists above."""

    world: World
    chance: random.Random
    people: list[Person] = field(default_factory=list)
    connections: list[Connection] = field(default_factory=list)
    datasets: list[ImportedDataset] = field(default_factory=list)
    flows: list[Flow] = field(default_factory=list)
    plans: list[Plan] = field(default_factory=list)

    def past(self) -> datetime:
        """Return some moment of the last year, never of the last month."""
        return self.world.now() - timedelta(seconds=self.chance.randint(30 * 86_400, 365 * 86_400))

    def person(self) -> Person:
        return self.chance.choice(self.people)


def seed_world(
    world: World, *, token: str | None = None, with_plans: bool = True, with_schedules: bool = True
) -> str:
    """Fill an empty world and return a token of its administrator, ``token`` where it is given.

    ``with_plans`` and ``with_schedules`` are false for editions that have none.
    """
    seeding = _Seeding(world=world, chance=world.random("seeding"))
    administrator_token = _seed_people(seeding, token)
    _seed_data(seeding)
    for index in range(len(_FLOWS)):
        _seed_flow(seeding, index)
    if with_plans:
        for index in range(len(_PLANS)):
            _seed_plan(seeding, index)
    if with_schedules:
        _seed_schedules(seeding)
    administrator_id = seeding.people[0].id
    seed_functions(world, by=administrator_id)
    seed_folders(world, seeding.flows, by=administrator_id)
    seed_parameters(world, seeding.flows[0])
    seed_regions(world, seeding.flows[0], seeding.plans[0] if seeding.plans else None)
    seed_packages(world, by=seeding.people[0].id)
    return administrator_token


def _seed_people(seeding: _Seeding, token: str | None) -> str:
    world, chance = seeding.world, seeding.chance
    values: list[str] = []
    for name in _PEOPLE:
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
    for name, vendor, vendor_name, connection_type, port in _CONNECTIONS:
        connection = world.create(
            Connection,
            by=seeding.people[0].id,
            created_at=seeding.past(),
            name=name,
            uuid=str(uuid.UUID(int=seeding.chance.getrandbits(128), version=4)),
            vendor=vendor,
            vendor_name=vendor_name,
            type=connection_type,
            credential_type="oauth2" if vendor == "bigquery" else "basic",
            host=f"{vendor}.sandbox.example",
            port=port,
            is_global=True,
            ssl=True,
            params={"database": "sandbox"} if connection_type == "jdbc" else {"root": "/"},
            credentials=({"username": "sandbox", "password": world.uuid("password", name)},),
        )
        seeding.connections.append(connection)
        table = name.lower().replace(" ", "_")
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
    for name in ("clicks.csv", "readings.json", "invoices.xlsx"):
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
    name, recipes, failure_ratio = _FLOWS[index]
    owner = seeding.person()
    created_at = seeding.past()
    flow = seeding.world.create(
        Flow,
        by=owner.id,
        created_at=created_at,
        name=name,
        description=f"{name}: made with the sandbox",
        shared_with=frozenset(seeding.chance.sample([person.id for person in seeding.people], k=2)),
        failure_ratio=failure_ratio,
    )
    seeding.flows.append(flow)
    made: list[Recipe] = []
    for recipe_name, upstream in recipes:
        dataset = seeding.chance.choice(seeding.datasets)
        recipe = seeding.world.create(
            Recipe,
            by=owner.id,
            created_at=created_at,
            flow_id=flow.id,
            name=recipe_name,
            dataset_ids=() if upstream else (dataset.id,),
            upstream_ids=tuple(made[item].id for item in upstream),
        )
        made.append(recipe)
        for is_adhoc in (True, False):
            _seed_output(seeding, recipe, is_adhoc=is_adhoc)


def _seed_output(seeding: _Seeding, recipe: Recipe, *, is_adhoc: bool) -> None:
    """Give a recipe an output; the scheduled one of the last recipes also loads a table."""
    owner_id, created_at = recipe.creator_id, recipe.created_at
    output = seeding.world.create(
        OutputObject,
        by=owner_id,
        created_at=created_at,
        recipe_id=recipe.id,
        is_adhoc=is_adhoc,
        profiler=seeding.chance.random() < 0.5,  # noqa: PLR2004 - half of them
    )
    folder = "manual" if is_adhoc else "scheduled"
    seeding.world.create(
        WriteSetting,
        by=owner_id,
        created_at=created_at,
        output_object_id=output.id,
        path=f"gs://sandbox-output/{folder}/{recipe.id}.csv",
        action="create" if is_adhoc else "overwrite",
    )
    if recipe.upstream_ids and not is_adhoc:
        seeding.world.create(
            Publication,
            by=owner_id,
            created_at=created_at,
            output_object_id=output.id,
            connection_id=seeding.connections[0].id,
            path=("analytics",),
            table_name=f"recipe_{recipe.id}",
            target_type="bigquery",
            action="truncateAndLoad",
        )


def _seed_plan(seeding: _Seeding, index: int) -> None:
    name, flow_places, edges = _PLANS[index]
    world, owner, created_at = seeding.world, seeding.person(), seeding.past()
    plan = world.create(Plan, by=owner.id, created_at=created_at, name=name, description="")
    seeding.plans.append(plan)
    nodes: list[PlanNode] = []
    for place, flow_place in enumerate(flow_places):
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
    for begin, end, rule in edges:
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
    flows, plans = seeding.flows, seeding.plans
    _seed_schedule(seeding, "Sensors, often", CronTrigger(expression="0/30 * * * * ?"), flows[7])
    _seed_schedule(
        seeding,
        "Clicks every ten minutes",
        CronTrigger(expression="0 0/10 * ? * MON-SUN", timezone="America/New_York"),
        flows[2],
        owner_id=_colleague_of(seeding, flows[2]),
    )
    _seed_schedule(seeding, "Stock, hourly", HourlyTrigger(minute_of_hour=15), flows[3])
    _seed_schedule(
        seeding,
        "Sales before work",
        DailyTrigger(
            hour_of_day=6, minute_of_hour=30, only_working_days=True, timezone="Europe/Berlin"
        ),
        flows[0],
    )
    if plans:
        nightly = DailyTrigger(hour_of_day=2, minute_of_hour=30, timezone="Europe/Berlin")
        _seed_schedule(seeding, "Nightly load", nightly, plans[0])
        every_five = CronTrigger(expression="0 0/5 * * * ?")
        _seed_schedule(seeding, "Sensors plan", every_five, plans[3])
        closed = CronTrigger(expression="0 0 7 1W * ?", timezone="Europe/London")
        _seed_schedule(seeding, "Finance close", closed, plans[1], is_enabled=False)
    mondays = WeeklyTrigger(
        hour_of_day=7,
        minute_of_hour=0,
        days_of_week=(Weekday.MONDAY,),
        timezone="Europe/Berlin",
    )
    _seed_schedule(seeding, "Spend of the week", mondays, flows[6])
    twice_a_month = MonthlyTrigger(hour_of_day=5, minute_of_hour=30, days_of_month=(1, 15))
    _seed_schedule(seeding, "Invoices", twice_a_month, flows[5])
    fourth_fridays = MonthlyWeekdayTrigger(
        hour_of_day=18,
        minute_of_hour=0,
        day_of_week=Weekday.FRIDAY,
        nth_week_day_of_month=4,
        timezone="Europe/London",
    )
    _seed_schedule(seeding, "Customers of the month", fourth_fridays, flows[1])


def _colleague_of(seeding: _Seeding, flow: Flow) -> int:
    """Return who sees a flow and is not the administrator: two see it by sharing alone."""
    people = (flow.creator_id, *sorted(flow.shared_with))
    return next(person for person in people if person != seeding.people[0].id)


def _seed_schedule(
    seeding: _Seeding,
    name: str,
    trigger: ScheduleTrigger,
    target: Flow | Plan,
    *,
    is_enabled: bool = True,
    owner_id: int | None = None,
) -> None:
    """Make a schedule, of the administrator unless somebody else is named.

    A list shows the caller's own schedules only, and the administrator's token is the one that
    is handed out.
    """
    seeding.world.create(
        Schedule,
        by=seeding.people[0].id if owner_id is None else owner_id,
        created_at=seeding.past(),
        name=name,
        triggers=(trigger,),
        tasks=(
            ScheduleTask(kind="plan" if isinstance(target, Plan) else "flow", target_id=target.id),
        ),
        enabled=is_enabled,
        disable_reason=None if is_enabled else "switched off by its owner",
    )

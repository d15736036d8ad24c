"""Fills a world from its seed: the same seed gives the same people, flows, plans and schedules."""

from __future__ import annotations

import base64
import json
import random
import uuid
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple

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
    Person,
    Plan,
    PlanEdge,
    PlanNode,
    Schedule,
    ScheduleTask,
    Token,
)
from monitor.sandbox.world.seeding.flows import add_flow, seed_more_flows
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


class _Scheduled(NamedTuple):
    """A schedule, and the flow or plan that it starts, by its place above."""

    name: str
    starts: tuple[str, int]
    trigger: ScheduleTrigger
    is_enabled: bool = True
    is_of_a_colleague: bool = False


_BERLIN, _LONDON = "Europe/Berlin", "Europe/London"
_SCHEDULES = (
    _Scheduled("Sensors, often", ("flow", 7), CronTrigger(expression="0/30 * * * * ?")),
    _Scheduled(
        "Clicks every ten minutes",
        ("flow", 2),
        CronTrigger(expression="0 0/10 * ? * MON-SUN", timezone="America/New_York"),
        is_of_a_colleague=True,
    ),
    _Scheduled("Stock, hourly", ("flow", 3), HourlyTrigger(minute_of_hour=15)),
    _Scheduled(
        "Sales before work",
        ("flow", 0),
        DailyTrigger(hour_of_day=6, minute_of_hour=30, only_working_days=True, timezone=_BERLIN),
    ),
    _Scheduled(
        "Nightly load",
        ("plan", 0),
        DailyTrigger(hour_of_day=2, minute_of_hour=30, timezone=_BERLIN),
    ),
    _Scheduled("Sensors plan", ("plan", 3), CronTrigger(expression="0 0/5 * * * ?")),
    _Scheduled(
        "Finance close",
        ("plan", 1),
        CronTrigger(expression="0 0 7 1W * ?", timezone=_LONDON),
        is_enabled=False,
    ),
    _Scheduled(
        "Spend of the week",
        ("flow", 6),
        WeeklyTrigger(
            hour_of_day=7, minute_of_hour=0, days_of_week=(Weekday.MONDAY,), timezone=_BERLIN
        ),
    ),
    _Scheduled(
        "Invoices",
        ("flow", 5),
        MonthlyTrigger(hour_of_day=5, minute_of_hour=30, days_of_month=(1, 15)),
    ),
    _Scheduled(
        "Customers of the month",
        ("flow", 1),
        MonthlyWeekdayTrigger(
            hour_of_day=18,
            minute_of_hour=0,
            day_of_week=Weekday.FRIDAY,
            nth_week_day_of_month=4,
            timezone=_LONDON,
        ),
    ),
)


@dataclass(slots=True, kw_only=True)
class _Seeding:
    """What was made so far, in the order of the lists above."""

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
    seeding = _Seeding(world=world, chance=world.random("seeding"))
    administrator_token = _seed_people(seeding, token)
    _seed_data(seeding)
    for index in range(len(_FLOWS) if flows is None else min(flows, len(_FLOWS))):
        _seed_flow(seeding, index)
    if with_plans:
        for index, (_, places, _) in enumerate(_PLANS):
            if all(place is None or place in seeding.flows for place in places):
                _seed_plan(seeding, index)
    if with_schedules:
        _seed_schedules(seeding)
    administrator_id = seeding.people[0].id
    seed_functions(world, by=administrator_id)
    seed_folders(world, tuple(seeding.flows.values()), by=administrator_id)
    seed_parameters(world, seeding.flows[0])
    seed_regions(world, seeding.flows[0], seeding.plans.get(0))
    seed_packages(world, by=seeding.people[0].id)
    seed_more_flows(world, (flows or 0) - len(_FLOWS), with_schedules=with_schedules)
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
    seeding.flows[index] = add_flow(
        seeding.world,
        name,
        recipes,
        by=owner.id,
        created_at=seeding.past(),
        failure_ratio=failure_ratio,
        chance=seeding.chance,
    )


def _seed_plan(seeding: _Seeding, index: int) -> None:
    name, flow_places, edges = _PLANS[index]
    world, owner, created_at = seeding.world, seeding.person(), seeding.past()
    plan = world.create(Plan, by=owner.id, created_at=created_at, name=name, description="")
    seeding.plans[index] = plan
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
    for scheduled in _SCHEDULES:
        kind, place = scheduled.starts
        target = (seeding.plans if kind == "plan" else seeding.flows).get(place)
        if target is not None:
            _seed_schedule(seeding, scheduled, kind, target)


def _seed_schedule(
    seeding: _Seeding, scheduled: _Scheduled, kind: str, target: Flow | Plan
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

"""A small workspace behind a real HTTP server, for the tests of the sandbox's operations."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, BinaryIO

import aiohttp
import msgspec
from aiohttp import web

from monitor.catalogue.operations import Edition
from monitor.sandbox.api.server import RequestListener, build_app
from monitor.sandbox.callbacks.deliveries import Deliveries
from monitor.sandbox.running.engine import Engine
from monitor.sandbox.settings import DeliverySettings, WorkSettings
from monitor.sandbox.world.ledger import Ledger
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
    Token,
    WriteSetting,
)
from monitor.sandbox.world.records.runs import JobGroup, NativeStatus
from monitor.sandbox.world.shelves import World
from tests.clocks import ManualClock

OWNER_TOKEN = "token-of-the-owner"
COLLEAGUE_TOKEN = "token-of-the-colleague"
ADMIN_TOKEN = "token-of-the-admin"


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    content: bytes

    @property
    def body(self) -> Any:
        return msgspec.json.decode(self.content)

    @property
    def ids(self) -> list[int]:
        return [row["id"] for row in self.body["data"]]

    @property
    def exception(self) -> dict[str, str]:
        found = self.body["exception"]
        assert isinstance(found, dict)
        return found

    def is_refused(self, status: int, name: str, *mentions: str) -> bool:
        """True when this is the envelope of an error whose details mention all of the words."""
        assert self.status == status, (self.status, self.content)
        assert self.exception["name"] == name, self.content
        assert self.exception["message"]
        return all(word in self.exception["details"] for word in mentions)


@dataclass(kw_only=True)
class Things:
    """What stands in the world from the start."""

    owner: Person
    colleague: Person
    admin: Person
    orders: Flow  # the owner's; clean feeds totals
    clean: Recipe
    totals: Recipe
    stock: Flow  # the colleague's
    count: Recipe
    nightly: Plan
    node: PlanNode
    weekly: Plan  # the colleague's


@dataclass(kw_only=True)
class Workspace:
    """The server, and its world."""

    url: str
    world: World
    engine: Engine
    deliveries: Deliveries
    clock: ManualClock
    things: Things
    session: aiohttp.ClientSession
    token: str = OWNER_TOKEN

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content: bytes | BinaryIO | None = None,
        headers: Mapping[str, str] | None = None,
        token: str | None = None,
    ) -> Answer:
        """Send one request as the owner, or as the owner of ``token`` ("" sends none)."""
        token = self.token if token is None else token
        authorization = {"Authorization": f"Bearer {token}"} if token else {}
        data = msgspec.json.encode(body) if body is not None else content
        kind = {} if data is None else {"Content-Type": "application/json"}
        async with self.session.request(
            method,
            self.url + path,
            params=query,
            data=data,
            headers={**authorization, **kind, **(headers or {})},
        ) as response:
            return Answer(
                status=response.status, headers=response.headers, content=await response.read()
            )

    async def get(self, path: str, **query: str) -> Answer:
        return await self.request("GET", path, query=query)

    async def post(self, path: str, body: Any = None, **headers: str) -> Answer:
        names = {name.replace("_", "-"): text for name, text in headers.items()}
        return await self.request("POST", path, body=body, headers=names)

    def job_group(
        self,
        recipe: Recipe | None = None,
        *,
        status: NativeStatus = NativeStatus.CREATED,
        by: Person | None = None,
        profiling: bool = False,
    ) -> JobGroup:
        """Put a job group into the world, in the given state."""
        started = self.engine.start_job_group(
            recipe or self.things.clean,
            by=(by or self.things.owner).id,
            profiling=profiling,
        )
        self.world.update(started, status=status)
        return started


@contextlib.asynccontextmanager
async def open_workspace(
    edition: Edition = Edition.RL, *, listeners: Sequence[RequestListener] = ()
) -> AsyncIterator[Workspace]:
    """Serve a small world on a free port. Its engine stands still unless a test runs it."""
    clock = ManualClock()
    world = World(clock=clock, seed=7)
    things = furnish(world)
    ledger = Ledger()
    engine = Engine(world, ledger=ledger, settings=WorkSettings())
    deliveries = Deliveries(world, settings=DeliverySettings())
    app = build_app(
        world,
        engine=engine,
        deliveries=deliveries,
        ledger=ledger,
        edition=edition,
        listeners=listeners,
    )
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        async with aiohttp.ClientSession() as session:
            yield Workspace(
                url=url,
                world=world,
                engine=engine,
                deliveries=deliveries,
                clock=clock,
                things=things,
                session=session,
            )
    finally:
        await runner.cleanup()


def furnish(world: World) -> Things:
    """Put two flows, two plans and three people into an empty world."""
    created_at = world.now() - timedelta(days=2)
    people = [
        world.create(
            Person,
            by=0,
            created_at=created_at,
            email=f"{name.lower()}@example.com",
            name=name,
            is_admin=name == "Admin",
        )
        for name in ("Owner", "Colleague", "Admin")
    ]
    tokens = (OWNER_TOKEN, COLLEAGUE_TOKEN, ADMIN_TOKEN)
    for person, value in zip(people, tokens, strict=True):
        world.create(Token, by=person.id, token_id=f"t{person.id}", value=value)
    owner, colleague, admin = people
    orders = world.create(Flow, by=owner.id, name="Orders", created_at=created_at)
    stock = world.create(Flow, by=colleague.id, name="Stock", created_at=created_at)
    dataset = world.create(
        ImportedDataset, by=owner.id, name="orders.csv", uri="gs://in/orders.csv"
    )
    clean = world.create(
        Recipe, by=owner.id, flow_id=orders.id, name="Clean orders", dataset_ids=(dataset.id,)
    )
    totals = world.create(
        Recipe, by=owner.id, flow_id=orders.id, name="Totals", upstream_ids=(clean.id,)
    )
    count = world.create(Recipe, by=colleague.id, flow_id=stock.id, name="Count")
    for recipe in (clean, totals, count):
        furnish_output(world, recipe)
    nightly, node = furnish_plan(world, owner, orders)
    return Things(
        owner=owner,
        colleague=colleague,
        admin=admin,
        orders=orders,
        clean=clean,
        totals=totals,
        stock=stock,
        count=count,
        nightly=nightly,
        node=node,
        weekly=world.create(Plan, by=colleague.id, name="Weekly"),
    )


def furnish_output(world: World, recipe: Recipe) -> None:
    """Let a recipe write one file and load one table."""
    by = recipe.creator_id
    output = world.create(OutputObject, by=by, recipe_id=recipe.id)
    path = f"gs://out/{recipe.id}.csv"
    world.create(WriteSetting, by=by, output_object_id=output.id, path=path)
    connection = world.create(
        Connection,
        by=by,
        name="warehouse",
        uuid="00000000-0000-4000-8000-000000000001",
        vendor="postgres",
        vendor_name="PostgreSQL",
        host="db.example.com",
        port=5432,
    )
    world.create(
        Publication,
        by=by,
        output_object_id=output.id,
        connection_id=connection.id,
        path=("public",),
        table_name="orders",
        target_type="postgres",
    )


def furnish_plan(world: World, owner: Person, flow: Flow) -> tuple[Plan, PlanNode]:
    """Make a plan that runs a flow and then sends a request."""
    plan = world.create(Plan, by=owner.id, name="Nightly")
    node = world.create(
        PlanNode,
        by=owner.id,
        plan_id=plan.id,
        handle="ax",
        name="Orders",
        task_type="flow",
        flow_id=flow.id,
    )
    call = world.create(
        PlanNode,
        by=owner.id,
        plan_id=plan.id,
        handle="bx",
        name="Tell",
        task_type="http",
        http_task=HttpTask(),
    )
    world.create(
        PlanEdge,
        by=owner.id,
        plan_id=plan.id,
        in_plan_node_id=node.id,
        out_plan_node_id=call.id,
        status_rule="always",
    )
    return plan, node

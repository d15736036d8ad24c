"""A world with an engine on a clock that the test moves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from monitor.sandbox.callbacks.deliveries import Deliveries
from monitor.sandbox.running.engine import Engine, Order, Outcome
from monitor.sandbox.settings import WorkSettings, WorldOptions
from monitor.sandbox.world.ledger import Ledger
from monitor.sandbox.world.records.objects import (
    Flow,
    OutputObject,
    Plan,
    PlanEdge,
    PlanNode,
    Recipe,
)
from monitor.sandbox.world.shelves import World
from tests.clocks import ManualClock

ANYBODY = 11
# Every wait and every work takes exactly this long, so that tests can count seconds.
EVEN = WorkSettings(
    queue_seconds=(5, 5),
    work_seconds=(20, 20),
    hand_over_seconds=(2, 2),
    cancel_ratio=0.0,
    failure_factor=0.0,
)


@dataclass(frozen=True, kw_only=True)
class Bench:
    """What a test of the engine needs, and makers of small pipelines."""

    clock: ManualClock
    world: World
    ledger: Ledger
    engine: Engine

    def flow(self, *upstreams: tuple[int, ...], name: str = "flow") -> Flow:
        """Make a flow with one recipe for each argument: the positions of those it builds upon."""
        flow = self.world.create(Flow, by=ANYBODY, name=name)
        recipes: list[Recipe] = []
        for upstream in upstreams:
            recipe = self.world.create(
                Recipe,
                by=ANYBODY,
                flow_id=flow.id,
                name=f"recipe {len(recipes)}",
                upstream_ids=tuple(recipes[item].id for item in upstream),
            )
            self.world.create(OutputObject, by=ANYBODY, recipe_id=recipe.id)
            recipes.append(recipe)
        return flow

    def recipe(self) -> Recipe:
        """Make a flow with one recipe."""
        return self.world.recipes_of(self.flow(()).id)[0]

    def plan(self, *flows: Flow, edges: tuple[tuple[int, int, str], ...] = ()) -> Plan:
        """Make a plan of flow nodes, with edges between their positions."""
        plan = self.world.create(Plan, by=ANYBODY, name="plan")
        nodes = [
            self.world.create(
                PlanNode,
                by=ANYBODY,
                plan_id=plan.id,
                handle=f"n{place}",
                name=flow.name,
                task_type="flow",
                flow_id=flow.id,
            )
            for place, flow in enumerate(flows)
        ]
        for begin, end, rule in edges:
            self.edge(plan, nodes[begin], nodes[end], rule)
        return plan

    def edge(self, plan: Plan, begin: PlanNode, end: PlanNode, rule: str) -> PlanEdge:
        return self.world.create(
            PlanEdge,
            by=ANYBODY,
            plan_id=plan.id,
            in_plan_node_id=begin.id,
            out_plan_node_id=end.id,
            status_rule=rule,
        )

    def fail(self, flow: Flow) -> None:
        """Let the next job group of a flow fail."""
        self.engine.order(Order(flow_id=flow.id, outcome=Outcome.FAILED))

    def path(self, kind: str, run_id: int) -> list[str]:
        """Return the states that a run went through."""
        return [transition.after for transition in self.ledger.transitions(kind, run_id)]


@asynccontextmanager
async def running(
    work: WorkSettings = EVEN, *, options: WorldOptions | None = None, seed: int = 1
) -> AsyncIterator[Bench]:
    """Give an empty world whose engine runs."""
    clock = ManualClock()
    world = World(clock=clock, seed=seed, options=options)
    ledger = Ledger()
    engine = Engine(world, ledger=ledger, settings=work)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(engine.run())
        yield Bench(clock=clock, world=world, ledger=ledger, engine=engine)
        task.cancel()


async def advance_until(clock: ManualClock, is_so: Callable[[], bool]) -> None:
    """Let time pass in steps until something is so; gives up after some real seconds."""
    async with asyncio.timeout(10):
        while not is_so():
            await clock.advance(0.25)


@asynccontextmanager
async def sending(deliveries: Deliveries) -> AsyncIterator[None]:
    """Let callbacks be sent for a while."""
    async with asyncio.TaskGroup() as group:
        task = group.create_task(deliveries.run())
        await asyncio.sleep(0)
        yield
        task.cancel()

"""What a page of the sandbox's job library costs with few and with many job groups.

Two sandboxes' worth of application in this process, one with 100 job groups and one with
100,000, and one client that asks for ``GET /v4/jobLibrary?limit=25`` over one connection, one
request after the other. Repetitions take turns between the two, so that what disturbs one disturbs
both.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncIterator

import aiohttp
from aiohttp import web
from msgspec import Struct

from monitor.catalogue.operations import Edition
from monitor.model.clock import SystemClock
from monitor.sandbox.api.server import build_app
from monitor.sandbox.callbacks.deliveries import Deliveries
from monitor.sandbox.running.engine import Engine
from monitor.sandbox.settings import DeliverySettings, WorkSettings
from monitor.sandbox.world.ledger import Ledger
from monitor.sandbox.world.records.objects import Flow, Person, Recipe, Token
from monitor.sandbox.world.records.runs import JobGroup, NativeStatus
from monitor.sandbox.world.shelves import World
from tests.bench.figures import Figure, ratios, table

TITLE = "Pages of the job library with many job groups"
PATH = "/v4/jobLibrary?limit=25"
_TOKEN = "token-of-the-benchmark"
_RECIPES = 50


class Sizes(Struct, frozen=True, kw_only=True):
    """Sizes of the measurement."""

    repetitions: int = 5
    few: int = 100
    many: int = 100_000
    seconds: float = 1.5  # of requests in each repetition and on each side


async def measure(sizes: Sizes | None = None) -> list[Figure]:
    """Return the requests a second on both sides, and their ratio."""
    sizes = sizes or Sizes()
    few: list[float] = []
    many: list[float] = []
    async with _serving(sizes.few) as with_few, _serving(sizes.many) as with_many:
        for number in range(-1, sizes.repetitions):
            for url, speeds in ((with_few, few), (with_many, many)):
                speed = await _speed(url, sizes.seconds)
                if number >= 0:  # the first repetition only warms both up
                    speeds.append(speed)
    few_figure = Figure(
        name=f"with {sizes.few:,} job groups", values=tuple(few), unit="/s", better="higher"
    )
    many_figure = Figure(
        name=f"with {sizes.many:,} job groups", values=tuple(many), unit="/s", better="higher"
    )
    return [few_figure, many_figure, ratios("many over few", many_figure, few_figure, target=0.5)]


@contextlib.asynccontextmanager
async def _serving(job_groups: int) -> AsyncIterator[str]:
    """Serve a world with so many job groups; yield the address of the page."""
    world = World(clock=SystemClock())
    furnish(world, job_groups)
    ledger = Ledger()
    app = build_app(
        world,
        engine=Engine(world, ledger=ledger, settings=WorkSettings()),
        deliveries=Deliveries(world, settings=DeliverySettings()),
        ledger=ledger,
        edition=Edition.RL,
    )
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}{PATH}"
    finally:
        await runner.cleanup()


def furnish(world: World, job_groups: int) -> None:
    """Put finished job groups into an empty world, of one person and a few recipes."""
    person = world.create(Person, by=0, email="ada@example.com", name="Ada")
    world.create(Token, by=person.id, token_id="t1", value=_TOKEN)
    flow = world.create(Flow, by=person.id, name="Orders")
    recipes = [
        world.create(Recipe, by=person.id, flow_id=flow.id, name=f"Recipe {number}")
        for number in range(_RECIPES)
    ]
    for number in range(job_groups):
        world.create(
            JobGroup,
            by=person.id,
            flow_id=flow.id,
            recipe_id=recipes[number % _RECIPES].id,
            status=NativeStatus.COMPLETE,
        )


async def _speed(url: str, seconds: float) -> float:
    """Return how many pages a second one client reads."""
    headers = {"Authorization": f"Bearer {_TOKEN}"}
    async with aiohttp.ClientSession(headers=headers) as session:
        began, pages = time.perf_counter(), 0
        while time.perf_counter() - began < seconds:
            async with session.get(url) as answer:
                answer.raise_for_status()
                await answer.read()
            pages += 1
        return pages / (time.perf_counter() - began)


if __name__ == "__main__":
    sys.stdout.write(table(TITLE, asyncio.run(measure())))

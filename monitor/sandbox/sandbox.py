"""One whole sandbox: a world in which things run, and the API that shows it."""

from __future__ import annotations

import asyncio
import copy
from datetime import datetime

import structlog
from aiohttp import web

from monitor.catalogue.operations import Edition, operation
from monitor.model.clock import Clock
from monitor.sandbox.api.oauth.token_endpoint import TOKEN_PATH
from monitor.sandbox.api.server import RequestListener, build_app
from monitor.sandbox.callbacks.deliveries import Deliveries
from monitor.sandbox.running.engine import Engine
from monitor.sandbox.running.past import Past
from monitor.sandbox.running.schedules import ScheduleRunner
from monitor.sandbox.running.traffic import Traffic
from monitor.sandbox.settings import SandboxSettings, TrafficSettings
from monitor.sandbox.world.ledger import Ledger
from monitor.sandbox.world.records.objects import TokenPair
from monitor.sandbox.world.seeding.seed import seed_world
from monitor.sandbox.world.shelves import World
from monitor.sandbox.world.token_pairs import access_token, switch_to_pairs

log = structlog.get_logger()

_STOP_SECONDS = 5.0


class Sandbox:
    """Wires the parts together. ``token`` is an administrator's; ``url`` is set while it runs.

    With OAuth ``token`` is the first access token of the administrator's ``pair``.
    """

    def __init__(self, settings: SandboxSettings, clock: Clock) -> None:
        self.settings = settings
        # A copy, so that a fault that is switched on at run time stays in this sandbox.
        options = copy.deepcopy(settings.options)
        self.world = World(clock=clock, seed=settings.seed, options=options)
        self.ledger = Ledger(kept=settings.work.ledger_kept)
        self.engine = Engine(self.world, ledger=self.ledger, settings=settings.work)
        self.deliveries = Deliveries(self.world, settings.deliveries)
        self.token = seed_world(
            self.world,
            token=settings.token,
            with_plans=_has_operation(settings.edition, "runPlan"),
            with_schedules=_has_operation(settings.edition, "listSchedules"),
            flows=settings.flows,
        )
        self.pair: TokenPair | None = None
        if settings.oauth is not None:
            self.pair = switch_to_pairs(
                self.world,
                client_secret=settings.oauth.client_secret,
                access_token_seconds=settings.oauth.access_token_seconds,
                refresh_token_seconds=settings.oauth.refresh_token_seconds,
            )
            self.token = access_token(self.world, self.pair).value
        self.url: str | None = None
        self._schedules = ScheduleRunner(self.world, self.engine)
        self._traffic = None
        if settings.traffic is not None:
            self._traffic = Traffic(self.world, self.engine, settings.traffic)
        self._listeners: list[RequestListener] = []
        self._is_open = asyncio.Event()
        self._life: asyncio.Task[None] | None = None
        self._work: asyncio.Task[None] | None = None
        self._runner: web.AppRunner | None = None
        self.engine.on_job_group_ended(self.deliveries.on_job_group_ended)
        self.engine.send_plan_requests_by(self.deliveries.send_plan_request)

    @property
    def token_url(self) -> str | None:
        """Where its pairs are refreshed, while it runs."""
        return None if self.url is None or self.pair is None else f"{self.url}{TOKEN_PATH}"

    def live_through(
        self,
        begin: datetime,
        until: datetime | None = None,
        *,
        people: TrafficSettings | None = None,
    ) -> None:
        """Let the time from ``begin`` happen at once, up to ``until`` or now; before `start`.

        Its runs are in the workspace and in no count; those that are not over go on. ``people``
        start at their busiest what that says; None: what the settings say.
        """
        people = people or self.settings.traffic or TrafficSettings()
        traffic = Traffic(self.world, self.engine, people)
        past = Past(self.world, self.engine, schedules=self._schedules, traffic=traffic)
        past.happen(begin, until or self.world.clock.now())

    async def start(self, port: int = 0, *, host: str = "127.0.0.1") -> str:
        """Listen, let things run, and return the base URL. Port 0 takes a free one.

        Raises:
            OSError: the port cannot be had.
        """
        app = build_app(
            self.world,
            engine=self.engine,
            deliveries=self.deliveries,
            ledger=self.ledger,
            edition=self.settings.edition,
            listeners=self._listeners,
        )
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, host, port).start()
        except OSError:
            await self._runner.cleanup()
            raise
        address = self._runner.addresses[0]
        self.url = f"http://{address[0]}:{address[1]}"
        self._life = asyncio.create_task(self._live(), name="sandbox")
        self._life.add_done_callback(_say_if_failed)
        if self.settings.is_busy_at_once:
            self.open_for_work()
        return self.url

    def on_request(self, listener: RequestListener) -> None:
        """Call ``listener`` with operation id and query just before a request is served."""
        self._listeners.append(listener)

    def open_for_work(self) -> None:
        """Let traffic and schedules begin, where the settings have them."""
        self._is_open.set()

    def stop_starting(self) -> None:
        """Start nothing more by itself; what runs goes on, and the API still can start things."""
        if self._traffic is not None:
            self._traffic.stop()
        self._schedules.stop()
        self.engine.faults.stop_sampling()

    def freeze(self) -> None:
        """Let nothing happen any more, for good; the API goes on showing how things stand."""
        self.stop_starting()
        if self._work is not None:
            self._work.cancel()

    async def stop(self) -> None:
        """End everything at once; unfinished runs stay unfinished."""
        if self._life is not None:
            self._life.cancel()
            await asyncio.wait({self._life}, timeout=_STOP_SECONDS)
            self._life = None
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None
        self.url = None

    async def _live(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self.deliveries.run(), name="deliveries")
            if self.settings.is_held:
                await self._is_open.wait()
            self._work = group.create_task(self.engine.run(), name="engine")
            await self._is_open.wait()
            group.create_task(self.engine.faults.sample(), name="samples")
            if self.settings.schedules_fire:
                group.create_task(self._schedules.run(), name="schedules")
            if self._traffic is not None:
                group.create_task(self._traffic.run(), name="traffic")


def _has_operation(edition: Edition, operation_id: str) -> bool:
    return operation(operation_id).is_part_of(edition)


def _say_if_failed(life: asyncio.Task[None]) -> None:
    # No caller awaits this task: a fault in it would otherwise look like a quiet workspace.
    if not life.cancelled() and (error := life.exception()) is not None:
        log.error("the sandbox has stopped by a fault of its own", exc_info=error)

"""Plays a batch of worlds: their server, a broker, and one daemon that follows all of them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
from msgspec import Struct
from prometheus_client import CollectorRegistry

from monitor.app.daemon import Addresses, Daemon
from monitor.config import Configuration
from monitor.model.clock import Clock
from monitor.model.errors import BusError
from tests.app.alertmanager_receiver import Notified
from tests.app.daemon_http import Face
from tests.app.eventually import eventually
from tests.paced_clock import PacedClock
from tests.servers import Mosquitto
from tests.worlds.allowances import (
    DELETED_SECONDS,
    FOR_SECONDS,
    due,
)
from tests.worlds.blindness import blind_spans, blindnesses, due_report
from tests.worlds.configuration import CALLBACK_SECRET, configuration
from tests.worlds.deadline_truth import latest_decision
from tests.worlds.expected_runs import expected_runs
from tests.worlds.final_faces import FinalFaces, read_final_faces
from tests.worlds.glimpses import Glimpse, glimpse_times, read_glimpse
from tests.worlds.impairments import Span
from tests.worlds.received import Arrival, WorldSubscriber
from tests.worlds.script import NEVER, Callback, World
from tests.worlds.server import WorldServer
from tests.worlds.store_harm import BatchStore, StoreFile

SPEED = 70.0  # worlds' seconds in a second of the machine
_BEHIND = timedelta(hours=1)  # so long before the machine's time the worlds begin, save by night
_START_SECONDS = 240.0  # from the start of the clock until the worlds begin; a daemon needs half
_COPY_AGE_SECONDS = 15.0  # of the store that takes the place of a deleted one
_ENDS_WITHIN_SECONDS = 20.0  # of the machine, until a daemon without a store has ended
_DAMAGED_AT = (0.0, 0.5)  # of the store's length
_TAIL_SECONDS = 25.0


class Notifications(Struct, frozen=True, kw_only=True):
    """What an Alertmanager holds at the end, and what it notified before."""

    active: list[dict[str, Any]]
    notified: list[dict[str, Any]]


class Played(Struct, frozen=True, kw_only=True):
    """What came of a batch: everything that was said, and what is needed to weigh it."""

    zero: datetime
    until: float
    planned: datetime | None = None  # when they should begin; None: as they did
    arrivals: list[Arrival]
    delivered: dict[str, list[Callback]]  # by workspace
    blind: dict[str, list[Span]]  # by workspace, as it really was
    faces: dict[str, FinalFaces]  # by workspace, at the end
    stops: list[Span] = []  # of the daemon
    forgotten: list[Span] = []  # an older store knows nothing of them
    glimpses: list[Glimpse] = []  # of the faces, while something could not be followed
    notified: Notifications | None = None  # None: without an Alertmanager


async def play(
    worlds: Sequence[World],
    folder: Path,
    *,
    store: BatchStore | None = None,
    speed: float = SPEED,
    alertmanager: Notified | None = None,
) -> Played:
    """Play worlds that share their stops, side by side, and return what the daemon said.

    Without a ``store`` it has a file.

    An Alertmanager lives by the machine's clock. The worlds' clock stays behind that, so that no
    alert ends in its future; without one they begin in the night that they name.
    """
    store = store or StoreFile(folder / "state.db")
    planned = worlds[0].begins_at if alertmanager is None else None
    planned = planned or (datetime.now(UTC) - _BEHIND).replace(second=0, microsecond=0)
    start = planned - timedelta(seconds=_START_SECONDS)
    clock = PacedClock(store.pace(), speed=speed, start=start)
    server = WorldServer(worlds, clock)
    async with (
        Mosquitto(folder) as broker,
        WorldSubscriber(broker.port, server.seconds) as subscriber,
    ):
        url = await server.start()
        try:
            settings = configuration(
                worlds, url, broker.url, store.url, speed=speed, planned=planned
            )
            if alertmanager is not None:
                sent = alertmanager.settings(resend_seconds=_BEHIND.total_seconds())
                settings = msgspec.structs.replace(
                    settings, outputs={**settings.outputs, "alertmanager": sent}
                )
            fixture = _Fixture(worlds, server, clock, settings, store, planned=planned)
            return await fixture.run(subscriber, alertmanager)
        finally:
            await server.stop()
            await clock.stop()


class _Fixture:
    """The daemon of a batch, started and stopped by the script."""

    def __init__(
        self,
        worlds: Sequence[World],
        server: WorldServer,
        clock: PacedClock,
        settings: Configuration,
        store: BatchStore,
        *,
        planned: datetime,
    ) -> None:
        self._planned = self._zero = planned
        self._worlds = worlds
        self._store = store
        self._server = server
        self._clock = clock
        self._settings = settings
        self._delivered: dict[str, list[Callback]] = {world.name: [] for world in worlds}
        self._stops: list[Span] = []
        self._glimpses: list[Glimpse] = []

    async def run(self, subscriber: WorldSubscriber, alertmanager: Notified | None) -> Played:
        """Play to the end; the clock of the daemon is set meanwhile, also while it is stopped."""
        setting = asyncio.create_task(self._set_clock(), name="setting the clock")
        try:
            return await self._play(subscriber, alertmanager)
        finally:
            setting.cancel()
            await asyncio.gather(setting, return_exceptions=True)

    async def _set_clock(self) -> None:
        for clock_set in self._worlds[0].our_clock_sets:
            while (left := clock_set.at - self._server.seconds()) > 0:
                # In steps: the worlds have not begun yet.
                await self._clock.sleep(min(left, 1.0))
            self._clock.set_by(clock_set.seconds)

    async def _play(self, subscriber: WorldSubscriber, alertmanager: Notified | None) -> Played:
        async with aiohttp.ClientSession() as session:
            for number, stop in enumerate((*self._worlds[0].stops, None)):
                async with self._life(stop) as face:
                    if number == 0:
                        await self._follow(face)
                        self._begin()
                    else:
                        self._stops[-1] = Span(self._stops[-1].begin, self._server.seconds())
                    end = self._until() if stop is None else stop.begin
                    await self._deliver(session, face, until=end)
                    if stop is None:
                        faces = await read_final_faces(face, self._worlds)
                        notified = None if alertmanager is None else await _read(alertmanager)
                        break
                    self._stops.append(Span(self._known_until(), stop.end))
                await self._sleep_until(stop.end)
                await self._harm_stopped_store()
        return Played(
            zero=self._zero,
            planned=self._planned,
            until=self._server.seconds(),
            arrivals=list(subscriber.arrivals),
            delivered=self._delivered,
            blind={world.name: blind_spans(world, self._stops) for world in self._worlds},
            faces=faces,
            stops=self._stops,
            forgotten=self._stops[:1] if self._worlds[0].store_deleted_at < NEVER else [],
            glimpses=self._glimpses,
            notified=notified,
        )

    @contextlib.asynccontextmanager
    async def _life(self, stop: Span | None) -> AsyncIterator[Face]:
        """Run the daemon; its store is deleted at the end of a life, where the script says so."""
        deleted_at = self._worlds[0].store_deleted_at
        if stop is None or stop.begin != deleted_at:
            async with _daemon(self._settings, self._clock) as face:
                yield face
            return
        is_stopped = not self._store.ends_daemon
        async with _daemon(self._settings, self._clock, is_stopped=is_stopped) as face:
            yield face
            self._store.delete()
        self._store.restore()

    async def _harm_stopped_store(self) -> None:
        """Damage the store and see that no daemon starts on it, then mend it."""
        if not self._worlds[0].is_store_damaged:
            return
        assert isinstance(self._store, StoreFile)
        self._store.back_up()
        for share in _DAMAGED_AT:
            self._store.flip(share)
            try:
                async with _daemon(self._settings, self._clock):
                    raise AssertionError("a daemon has started on a damaged store")
            except BusError:
                self._store.restore()

    async def _follow(self, face: Face) -> None:
        names = [world.name for world in self._worlds]
        await eventually(lambda: face.is_following(*names), why="not every world is followed")

    def _begin(self) -> None:
        """Begin as planned, or soon where the machine needed longer."""
        soon = (self._clock.now() + timedelta(seconds=3)).replace(microsecond=0)
        self._zero = max(soon, self._planned)
        self._server.begin(self._zero)

    def _until(self) -> float:
        """Return when everything that must be reported is due."""
        latest = 0.0
        for world in self._worlds:
            blind = blind_spans(world, self._stops)
            delivered = self._delivered[world.name]
            gone = (due(flow.deleted_at, DELETED_SECONDS, blind) for flow in world.flows)
            ended = (run.due_at for run in expected_runs(world, delivered, blind))
            parts = blindnesses(world)
            reported = (due_report(part, [*world.outages, *self._stops]) for part in parts)
            recovered = (part.recovered_at for part in parts)
            decided = latest_decision(world, self._planned, self._zero, blind)
            ats = (*gone, *ended, *reported, *recovered, decided)
            latest = max([latest, *(at for at in ats if at < NEVER)])
        return latest + FOR_SECONDS + _TAIL_SECONDS

    async def _deliver(self, session: aiohttp.ClientSession, face: Face, *, until: float) -> None:
        """Let time pass to ``until``; send the callbacks that are due, and read the faces."""
        begin = self._server.seconds()
        callbacks = [
            (callback.at, world.name, callback)
            for world in self._worlds
            for callback in world.callbacks
        ]
        glimpses = [(at, "", None) for world in self._worlds for at in glimpse_times(world, until)]
        copied_at = self._copied_at()
        lasting = copied_at if begin <= copied_at < until else until
        for at, name, callback in sorted([*callbacks, *glimpses], key=itemgetter(0, 1)):
            if not begin <= at < lasting:
                continue
            await self._sleep_until(at)
            if callback is None:
                self._glimpses.append(await read_glimpse(face, self._server.seconds))
            else:
                await self._send(session, name, callback)
        if lasting < until:
            await self._sleep_until(lasting)
            self._store.back_up()
        await self._sleep_until(until)

    def _copied_at(self) -> float:
        """Return when the store is copied that will be deleted: callbacks after it are lost."""
        return self._worlds[0].store_deleted_at - _COPY_AGE_SECONDS

    def _known_until(self) -> float:
        """Return until when the next life knows what this one has received."""
        is_first = not self._stops
        return min(self._server.seconds(), self._copied_at() if is_first else NEVER)

    async def _send(self, session: aiohttp.ClientSession, name: str, callback: Callback) -> None:
        body = {"job_id": str(callback.job_group), "job_status": callback.status.value}
        if await self._post(session, name, body):
            arrived = msgspec.structs.replace(callback, at=self._server.seconds())
            self._delivered[name].append(arrived)

    async def _post(self, session: aiohttp.ClientSession, name: str, body: dict[str, str]) -> bool:
        assert self._settings.callbacks is not None
        url = f"http://127.0.0.1:{self._settings.callbacks.port}/hooks/{name}"
        headers = {"X-Monitor-Secret": CALLBACK_SECRET}
        async with session.post(url, json=body, headers=headers) as answer:
            return answer.status == 204

    async def _sleep_until(self, at: float) -> None:
        await self._clock.sleep(at - self._server.seconds())


async def _read(alertmanager: Notified) -> Notifications:
    return Notifications(active=await alertmanager.active(), notified=alertmanager.alerts)


@contextlib.asynccontextmanager
async def _daemon(
    settings: Configuration, clock: Clock, *, is_stopped: bool = True
) -> AsyncIterator[Face]:
    """Run a daemon in this process and yield what it shows, then stop it.

    Where it is not stopped it must end by itself, and say that it has lost its store.
    """
    running = Daemon(settings, clock=clock, registry=CollectorRegistry())
    addresses: asyncio.Future[Addresses] = asyncio.get_running_loop().create_future()
    stop = asyncio.Event()
    task = asyncio.create_task(
        running.run(stop, on_started=addresses.set_result), name="the daemon of the worlds"
    )
    await asyncio.wait((task, addresses), return_when=asyncio.FIRST_COMPLETED)
    if not addresses.done():
        await task
    try:
        yield Face(addresses.result().server_port)
        if not is_stopped:
            await asyncio.wait((task,), timeout=_ENDS_WITHIN_SECONDS)
            assert task.done(), "the daemon runs on without its store"
            assert isinstance(task.exception(), BusError), "the daemon does not name its store"
    finally:
        stop.set()
        if is_stopped or not task.done():
            await task

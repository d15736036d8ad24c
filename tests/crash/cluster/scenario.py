"""Three daemons as processes on one database, and everything around them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from msgspec import Struct

from monitor.bus.shards import CLUSTER
from monitor.model.clock import SystemClock
from monitor.sandbox.sandbox import Sandbox
from monitor.sandbox.settings import SandboxSettings, WorkSettings
from tests.app.eventually import eventually
from tests.app.fixture import started
from tests.app.mqtt_subscriber import Subscriber, keeping_broker
from tests.app.processes import Watched
from tests.crash.cluster.counters import CounterWatch
from tests.crash.cluster.database import NAME, Database
from tests.crash.cluster.load import Load
from tests.crash.cluster.member import ClusterAddresses, Member, MemberSettings
from tests.crash.cluster.networks import Network
from tests.crash.cluster.peers import process_of
from tests.crash.cluster.received import ReceivedByWorkspace
from tests.crash.cluster.watches import AlertmanagerReads, AlertmanagerWatch, BrokerWatch
from tests.outputs.receiving import PostReceiver
from tests.servers import Alertmanager, Mosquitto

NAMES = ("north", "east", "west")
_PATIENCE_SECONDS = 90.0


class ClusterOptions(Struct, frozen=True, kw_only=True):
    """How large a cluster is, and how quick."""

    seed: int
    lease_seconds: float = 9.0
    workspaces: int = 4
    start_pause_seconds: float = 0.5  # between two runs of one workspace, on average
    sets_clocks: bool = False  # processes whose clocks can be set take twice the processor time
    fills_disks: bool = False  # each database server has a disk of its own, which root mounts


class Cluster:
    """Everything of one scenario, and what a fault may do to it."""

    def __init__(
        self,
        options: ClusterOptions,
        *,
        folder: Path,
        workspaces: dict[str, Sandbox],
        database: Database,
        broker: Mosquitto,
        broker_watch: BrokerWatch,
        alertmanager_watch: AlertmanagerWatch,
        alertmanager_reads: AlertmanagerReads,
        notified: PostReceiver,
        subscriber: Subscriber,
        members: Sequence[Member],
    ) -> None:
        self.options = options
        self.folder = folder
        self.workspaces = workspaces
        self.database = database
        self.broker = broker
        self.broker_watch = broker_watch
        self.alertmanager_watch = alertmanager_watch
        self.alertmanager_reads = alertmanager_reads
        self.notified = notified
        self.subscriber = subscriber
        self.received = ReceivedByWorkspace(subscriber, workspaces)
        self.members = members
        self.chance = random.Random(options.seed)  # noqa: S311 - no secret
        self.counters = CounterWatch(members)
        self.load = Load(
            workspaces,
            [member.callbacks_port for member in members],
            chance=random.Random(options.seed + 1),  # noqa: S311 - no secret
            pause_seconds=options.start_pause_seconds,
        )
        self.faults: list[str] = []
        self.faults_at: list[float] = []  # of `time.time`, when each of them began
        self.failovers: list[float] = []  # in seconds
        self.broken: list[str] = []  # promises, as faults have found out themselves
        self.lasting: dict[str, str] = {}  # labels of what fails all the time, since when
        self.lasting_since = float("inf")

    @property
    def lease_seconds(self) -> float:
        return self.options.lease_seconds

    @property
    def logs(self) -> str:
        """Return the ends of all logs, for a failure."""
        return "\n".join(
            f"--- {member.name}\n{member.process.log[-3000:]}" for member in self.members
        )

    async def holders(self) -> dict[str, str | None]:
        return await self.database.holders()

    async def holding_members(self) -> list[Member]:
        """Return the daemons that hold something; a fault of another shows nothing."""
        holders = set((await self.holders()).values())
        return [member for member in self.members if member.name in holders]

    async def until_settled(self) -> None:
        """Return when every daemon is up and every shard is held by one of them."""
        for member in self.members:
            if not member.is_alive:
                await member.start()
        live = {member.name for member in self.members}
        holders: dict[str, str | None] = {}

        async def is_held() -> bool:
            nonlocal holders
            holders = await self.holders()
            return len(holders) >= len(self.workspaces) and set(holders.values()) <= live

        await eventually(
            is_held,
            why=lambda: (
                f"{holders} after {self.faults[-3:]}, seed {self.options.seed}\n{self.logs}"
            ),
            within_seconds=_PATIENCE_SECONDS,
        )

    async def until_followed(self) -> None:
        """Return when every workspace is: what ends before that is history to the daemons."""

        async def are_followed() -> bool:
            holders = await self.holders()
            return all(
                [
                    await member.process.face.is_following(name)
                    for member in self.members
                    for name in self.workspaces
                    if holders.get(name) == member.name
                ]
            )

        await eventually(are_followed, why=lambda: self.logs, within_seconds=_PATIENCE_SECONDS)

    async def until_lasting(self) -> None:
        """Let something fail in each workspace; return when Alertmanager has alerts of all."""
        self.load.fail_lastingly()

        def are_firing() -> bool:
            self.lasting = {
                labels: since
                for read in self.alertmanager_reads.reads[-1:]
                for labels, since in read.since.items()
                if json.loads(labels)["workspace"] in self.workspaces
            }
            return len(self.lasting) == len(self.workspaces)

        await eventually(are_firing, why=lambda: self.logs, within_seconds=_PATIENCE_SECONDS)
        self.lasting_since = time.time()

    def reported(self, member: Member) -> list[str]:
        """Return what was received so far of the alerts about a daemon, oldest first."""
        self.received.read_new()
        return [
            event["type"].split(".")[-2]
            for event in self.received.of_alerts[CLUSTER].events.values()
            if event["data"]["labels"].get("part") == f"daemon:{member.name}"
        ]

    async def until_none_is_reported(self) -> None:
        """Return when every alert about a daemon has ended, because all of them are back."""
        await eventually(
            lambda: all(self.reported(member)[-1:] != ["fired"] for member in self.members),
            why=lambda: f"{[self.reported(member) for member in self.members]}\n{self.logs}",
            within_seconds=_PATIENCE_SECONDS,
        )

    async def until_reported(self, member: Member, words: Sequence[str]) -> None:
        """Return when just this was received of the alerts about a daemon."""
        await eventually(
            lambda: self.reported(member) == list(words),
            why=lambda: f"{member.name}: {self.reported(member)}, not {words}\n{self.logs}",
            within_seconds=_PATIENCE_SECONDS,
        )

    async def until_written(self) -> float:
        """Return after how many seconds the primary has something new of every workspace."""
        began = time.monotonic()
        before = await self.database.newest_positions()

        async def is_written() -> bool:
            newest = await self.database.newest_positions()
            return all(newest[name] > before[name] for name in self.workspaces)

        await eventually(is_written, why=lambda: self.logs, within_seconds=_PATIENCE_SECONDS)
        return time.monotonic() - began

    async def until_held_by_others(self, member: Member) -> float:
        """Return after how many seconds everything of this daemon was taken over."""
        began = time.monotonic()

        async def is_taken() -> bool:
            return member.name not in (await self.holders()).values()

        await eventually(
            is_taken,
            why=lambda: (
                f"{member.name} still holds something, seed {self.options.seed}\n{self.logs}"
            ),
            within_seconds=_PATIENCE_SECONDS,
        )
        return time.monotonic() - began

    def lead_networks(self) -> None:
        """Let every daemon reach the servers where they are now."""
        for member in self.members:
            for network, port in zip(member.networks, self.database.ports, strict=True):
                network.lead_to(port)


@contextlib.asynccontextmanager
async def cluster(folder: Path, options: ClusterOptions) -> AsyncIterator[Cluster]:
    """Set everything up; yield it under load, once every shard is held and every daemon is up."""
    workspaces = {
        f"team{number}": _sandbox(options.seed + number) for number in range(options.workspaces)
    }
    members: list[Member] = []

    def find_daemon(port: int, to: int) -> str | None:
        by_process = {
            member.process.process_id: member.name
            for member in members
            if member.process.is_started
        }
        found = process_of(port, to=to, process_ids=by_process)
        return None if found is None else by_process[found]

    async with contextlib.AsyncExitStack() as stack:
        watched = [
            Watched(name, await stack.enter_async_context(started(sandbox)), sandbox.token)
            for name, sandbox in workspaces.items()
        ]
        database = await stack.enter_async_context(
            Database(*NAMES, sets_clocks=options.sets_clocks, fills_disks=options.fills_disks)
        )
        broker = await stack.enter_async_context(keeping_broker(folder))
        broker_watch = await stack.enter_async_context(
            BrokerWatch(broker.port, find_daemon=find_daemon)
        )
        notified = await stack.enter_async_context(PostReceiver())
        alertmanager = await stack.enter_async_context(
            Alertmanager(folder, notify_url=notified.url, group_by="'...'")
        )
        alertmanager_watch = await stack.enter_async_context(
            AlertmanagerWatch(alertmanager.url, find_daemon=find_daemon)
        )
        alertmanager_reads = AlertmanagerReads(alertmanager.url)
        addresses = ClusterAddresses(
            broker=f"mqtt://127.0.0.1:{broker_watch.port}",
            alertmanager=alertmanager_watch.url,
            lease_seconds=options.lease_seconds,
        )
        for name in NAMES:
            networks = [await stack.enter_async_context(Network(port)) for port in database.ports]
            members.append(_member(folder, name, watched, networks, addresses))
        scenario = Cluster(
            options,
            folder=folder,
            workspaces=workspaces,
            database=database,
            broker=broker,
            broker_watch=broker_watch,
            alertmanager_watch=alertmanager_watch,
            alertmanager_reads=alertmanager_reads,
            notified=notified,
            subscriber=await stack.enter_async_context(Subscriber(broker.port)),
            members=members,
        )
        await stack.enter_async_context(_living(scenario))
        yield scenario


@contextlib.asynccontextmanager
async def _living(scenario: Cluster) -> AsyncIterator[None]:
    """Let the daemons run, and the watches of them."""
    watches = (scenario.counters.run(), scenario.alertmanager_reads.run())
    reading = [asyncio.create_task(watch) for watch in watches]
    try:
        for member in scenario.members:  # together they would take longer than one may
            if scenario.options.sets_clocks:
                member.set_clock()
            await member.start()
        await scenario.until_settled()
        await scenario.until_followed()
        for sandbox in scenario.workspaces.values():
            sandbox.open_for_work()
        await scenario.until_lasting()
        yield
    finally:
        for task in reading:
            task.cancel()
        await asyncio.gather(*reading, return_exceptions=True)
        for member in scenario.members:
            await member.process.leave()


def _sandbox(seed: int) -> Sandbox:
    return Sandbox(
        SandboxSettings(
            seed=seed,
            work=WorkSettings(speed=1.0, steps_per_job=2),
            traffic=None,
            schedules_fire=False,
            is_busy_at_once=False,
        ),
        SystemClock(),
    )


def _member(
    folder: Path,
    name: str,
    watched: Sequence[Watched],
    networks: Sequence[Network],
    addresses: ClusterAddresses,
) -> Member:
    own = folder / name
    own.mkdir()
    hosts = ",".join(f"127.0.0.1:{network.port}" for network in networks)
    settings = MemberSettings(
        own,
        name,
        *watched,
        addresses=addresses,
        storage_url=f"postgresql://{name}@{hosts}/{NAME}?sslmode=disable",
    )
    return Member(settings, networks)

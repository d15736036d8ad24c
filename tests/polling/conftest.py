"""One workspace, one store and everything between them, without any task running."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from monitor.catalogue.capabilities import capabilities_of
from monitor.catalogue.operations import Edition
from monitor.model.clock import Clock
from monitor.model.events import RunEvent, WorkspaceEvent
from monitor.model.lease_check import MaySend
from monitor.model.runs import RunKey, RunKind, RunState
from monitor.polling.discovery.capability_discovery import CapabilityDiscovery
from monitor.polling.poll_list import WorkspacePolls, build, declared_polls
from monitor.polling.poll_loop.context import PollContext
from monitor.polling.poll_loop.poll import Poll
from monitor.polling.poll_loop.reachability import ReachabilityJudge
from monitor.polling.poller import WorkspacePoller
from monitor.polling.settings import InventorySettings, PollSettings
from monitor.tracking.live_state import LiveState
from monitor.tracking.observer import Observer
from monitor.tracking.settings import TrackingSettings
from monitor.workspace.client import WorkspaceClient
from monitor.workspace.settings import WorkspaceSettings
from tests.app.eventually import pause
from tests.app.refusing_store import RefusingStore
from tests.clocks import ManualClock
from tests.polling.tiny_workspace import TinyWorkspace

_CHECK_INTERVAL_SECONDS = 0.001

NAME = "marketing"


@dataclass
class Scenario:
    """What a test acts on. `begin` connects; after `restart` everything is as after a crash."""

    clock: Clock
    folder: Path
    url: str
    settings: PollSettings
    inventory: InventorySettings | None = None
    edition: Edition | None = Edition.RL
    token: object = None
    page_size: int = 250
    requests_per_minute: float = 60_000
    may_send: MaySend | None = None
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
    bus: RefusingStore = field(init=False)
    live_state: LiveState = field(init=False)
    observer: Observer = field(init=False)
    client: WorkspaceClient = field(init=False)
    context: PollContext = field(init=False)
    polls: WorkspacePolls = field(init=False)
    declared: dict[str, Poll] = field(init=False)

    async def open(self) -> None:
        self.registry = CollectorRegistry()
        self.bus = await RefusingStore.opened(
            self.folder / "state.db", clock=self.clock, registry=self.registry
        )
        self.live_state = LiveState([NAME])
        self.observer = Observer(
            bus=self.bus,
            live_state=self.live_state,
            clock=self.clock,
            registry=self.registry,
            settings=TrackingSettings(),
        )
        self.client = WorkspaceClient(
            WorkspaceSettings(
                name=NAME,
                url=self.url,
                token=self.token,  # type: ignore[arg-type]  # None or the sandbox's secret
                edition=self.edition,
                requests_per_minute=self.requests_per_minute,
                retries=0,
                page_size=self.page_size,
            ),
            clock=self.clock,
            registry=self.registry,
            may_send=self.may_send,
        )
        self.context = PollContext(
            client=self.client,
            observer=self.observer,
            live_state=self.live_state,
            bus=self.bus,
            clock=self.clock,
            settings=self.settings,
            inventory=self.inventory,
        )
        self.polls = build(self.context)
        discovery = CapabilityDiscovery(self.context, ReachabilityJudge(self.context))
        self.declared = {poll.name: poll for poll in declared_polls(self.polls, discovery)}

    async def poll(self, name: str) -> object:
        """Run one declared poll once."""
        return await self.declared[name].run()

    async def begin(self, edition: Edition = Edition.RL) -> None:
        """Connect as a poller does, without probing: the edition is as given."""
        self.client.requester.edition = edition
        self.live_state.update_workspace(
            NAME,
            edition=str(edition),
            capabilities=frozenset(str(capability) for capability in capabilities_of(edition)),
        )
        if await self.observer.open(NAME) is None:
            await self.client.requester.request("getOpenApiSpec", priority=0)  # type: ignore[arg-type]  # any answer shows the time
            await self.observer.follow_since(NAME, self.context.workspace_now())
        await self.polls.load()

    async def restart(self, edition: Edition = Edition.RL) -> None:
        await self.close()
        await self.open()
        await self.begin(edition)

    async def close(self) -> None:
        await self.client.close()
        await self.bus.close()

    def poller(self) -> WorkspacePoller:
        return WorkspacePoller(
            self.client,
            observer=self.observer,
            live_state=self.live_state,
            bus=self.bus,
            clock=self.clock,
            registry=self.registry,
            settings=self.settings,
            inventory=self.inventory,
        )

    async def changes(self) -> list[tuple[str, str | None, str | None]]:
        """Return what changed of the workspace itself, with its old and new value."""
        events = [recorded.event for recorded in await self.bus.events(after=0, limit=10_000)]
        return [
            (event.what, event.before, event.after)
            for event in events
            if isinstance(event, WorkspaceEvent)
        ]

    async def run_events(self, kind: RunKind | None = None) -> list[str]:
        """Return "id:transition" of every run event, in the order of the log."""
        events = [recorded.event for recorded in await self.bus.events(after=0, limit=10_000)]
        return [
            f"{event.run.key.id}:{event.type.removeprefix('run.')}"
            for event in events
            if isinstance(event, RunEvent) and kind in (None, event.run.key.kind)
        ]

    async def state(self, run_id: int, kind: RunKind = RunKind.JOB_GROUP) -> RunState | None:
        key = self.key(run_id, kind)
        return (await self.observer.known((key,))).get(key)

    def key(self, run_id: int, kind: RunKind = RunKind.JOB_GROUP) -> RunKey:
        return RunKey(workspace=NAME, kind=kind, id=str(run_id))

    def sample(self, name: str, **labels: str) -> float:
        return self.registry.get_sample_value(name, labels) or 0.0

    def since(self) -> datetime:
        since = self.live_state.workspaces[NAME].followed_since
        assert since is not None
        return since


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def workspace(clock: ManualClock) -> AsyncIterator[TinyWorkspace]:
    tiny = TinyWorkspace(clock)
    await tiny.start()
    yield tiny
    await tiny.stop()


@pytest.fixture
def settings() -> PollSettings:
    """Override in a module or by a parameter where a test needs others."""
    return PollSettings(detail_wait_seconds=0.0)


@pytest.fixture
async def unbegun(
    clock: ManualClock, workspace: TinyWorkspace, tmp_path: Path, settings: PollSettings
) -> AsyncIterator[Scenario]:
    """A scenario before its first request."""
    made = Scenario(clock=clock, folder=tmp_path, url=workspace.url, settings=settings)
    await made.open()
    yield made
    await made.close()


@pytest.fixture
async def scenario(unbegun: Scenario, clock: ManualClock) -> Scenario:
    """A connected scenario; the workspace has been followed for an hour."""
    await unbegun.begin()
    await clock.advance(3_600)
    return unbegun


async def until(condition: Callable[[], bool], *, seconds: float = 20) -> None:
    """Let everything go on until ``condition`` holds."""
    async with asyncio.timeout(seconds):
        while not condition():
            # A loop that only spins would keep the store's thread from its turns.
            await pause(_CHECK_INTERVAL_SECONDS)


async def asleep(clock: ManualClock) -> None:
    """Let everything go on until every loop of a running poller waits for its time."""
    await clock.advance(0)
    # That of the recovery is there before the polls are.
    await until(lambda: 1 < loops() == sum(not sleeper.done() for _, _, sleeper in clock._sleepers))


def loops() -> int:
    """Return how many tasks of pollers sleep when they have nothing to do."""
    names = {task.get_name() for task in asyncio.all_tasks()}
    # The one that only holds the readers of job records together never sleeps itself.
    return sum(name.startswith(f"{NAME}: ") for name in names - {f"{NAME}: details"})

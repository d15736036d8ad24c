"""A sandbox whose access tokens are refreshed, and the daemon's part that refreshes them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry

from monitor.app.hosted.token_store import StoredTokenStore
from monitor.bus.contract import EventBus
from monitor.bus.sqlite import SqliteBus
from monitor.model.errors import BusLostError, BusUnavailableError, ConfigurationError
from monitor.model.live_state import TokenStatus, TokenTrouble
from monitor.model.secrets import Secret
from monitor.sandbox.sandbox import Sandbox
from monitor.sandbox.settings import OAuthSettings, SandboxSettings
from monitor.sandbox.world.token_pairs import replaced, revoke
from monitor.workspace.access.refreshed_tokens import RefreshedTokens
from monitor.workspace.access.stored_tokens import StoredTokens, TokenMemory
from monitor.workspace.access.token_endpoint import NotRefreshed, RefreshOutcome, TokenEndpoint
from monitor.workspace.api_metrics import ApiMetrics
from monitor.workspace.client import WorkspaceClient
from monitor.workspace.priority import Priority
from monitor.workspace.settings import OauthSettings, WorkspaceSettings
from tests.app.eventually import eventually
from tests.clocks import ManualClock

NAME = "acme"
ACCESS_SECONDS = 300


@dataclass
class TokenFile:
    """Where a person puts the refresh token, as a file that is read again."""

    text: str

    def secret(self) -> Secret:
        if not self.text:
            raise ConfigurationError("the secret is empty; put it there")
        return Secret(self.text, read_again=self.secret)


class Step(StrEnum):
    """Where a daemon dies within a refresh, or loses its shard to another."""

    BEFORE_ALL = "before that it is sent is stored"
    BEFORE_SENDING = "before it is sent"
    WAITING = "after the endpoint has handled it, before its answer"
    BEFORE_STORING = "after its answer, before the pair is stored"
    AFTER_STORING = "after the pair is stored, before it is used"
    FENCED_BEFORE_SENDING = "the shard is lost before it is sent"
    FENCED_BEFORE_STORING = "the shard is lost before the pair is stored"

    @property
    def loses_the_answer(self) -> bool:
        return self in (Step.WAITING, Step.BEFORE_STORING, Step.FENCED_BEFORE_STORING)


class DiedError(Exception):
    """The process is gone: nothing of it runs on."""


class DyingStore:
    """The real store of a daemon that may die before or after a write."""

    def __init__(self, daemon: Refresher) -> None:
        self._daemon = daemon

    async def load(self) -> StoredTokens:
        return await self._daemon.stored.load()

    async def store(self, tokens: StoredTokens) -> None:
        daemon, pair = self._daemon, tokens.pair
        known = (await daemon.stored.load()).pair
        is_new = pair is not None and pair != known
        await daemon.stop_at(Step.BEFORE_STORING if is_new else Step.BEFORE_ALL)
        if daemon.dies_at is (Step.BEFORE_STORING if is_new else Step.BEFORE_ALL):
            raise DiedError
        if is_new and daemon.dies_at is Step.FENCED_BEFORE_STORING:
            raise BusLostError("another daemon has the shard")
        if daemon.refuses_all or (is_new and daemon.refuses_pairs):
            raise BusUnavailableError("disk full")
        await daemon.stored.store(tokens)
        if is_new:
            await daemon.stop_at(Step.AFTER_STORING)
        if is_new and daemon.dies_at is Step.AFTER_STORING:
            raise DiedError


class DyingEndpoint(TokenEndpoint):
    """The real way to the endpoint, of a daemon that may die on it."""

    def __init__(
        self, settings: WorkspaceSettings, oauth: OauthSettings, daemon: Refresher
    ) -> None:
        super().__init__(settings, oauth, may_send=self._may_send)
        self._daemon = daemon

    def _may_send(self) -> bool:
        daemon = self._daemon
        return daemon.dies_at is not Step.FENCED_BEFORE_SENDING and daemon.bus.may_publish()

    async def refresh(self, refresh_token: Secret, *, client_secret: Secret | None) -> Any:
        daemon = self._daemon
        await daemon.stop_at(Step.BEFORE_SENDING)
        if daemon.dies_at is Step.BEFORE_SENDING:
            raise DiedError
        if refresh_token.reveal() == daemon.rejects:
            return NotRefreshed(outcome=RefreshOutcome.REJECTED, reason="HTTP 400 invalid_request")
        sending = super().refresh(refresh_token, client_secret=client_secret)
        if daemon.dies_at is not Step.WAITING:
            return await sending
        assert daemon.sandbox.pair is not None
        pair, world = daemon.sandbox.pair, daemon.sandbox.world
        handled, world.options.token_answer_latency = pair.refreshes, 60.0
        task = asyncio.create_task(sending)
        try:
            # One that is refused has no latency.
            await eventually(lambda: pair.refreshes > handled or task.done(), why="no refresh")
        finally:
            world.options.token_answer_latency = 0.0
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        raise DiedError


@dataclass(kw_only=True)
class Refresher:
    """One life of the daemon's part, from `start` to `stop` or `kill`. ``store`` is a real file.

    One that is stopped within a refresh goes on when it is woken, as a frozen process does.
    """

    clock: ManualClock
    sandbox: Sandbox
    file: TokenFile
    store_path: Path
    dies_at: Step | None = None  # of its next refresh
    stops_at: Step | None = None  # likewise
    memory: TokenMemory = field(default_factory=TokenMemory)
    refuses_all: bool = False  # the store does, also what follows
    refuses_pairs: bool = False
    rejects: str | None = None  # the endpoint does: that refresh token, not as a dead one
    status: TokenStatus = field(default_factory=TokenStatus)
    cycles: int = 0

    async def start(self, bus: EventBus | None = None) -> None:
        """Begin on a bus of the test, or on one of its own in the file."""
        self.registry = CollectorRegistry()
        self.has_stopped, self.wakes = asyncio.Event(), asyncio.Event()
        self.owns_bus = bus is None
        self.bus: EventBus = bus or await SqliteBus.open(
            self.store_path, clock=self.clock, registry=self.registry
        )
        assert self.sandbox.url is not None
        assert self.sandbox.token_url is not None
        assert self.sandbox.pair is not None
        oauth = OauthSettings(
            token_url=self.sandbox.token_url,
            client_id=self.sandbox.pair.client_id,
            refresh_token=self.file.secret(),
        )
        settings = WorkspaceSettings(
            name=NAME,
            url=self.sandbox.url,
            oauth=oauth,
            requests_per_minute=60_000,
            retries=0,
        )
        self.stored = StoredTokenStore(NAME, self.bus)
        self.tokens = RefreshedTokens(
            NAME,
            oauth,
            endpoint=DyingEndpoint(settings, oauth, self),
            store=DyingStore(self),
            memory=self.memory,
            clock=self.clock,
            metrics=ApiMetrics.of(self.registry),
            show=self._shown,
        )
        self.client = WorkspaceClient(
            settings, clock=self.clock, registry=self.registry, tokens=self.tokens
        )
        self.task = asyncio.create_task(self.tokens.run(), name="access token")

    def _shown(self, status: TokenStatus) -> None:
        self.status = status
        self.cycles += 1

    async def stop_at(self, step: Step) -> None:
        if self.stops_at is step:
            self.stops_at = None
            self.has_stopped.set()
            await self.wakes.wait()

    @property
    def trouble(self) -> TokenTrouble | None:
        return self.status.trouble

    async def begun(self) -> None:
        """Return after the first cycle."""
        await self.until(lambda: self.cycles > 0)

    async def until(self, condition: object) -> None:
        await eventually(condition, why=lambda: (self.status, self.task))  # type: ignore[arg-type]

    async def cycle(self, seconds: float = 30.0) -> None:
        """Let time pass, and return when the part waits again."""
        before = self.cycles
        await self.clock.advance(seconds)
        await self.until(lambda: (self.cycles > before and self.is_idle()) or self.task.done())

    async def recovered(self) -> None:
        """Let time pass until nothing is wrong any more; a retry waits a minute at most."""
        for _ in range(5):
            await self.cycle()
            if self.trouble is None:
                return
        await self.until(lambda: self.trouble is None)

    def is_idle(self) -> bool:
        """True while it waits for its next cycle."""
        waits = f"{NAME}: next refresh"
        return any(task.get_name() == waits and not task.done() for task in asyncio.all_tasks())

    async def can_read(self) -> bool:
        """True where the workspace answers a request of the daemon."""
        await self.client.requester.request("listFlows", priority=Priority.CHANGES)
        return True

    async def load(self) -> StoredTokens:
        return await self.stored.load()

    async def died(self) -> None:
        """Return when the part has ended by itself, and nothing of the process is left."""
        await self.until(self.task.done)
        error = self.task.exception()
        assert isinstance(error, DiedError | BusLostError), error
        await self.close()

    async def stop(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        await self.close()

    async def close(self) -> None:
        await self.client.close()
        if self.owns_bus:
            await self.bus.close()

    def count(self, outcome: str) -> float:
        return (
            self.registry.get_sample_value(
                "dataprep_monitor_token_refreshes_total", {"workspace": NAME, "outcome": outcome}
            )
            or 0.0
        )

    def refused_requests(self) -> float:
        """Return how many of its requests were answered 401."""
        return (
            self.registry.get_sample_value(
                "dataprep_monitor_api_requests_total",
                {"workspace": NAME, "operation": "listFlows", "code": "401"},
            )
            or 0.0
        )


@dataclass(kw_only=True)
class OauthScenario:
    """The sandbox, the file and the daemons on it."""

    clock: ManualClock
    sandbox: Sandbox
    file: TokenFile
    folder: Path
    has_lost_an_answer: bool = False

    def refresher(self, path: str = "state.db") -> Refresher:
        return Refresher(
            clock=self.clock,
            sandbox=self.sandbox,
            file=self.file,
            store_path=self.folder / path,
        )

    @contextlib.asynccontextmanager
    async def running(self, path: str = "state.db") -> AsyncIterator[Refresher]:
        """Run the part; it has had its first cycle."""
        refresher = self.refresher(path)
        await refresher.start()
        try:
            await refresher.begun()
            yield refresher
        finally:
            await refresher.stop()

    def generate_pair(self) -> None:
        """Do what a person does who generates a new pair and puts it into the file."""
        assert self.sandbox.pair is not None
        self.sandbox.pair = replaced(self.sandbox.world, self.sandbox.pair)
        self.file.text = self.sandbox.pair.refresh_token

    def revoke_access_tokens(self) -> None:
        for token in self.sandbox.world.tokens.live():
            self.sandbox.world.delete(token)

    def revoke_pair(self) -> None:
        assert self.sandbox.pair is not None
        revoke(self.sandbox.world, self.sandbox.pair)


@contextlib.asynccontextmanager
async def oauth_scenario(folder: Path) -> AsyncIterator[OauthScenario]:
    clock = ManualClock()
    sandbox = Sandbox(
        SandboxSettings(
            traffic=None,
            schedules_fire=False,
            oauth=OAuthSettings(access_token_seconds=ACCESS_SECONDS),
        ),
        clock,
    )
    await sandbox.start()
    assert sandbox.pair is not None
    try:
        yield OauthScenario(
            clock=clock,
            sandbox=sandbox,
            file=TokenFile(sandbox.pair.refresh_token),
            folder=folder,
        )
    finally:
        await clock.advance(120)  # the sandbox waits for late answers, on this clock
        await sandbox.stop()

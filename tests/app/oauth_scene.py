"""A sandbox whose access tokens are refreshed, and the daemon's part that refreshes them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

from prometheus_client import CollectorRegistry

from monitor.app.hosted.token_store import StoredTokenStore
from monitor.bus.sqlite import SqliteBus
from monitor.model.errors import ConfigurationError
from monitor.model.live_state import TokenStatus, TokenTrouble
from monitor.model.secrets import Secret
from monitor.sandbox.sandbox import Sandbox
from monitor.sandbox.settings import OAuthSettings, SandboxSettings
from monitor.sandbox.world.token_pairs import replaced, revoke
from monitor.workspace.access.refreshed_tokens import RefreshedTokens
from monitor.workspace.access.stored_tokens import StoredTokens, TokenStore
from monitor.workspace.access.token_endpoint import TokenEndpoint
from monitor.workspace.client import WorkspaceClient
from monitor.workspace.metrics import ApiMetrics
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


@dataclass(kw_only=True)
class Refresher:
    """One life of the daemon's part, from `start` to `stop` or `kill`. ``store`` is a real file."""

    clock: ManualClock
    sandbox: Sandbox
    file: TokenFile
    store_path: Path
    store: TokenStore | None = None  # None: that of the file
    status: TokenStatus = field(default_factory=TokenStatus)
    cycles: int = 0

    async def start(self) -> None:
        self.registry = CollectorRegistry()
        self.bus = await SqliteBus.open(self.store_path, clock=self.clock, registry=self.registry)
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
            endpoint=TokenEndpoint(settings, oauth),
            store=self.store or self.stored,
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

    async def stop(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        await self.close()

    async def close(self) -> None:
        await self.client.close()
        await self.bus.close()

    def count(self, outcome: str) -> float:
        return (
            self.registry.get_sample_value(
                "dataprep_monitor_token_refreshes_total", {"workspace": NAME, "outcome": outcome}
            )
            or 0.0
        )


@dataclass(kw_only=True)
class OauthScene:
    """The sandbox, the file and the daemons on it."""

    clock: ManualClock
    sandbox: Sandbox
    file: TokenFile
    folder: Path

    def refresher(self, *, store: TokenStore | None = None, path: str = "state.db") -> Refresher:
        return Refresher(
            clock=self.clock,
            sandbox=self.sandbox,
            file=self.file,
            store_path=self.folder / path,
            store=store,
        )

    @contextlib.asynccontextmanager
    async def running(self, path: str = "state.db") -> AsyncIterator[Refresher]:
        """Run the part; it has had its first cycle."""
        refresher = self.refresher(path=path)
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
async def oauth_scene(folder: Path) -> AsyncIterator[OauthScene]:
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
        yield OauthScene(
            clock=clock,
            sandbox=sandbox,
            file=TokenFile(sandbox.pair.refresh_token),
            folder=folder,
        )
    finally:
        await sandbox.stop()

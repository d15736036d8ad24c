"""A daemon as a process on refreshed access tokens, which is killed within its refreshes.

After each death the store is held against the workspace. Where it still has the newest refresh
token, the next life must go on by itself; only where it has not, the answer was lost, and the next
life must say that it is locked out by that, and what to do.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncpg
from msgspec import Struct

from monitor.model.clock import SystemClock
from monitor.sandbox.sandbox import Sandbox
from monitor.sandbox.settings import OAuthSettings, SandboxSettings
from monitor.sandbox.world.faults import WorldOptions
from monitor.sandbox.world.records.objects import Token, TokenPair
from monitor.sandbox.world.token_pairs import replaced
from monitor.workspace.access.stored_tokens import StoredTokens, decoder
from tests.app.eventually import eventually, pause
from tests.app.fixture import started
from tests.app.processes import DaemonProcess, Settings, Watched
from tests.crash import store_copy
from tests.crash.token_gate import Step, TokenGate

_ACCESS_SECONDS = 6
_PATIENCE_SECONDS = 60.0
_LEASE_SECONDS = 9.0  # a busy machine takes a shorter one away from a daemon that lives


class Death(Struct, frozen=True, kw_only=True):
    """A kill at a random moment after the next refresh has come to a step, or after any moment.

    ``is_answered``: the daemon was stopped while its answer came, and dies as it goes on.
    """

    step: Step | None
    within_seconds: float
    is_answered: bool = False


DEATHS = (
    Death(step=None, within_seconds=_ACCESS_SECONDS),
    Death(step=Step.SENT, within_seconds=0.05),
    Death(step=Step.HANDLED, within_seconds=0.05),
    Death(step=Step.HANDLED, within_seconds=0.03, is_answered=True),
    Death(step=Step.BROKEN, within_seconds=1.5),
    Death(step=Step.UNAVAILABLE, within_seconds=1.5),
)


class RefreshSettings(Settings):
    """A configuration with `[workspaces.oauth]`, and a file or a database as its store."""

    def __init__(
        self,
        folder: Path,
        watched: Watched,
        *,
        token_url: str,
        pair: TokenPair,
        database: str | None = None,
    ) -> None:
        """``database`` is the URL of one that is the store in place of the file."""
        self._token_url, self._client_id = token_url, pair.client_id
        self.database = database
        self.token_file = folder / "refresh-token"
        self.token_file.write_text(pair.refresh_token)
        super().__init__(folder, watched)

    def write(self, *workspaces: Watched) -> None:
        (watched,) = workspaces
        storage = f'url = "sqlite://{self.folder}/state.db"\n'
        if self.database is not None:
            storage = (
                f'url = "{self.database}"\ndaemon = "north"\nlease_seconds = {_LEASE_SECONDS}\n'
            )
        self.path.write_text(
            f'[[workspaces]]\nname = "{watched.name}"\nurl = "{watched.url}"\n'
            f'[workspaces.oauth]\ntoken_url = "{self._token_url}"\n'
            f'client_id = "{self._client_id}"\nrefresh_token_file = "refresh-token"\n'
            "[workspaces.poll]\nactive_seconds = 1\nidle_seconds = 1\n"
            "requests_per_minute = 60000\n"
            "[alerting]\nevaluation_interval_seconds = 1\nflap_count = 100\n"
            f'[server]\nlisten = "127.0.0.1:{self.port}"\n'
            f"[storage]\n{storage}"
        )


class RefreshScenario:
    """The workspace, the gate before its token endpoint, and the lives of one daemon."""

    def __init__(
        self,
        workspace: Sandbox,
        gate: TokenGate,
        daemon: DaemonProcess,
        settings: RefreshSettings,
        *,
        seed: int,
    ) -> None:
        self._workspace, self._gate = workspace, gate
        self._daemon, self._settings = daemon, settings
        self._chance = random.Random(seed)  # noqa: S311 - no secret
        self._is_lost = False
        self._lost_tokens: set[str] = set()
        self._deaths_while_lost = 0
        self._refreshes_before = 0  # of pairs that were replaced
        self._began = workspace.world.now()  # this life
        self._start_seconds = 0.0  # of the last start, on this machine as busy as it is
        self.kills = 0
        self.lost = 0

    @property
    def refreshes(self) -> int:
        return self._refreshes_before + self._pair.refreshes

    @property
    def replayed(self) -> int:
        """How many refreshes came with a token that an earlier one had replaced."""
        return len(self._gate.replayed)

    @property
    def _pair(self) -> TokenPair:
        assert self._workspace.pair is not None
        return self._workspace.pair

    def any_death(self) -> Death:
        return self._chance.choice(DEATHS)

    def happens(self, ratio: float) -> bool:
        return self._chance.random() < ratio

    async def die(self, death: Death) -> None:
        """Kill the daemon, and find out whether an answer is lost by that."""
        if death.step is not None:
            await self._gate.until(death.step)
        if death.is_answered:
            self._daemon.send_signal(signal.SIGSTOP)
            await self._gate.answer()
            self._daemon.send_signal(signal.SIGCONT)
        await pause(self._chance.uniform(0, death.within_seconds))
        await self._kill()

    async def die_starting(self) -> None:
        """Let the next life die before, in or after its first refresh."""
        starting = asyncio.create_task(self._daemon.start())
        await eventually(lambda: self._daemon.is_started, why="no process")
        await pause(self._chance.uniform(0, 1.5 * self._start_seconds))
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
        await self._kill()

    async def stop_within_a_refresh(self) -> None:
        """Stop the daemon in order while an answer is on its way: it waits for that."""
        await self._gate.until(Step.HANDLED)
        self._daemon.send_signal(signal.SIGTERM)
        await pause(self._chance.uniform(0.1, 1.0))
        self._gate.release()
        assert await self._daemon.end() == 0
        await self._hold_against_workspace()
        assert not self._is_lost, self._daemon.log[-3000:]

    async def start(self) -> None:
        """Begin the next life, and judge it; a daemon that is locked out gets a new pair."""
        await self._start()
        if self._is_lost:
            await eventually(self._says_lost, why=self._shown, within_seconds=_PATIENCE_SECONDS)
            self._replace_pair()
            if self.happens(0.8):  # else it reads the file by itself, within a minute
                await self._kill()
                await self._start()
        await eventually(self._works, why=self._shown, within_seconds=_PATIENCE_SECONDS)

    async def check(self) -> None:
        """End the last life within a refresh, and check what holds of all of them."""
        await self.stop_within_a_refresh()
        assert set(self._gate.replayed) <= self._lost_tokens
        assert self.replayed <= self.lost + self._deaths_while_lost
        assert "Traceback" not in self._daemon.log
        newest = self._pair.refresh_token
        assert not [token for token in (*self._lost_tokens, newest) if token in self._daemon.log]

    async def _start(self) -> None:
        self._began = self._workspace.world.now()
        await self._daemon.start()
        self._start_seconds = (self._workspace.world.now() - self._began).total_seconds()

    async def _kill(self) -> None:
        assert await self._daemon.end(signal.SIGKILL) == -signal.SIGKILL
        self.kills += 1
        await self._hold_against_workspace()
        self._gate.release()

    async def _hold_against_workspace(self) -> None:
        """Find out whether the newest refresh token is known: by the store, or in the file."""
        was_lost, stored = self._is_lost, await self._stored(is_in_use=False)
        known = [self._settings.token_file.read_text()]
        if stored.pair is not None:
            known.insert(0, stored.pair.refresh_token.reveal())
        self._is_lost = self._pair.refresh_token not in known
        if not self._is_lost:
            return
        self._deaths_while_lost += 1
        if not was_lost:
            self.lost += 1
            self._lost_tokens.add(next(token for token in known if token in self._pair.used_tokens))
        newest = self._newest_access_token()
        assert newest is None or newest.last_used_at is None, "used before its pair was stored"

    def _newest_access_token(self) -> Token | None:
        given = self._workspace.world.tokens.having("pair_id", self._pair.id)
        return max(given, key=lambda token: token.id, default=None)

    async def _stored(self, *, is_in_use: bool) -> StoredTokens:
        if self._settings.database is None:
            path = self._settings.folder / "state.db"
            value = store_copy.state_entry(path, "oauth", "tokens", is_in_use=is_in_use)
        else:
            value = await _entry_in(self._settings.database)
        return StoredTokens() if value is None else decoder().decode(value)

    def _replace_pair(self) -> None:
        """Do what the alert says: generate a new pair, and put it into the file."""
        self._refreshes_before += self._pair.refreshes
        self._workspace.pair = replaced(self._workspace.world, self._pair)
        self._is_lost = False
        self._settings.token_file.write_text(self._pair.refresh_token)

    async def _works(self) -> bool:
        """True once this life reads with the newest pair, and nothing is open any more."""
        newest = self._newest_access_token()
        if newest is None or newest.last_used_at is None or newest.last_used_at < self._began:
            return False
        stored = await self._stored(is_in_use=True)
        if stored.pair is None or stored.pair.refresh_token.reveal() != self._pair.refresh_token:
            return False
        return not stored.sent and await self._reason() is None and await self._alert() is None

    async def _says_lost(self) -> bool:
        """True once status and alert say that the lost answer is why, and what to do."""
        reason, alert = await self._reason(), await self._alert()
        return all(
            text is not None and "locked out" in text and "its answer was never stored" in text
            for text in (reason, alert)
        ) and "generate a new token pair" in (alert or "")

    async def _reason(self) -> str | None:
        shown = await self._daemon.face.json("/api/v1/workspaces/acme")
        trouble = (shown.get("refreshed_token") or {}).get("trouble")
        return None if trouble is None else str(trouble["reason"])

    async def _alert(self) -> str | None:
        alerts = (await self._daemon.face.json("/api/v1/alerts"))["data"]
        return next((_description(alert) for alert in alerts if _is_lock_out(alert)), None)

    def _shown(self) -> str:
        return f"lost: {self._is_lost}, {self.kills} kills\n{self._daemon.log[-3000:]}"


def _is_lock_out(alert: dict[str, Any]) -> bool:
    token_id = alert["labels"].get("token_id")
    return bool(token_id == "refresh_token/locked_out" and alert["state"] == "firing")


def _description(alert: dict[str, Any]) -> str:
    return str(alert["annotations"]["description"])


async def _entry_in(database: str) -> bytes | None:
    connection = await asyncpg.connect(database)
    try:
        query = "SELECT value FROM state_entry WHERE topic = 'oauth' AND key = 'tokens'"
        value: bytes | None = await connection.fetchval(query)
        return value
    finally:
        await connection.close()


@contextlib.asynccontextmanager
async def refresh_scenario(
    folder: Path, *, seed: int, database: str | None = None
) -> AsyncIterator[RefreshScenario]:
    """Yield once the daemon has read with its first access token.

    The endpoint revokes a pair whose used refresh token is sent again, as strict ones do.
    """
    workspace = Sandbox(
        SandboxSettings(
            seed=seed,
            traffic=None,
            schedules_fire=False,
            is_busy_at_once=False,
            oauth=OAuthSettings(access_token_seconds=_ACCESS_SECONDS),
            options=WorldOptions(token_reuse_revokes=True),
        ),
        SystemClock(),
    )
    async with started(workspace) as url, TokenGate(workspace) as gate:
        assert workspace.pair is not None
        watched = Watched("acme", url, "")
        settings = RefreshSettings(
            folder, watched, token_url=gate.url, pair=workspace.pair, database=database
        )
        daemon = DaemonProcess(settings)
        scenario = RefreshScenario(workspace, gate, daemon, settings, seed=seed)
        try:
            await scenario.start()
            yield scenario
        finally:
            await daemon.leave()

"""One daemon of a cluster: its process, its networks to the database, and what was done to it."""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from tests.app.fixture import SECRET
from tests.app.processes import DaemonProcess, Settings, Watched
from tests.crash.cluster.networks import Network
from tests.crash.sent_alerts import RESEND_SECONDS
from tests.set_clock import SetClock


class ClusterAddresses(Struct, frozen=True, kw_only=True):
    """What all daemons of a cluster have in common."""

    broker: str
    alertmanager: str
    lease_seconds: float


class MemberSettings(Settings):
    """The configuration of the cluster with ports, networks and a name of one daemon."""

    def __init__(
        self,
        folder: Path,
        name: str,
        *workspaces: Watched,
        addresses: ClusterAddresses,
        storage_url: str,
        daemon: str | None = None,
    ) -> None:
        """``daemon`` is the name by which the cluster knows it, where another one has that too."""
        self.name = name
        self.addresses = addresses
        self._daemon = daemon or name
        self._storage_url = storage_url
        super().__init__(folder, *workspaces, with_callbacks=True)

    def write(self, *workspaces: Watched) -> None:
        (self.folder / "secret").write_text(SECRET)
        parts = [self._text_of(watched) for watched in workspaces]
        parts.append(
            "[alerting]\nflap_count = 100\n"  # what fires and resolves is shown each time
            '[[alerts]]\nrule = "monitor_degraded"\nfor_seconds = 0\n'
            f'[mqtt]\nurl = "{self.addresses.broker}"\nreconnect_cap_seconds = 1\n'
            f'[alertmanager]\nurls = ["{self.addresses.alertmanager}"]\n'
            f"resend_seconds = {RESEND_SECONDS}\n"
            f'[server]\nlisten = "127.0.0.1:{self.port}"\n'
            f'[callbacks]\nlisten = "127.0.0.1:{self.callbacks_port}"\n'
            "commit_timeout_seconds = 2\n"
            f'[storage]\nurl = "{self._storage_url}"\n'
        )
        if self._storage_url.startswith("postgresql"):
            parts.append(
                f'daemon = "{self._daemon}"\nlease_seconds = {self.addresses.lease_seconds}\n'
            )
        self.path.write_text("".join(parts))

    def _text_of(self, watched: Watched) -> str:
        (self.folder / f"{watched.name}-token").write_text(watched.token)
        return (
            f'[[workspaces]]\nname = "{watched.name}"\nurl = "{watched.url}"\n'
            f'token_file = "{watched.name}-token"\n'
            "[workspaces.poll]\nactive_seconds = 1\nidle_seconds = 1\nreconcile_seconds = 10\n"
            "names_seconds = 10\nrequests_per_minute = 60000\n"
            '[workspaces.callbacks]\nsecret_file = "secret"\n'
        )


class Absence(Struct, frozen=True):
    """From ``at`` on a daemon renewed its lease no more, until others had all that it held."""

    at: float
    daemon: str
    cause: str


class Member:
    """A daemon, which may live several times."""

    def __init__(self, settings: MemberSettings, networks: Sequence[Network]) -> None:
        assert settings.callbacks_port is not None
        self.name = settings.name
        self.networks = networks
        self.process = DaemonProcess(settings)
        self.callbacks_port = settings.callbacks_port
        self.is_alive = False
        self.lives = 0
        self.absences: list[Absence] = []
        self.stops: list[float] = []  # how many seconds each end in order took
        self._clock: SetClock | None = None

    def set_clock(self, seconds: float = 0.0) -> None:
        """Let its clock be so far ahead, or behind; first of all before its first start."""
        if self._clock is None:
            self._clock = SetClock(self.process.settings.folder / "clock")
            self.process.environment |= self._clock.environment
        self._clock.ahead_by(seconds)

    async def start(self) -> None:
        self.lives += 1
        await self.process.start()
        self.is_alive = True

    async def kill(self, *, is_absent: bool = True) -> None:
        """Kill it; ``is_absent``: others must take over what it holds."""
        if is_absent:
            self.note_absence("killed")
        self.is_alive = False
        assert await self.process.end(signal.SIGKILL) == -signal.SIGKILL

    async def stop(self) -> None:
        """End it in order: it hands over what it holds."""
        self.is_alive = False
        began = time.monotonic()
        code = await self.process.end()
        self.stops.append(time.monotonic() - began)
        assert code == 0, f"{self.name} ended with {code}:\n{self.process.log[-3000:]}"

    def freeze(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def note_absence(self, cause: str) -> None:
        """Keep that from now on others must take over what this daemon holds."""
        self.absences.append(Absence(time.time(), self.name, cause))

    def hold_networks(self) -> None:
        """Let nothing pass between the daemon and the database any more."""
        for network in self.networks:
            network.hold()

    def release_networks(self) -> None:
        for network in self.networks:
            network.release()

    def slow_networks(self, seconds: float) -> None:
        """Let each answer of the database come so late from now on."""
        for network in self.networks:
            network.late_seconds = seconds

    def cut_networks(self) -> None:
        """Break its connections; new ones are made at once."""
        for network in self.networks:
            network.cut()

"""Both listeners behind one of the proxies that ``deploy/proxies`` configures."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import socket
import ssl
import subprocess
from asyncio.subprocess import DEVNULL, Process
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
from aiohttp.abc import AbstractResolver, ResolveResult

from monitor.callbacks.listener import CallbackListener
from monitor.callbacks.settings import CallbackSettings, ListenerSettings
from monitor.model.secrets import Secret
from tests.app.eventually import eventually
from tests.certificates import Certificates
from tests.deploy.documents import ROOT
from tests.servers import START_SECONDS, STOP_SECONDS, Relay, free_port, program
from tests.web.people import PEOPLE
from tests.web.serving import serving
from tests.web.site import Site

PROXIES = ROOT / "deploy" / "proxies"
NAME = "monitor.example.com"
SOURCE = "127.0.0.9"  # the client's, which the proxy is to name; the proxy's own is 127.0.0.1
SECRET = "a long secret that only the workspace knows"
USER = "operate-user@example.com"  # at the proxy
PASSWORD = "the password of ada at the proxy"
READ_SECONDS = 15.0
# For a request to arrive, and a handshake: less than in the files, and enough on a busy machine.
WAITS_SECONDS = 3
_AT_ONCE = 40  # attacks
# Of the password, by bcrypt at its least cost.
_HASH = "$2b$04$fwFtxnwPpJNTk5d5gvyNduQgnG41q0JRGZMqrU5ApiOot.yeWF8lG"


class Ports(msgspec.Struct, frozen=True):
    """Where a proxy listens, and what stands behind it."""

    clear: int
    tls: int
    server: int
    callbacks: int


def changed(text: str, changes: Mapping[str, str]) -> str:
    """Return a configuration with other words; each of them must be there."""
    for former, new in changes.items():
        assert former in text
        text = text.replace(former, new)
    return text


def nginx_command(folder: Path, ports: Ports, pair: Path, *, with_users: bool) -> list[str]:
    """Write our file and what Debian has around it, and return the command."""
    text = (PROXIES / "nginx.conf").read_text()
    if with_users:
        text = re.sub(r"^( *)#(auth_basic|proxy_set_header)", r"\1\2", text, flags=re.MULTILINE)
        (folder / "users").write_text(f"{USER}:{_HASH}\n")
        text = changed(text, {"/etc/nginx/monitor.users": f"{folder}/users"})
    text = changed(
        re.sub(r"^ *listen \[::\].*\n", "", text, flags=re.MULTILINE),
        {
            "listen 80;": f"listen 127.0.0.1:{ports.clear};",
            "listen 443 ": f"listen 127.0.0.1:{ports.tls} ",
            "127.0.0.1:9876": f"127.0.0.1:{ports.server}",
            "127.0.0.1:9877": f"127.0.0.1:{ports.callbacks}",
            "/etc/nginx/monitor.crt": str(pair),
            "/etc/nginx/monitor.key": str(pair.with_suffix(".key")),
            "_timeout 10s": f"_timeout {WAITS_SECONDS}s",
        },
    )
    (folder / "site.conf").write_text(text)
    temporary = "".join(
        f"{kind}_temp_path {folder}/{kind};\n"
        for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (folder / "nginx.conf").write_text(
        f"daemon off;\nmaster_process off;\npid {folder}/pid;\nerror_log stderr;\n"
        f"events {{}}\nhttp {{\ngzip on;\naccess_log {folder}/access.log;\n{temporary}"
        f"include {folder}/site.conf;\n}}\n"
    )
    return [program("nginx"), "-e", "stderr", "-p", str(folder), "-c", f"{folder}/nginx.conf"]


def caddy_2_6() -> str:
    """Return where Caddy is; skip where it is another version, but fail where CI is set."""
    caddy = program("caddy")
    done = subprocess.run([caddy, "version"], check=True, capture_output=True, timeout=20)
    version = done.stdout.decode().strip()
    if re.match(r"v?2\.6\.", version) is None:
        reason = f"deploy/proxies/Caddyfile is for Caddy 2.6, and this is {version}"
        (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)
    return caddy


def caddy_command(folder: Path, ports: Ports, pair: Path, *, with_users: bool) -> list[str]:
    """Write our file, and return the command."""
    caddy = caddy_2_6()
    text = (PROXIES / "Caddyfile").read_text()
    if with_users:
        lines = r"^(\t+)#(basicauth|\tada|}|header_up)"
        text = re.sub(lines, r"\1\2", text, flags=re.MULTILINE)
        text = changed(text, {"ada $2a$14$...": f"{USER} {_HASH}"})
    text = changed(
        text,
        {
            "{\n\tservers {": f"{{\n\tadmin off\n\tdefault_bind 127.0.0.1\n"
            f"\thttp_port {ports.clear}\n\thttps_port {ports.tls}\n\tservers {{",
            "127.0.0.1:9876": f"127.0.0.1:{ports.server}",
            "127.0.0.1:9877": f"127.0.0.1:{ports.callbacks}",
            "#tls /etc/caddy/monitor.crt /etc/caddy/monitor.key": f"tls {pair} "
            f"{pair.with_suffix('.key')}",
            "_header 10s": f"_header {WAITS_SECONDS}s",
            "_body 10s": f"_body {WAITS_SECONDS}s",
        },
    )
    (folder / "Caddyfile").write_text(text)
    return [caddy, "run", "--config", f"{folder}/Caddyfile", "--adapter", "caddyfile"]


COMMANDS = {"nginx": nginx_command, "caddy": caddy_command}


class Fronted:
    """A site and a listener of callbacks behind a proxy, as their clients see them."""

    def __init__(
        self, site: Site, ports: Ports, authority: Path, relays: tuple[Relay, Relay]
    ) -> None:
        self.site = site
        self.ports = ports
        self.url = f"https://{NAME}:{ports.tls}"
        self.tls = ssl.create_default_context(cafile=authority)
        self.to_server, self.to_callbacks = relays
        self._at_once = asyncio.Semaphore(_AT_ONCE)

    def session(self, **options: Any) -> aiohttp.ClientSession:
        """Return a client at its own address that finds the proxy under its name."""
        connector = aiohttp.TCPConnector(ssl=self.tls, resolver=_Resolver(), local_addr=(SOURCE, 0))
        timeout = aiohttp.ClientTimeout(total=READ_SECONDS)
        return aiohttp.ClientSession(connector=connector, timeout=timeout, **options)

    async def connect(
        self, *, protocol: str = "http/1.1"
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Return a connection with TLS, on which a test writes what it likes."""
        self.tls.set_alpn_protocols([protocol])
        return await asyncio.open_connection(
            "127.0.0.1",
            self.ports.tls,
            ssl=self.tls,
            server_hostname=NAME,
            local_addr=(SOURCE, 0),
        )

    async def sent(self, request: bytes) -> bytes:
        """Send bytes, and return all that comes until the proxy ends the connection.

        Empty where it hangs up on bytes that it has not read.
        """
        async with self._at_once:
            reader, writer = await self.connect()
            try:
                writer.write(request)
                async with asyncio.timeout(READ_SECONDS):
                    return await reader.read()
            except ConnectionError:
                return b""
            finally:
                writer.transport.abort()

    def callbacks(self, outcome: str) -> float:
        """Return the number of callbacks with this outcome."""
        value = self.site.registry.get_sample_value(
            "dataprep_monitor_callback_requests_total", {"outcome": outcome}
        )
        assert value is not None
        return value


class _Resolver(AbstractResolver):
    """Finds every name on this machine."""

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        return [
            ResolveResult(
                hostname=host, host="127.0.0.1", port=port, family=family, proto=0, flags=0
            )
        ]

    async def close(self) -> None:
        """Nothing is held."""


@contextlib.asynccontextmanager
async def fronted(folder: Path, proxy: str, *, with_users: bool = False) -> AsyncIterator[Fronted]:
    """Let both listeners stand behind a proxy; ``with_users``: it authenticates them."""
    settings = msgspec.structs.replace(PEOPLE, hosts=(NAME,))
    certificates = Certificates(folder)
    pair = certificates.sign(NAME, f"subjectAltName=DNS:{NAME}")
    async with (
        serving(folder, settings) as site,
        callbacks_listening(site) as callbacks_port,
        Relay(int(site.url.rpartition(":")[2])) as to_server,
        Relay(callbacks_port) as to_callbacks,
    ):
        ports = Ports(free_port(), free_port(), to_server.port, to_callbacks.port)
        command = COMMANDS[proxy](folder, ports, pair, with_users=with_users)
        async with running(command, folder, ports.tls):
            yield Fronted(site, ports, certificates.authority, (to_server, to_callbacks))


@contextlib.asynccontextmanager
async def callbacks_listening(site: Site) -> AsyncIterator[int]:
    """Yield the port of a listener of callbacks, which stores what it takes with the site."""
    listener = CallbackListener(
        settings=ListenerSettings(
            listen="127.0.0.1:0", trusted_proxies=("127.0.0.1",), wrong_secret_delay_seconds=0
        ),
        workspaces={"acme": CallbackSettings(secret=Secret(SECRET))},
        receive=site.bus.receive,
        clock=site.clock,
        registry=site.registry,
    )
    yield await listener.start()
    await listener.stop()


@contextlib.asynccontextmanager
async def running(command: list[str], folder: Path, port: int) -> AsyncIterator[Process]:
    """Run a proxy from when it listens on a port until the test is over."""
    log = folder / "proxy.log"
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=DEVNULL,
            stdout=output,
            stderr=output,
            env={"HOME": str(folder), "PATH": "/usr/bin:/bin"},
        )
    try:
        await eventually(
            lambda: _listens(process, port),
            why=lambda: f"the proxy did not start:\n{log.read_text()}",
            within_seconds=START_SECONDS,
        )
        yield process
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(STOP_SECONDS):
            await process.wait()


async def _listens(process: Process, port: int) -> bool:
    if process.returncode is not None:
        return False
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True

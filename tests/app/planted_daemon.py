"""A daemon's configuration with every secret there is, and all that is shown of it."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from pathlib import Path
from typing import Any

import aiohttp
import argon2

from tests.app.planted import Planting
from tests.app.processes import Settings, command

_HEAD_SECONDS = 5.0
_COMMAND_SECONDS = 90.0
_HASHER = argon2.PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
_BETWEEN = '/+="\\ '  # which other forms write otherwise
IN_HEADERS = "/+="
_PADDING = 10 * "A"  # of what has to be base64
_CONFIGURATION = """
[log]
level = "debug"
form = "json"
[[workspaces]]
name = "acme"
url = "http://127.0.0.1:{peer}"
token_command = ["cat", "{folder}/workspace-token"]
[workspaces.poll]
active_seconds = 1
idle_seconds = 1
[workspaces.callbacks]
secret_file = "callback-secret"
former_secret_env = "PLANTED_FORMER"
former_secret_expires_at = 2099-01-01T00:00:00Z
[mqtt]
url = "mqtt://127.0.0.1:{peer}"
username = "monitor"
password_credential = "mqtt-password"
reconnect_cap_seconds = 1
[webhook]
url = "http://127.0.0.1:{peer}/webhook"
secret_file = "webhook-secret"
former_secret_env = "PLANTED_WEBHOOK"
[alertmanager]
urls = ["http://127.0.0.1:{peer}/alertmanager"]
token_env = "PLANTED_ALERTMANAGER"
[[notify]]
name = "team"
url_env = "PLANTED_CHANNEL"
[server]
listen = "127.0.0.1:{port}"
public_url = "https://127.0.0.1:{port}"
token_credential = "server-token"
username = "operator"
password_file = "server-password"
[server.tls]
certificate_file = "server.pem"
key_file = "server.key"
[server.oidc]
issuer = "{issuer}"
client_id = "dataprep-monitor"
client_secret_command = "cat {folder}/client-secret"
[[access]]
name = "ada"
role = "admin"
token_hash = "{token_hash}"
users = ["read-user@example.com"]
[callbacks]
listen = "127.0.0.1:{callbacks_port}"
[callbacks.tls]
certificate_file = "server.pem"
key_file = "server.key"
[storage]
url = "{database}"
password_env = "PLANTED_DATABASE"
daemon = "north"
"""


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
    """Answer with what was sent: as the body of a failure, or as bytes that are no answer."""
    received = b""
    with contextlib.suppress(ConnectionError, TimeoutError):
        async with asyncio.timeout(_HEAD_SECONDS):
            received = await reader.read(65_536)
        if received.startswith((b"GET", b"POST")) and len(received) % 2:
            writer.write(b"HTTP/1.1 500 Failed\r\nContent-Type: application/json\r\n")
            writer.write(b"Content-Length: %d\r\nConnection: close\r\n\r\n" % len(received))
        writer.write(received)
        await writer.drain()
    writer.close()
    return received


class PlantedDaemon:
    """A daemon with its peers, and all that was shown."""

    def __init__(self, folder: Path, planting: Planting, port: int, callbacks_port: int) -> None:
        self.planting = planting
        self.shown: dict[str, bytes] = {}
        self.received: list[bytes] = []  # by the peers
        self.texts: dict[str, str] = {}  # the secrets by their place
        self.url = f"https://127.0.0.1:{port}"
        self.callbacks_url = f"https://127.0.0.1:{callbacks_port}"
        self._folder = folder
        self._tls = ssl.create_default_context(cafile=folder / "ca.pem")

    def plant(self, place: str, between: str = _BETWEEN) -> str:
        self.texts[place] = self.planting.new(place, between=between)
        return self.texts[place]

    def in_file(self, name: str, text: str) -> None:
        (self._folder / name).write_text(text)

    async def echo(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.received.append(await _echo(reader, writer))

    def client(self) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            cookie_jar=aiohttp.CookieJar(unsafe=True),
            connector=aiohttp.TCPConnector(ssl=self._tls),
            timeout=aiohttp.ClientTimeout(total=60),
        )

    async def send(
        self,
        client: aiohttp.ClientSession,
        method: str,
        url: str,
        *,
        is_kept: bool = True,
        **more: Any,
    ) -> tuple[int, str, str]:
        """Keep what is answered, but for cookies, and return status, body and where it leads."""
        async with client.request(method, url, allow_redirects=False, **more) as answer:
            is_endless = answer.content_type == "text/event-stream"
            body = b"" if is_endless else await answer.read()
            leads_to = answer.headers.get("Location", "")
            heads = {name: text for name, text in answer.headers.items() if name != "Set-Cookie"}
            shown = f"{answer.status} {heads}".encode() + body
        if is_kept and url.startswith((self.url, self.callbacks_url)):
            path, _, _ = url.partition("?")
            self.shown[f"{len(self.shown)} {method} {path}"] = shown
        return answer.status, body.decode(), leads_to

    async def run(self, *arguments: str) -> int:
        done = await command(
            *arguments, config=self._folder / "monitor.toml", within_seconds=_COMMAND_SECONDS
        )
        self.shown[" ".join(arguments)] = f"{done.out}\n{done.err}".encode()
        return done.code


def _channel(planted: PlantedDaemon, port: int) -> str:
    password, path = (planted.plant(f"channel {part}", between="") for part in ("password", "path"))
    return f"json://monitor:{password}@127.0.0.1:{port}/{path}"


def set_up(
    planted: PlantedDaemon,
    folder: Path,
    settings: Settings,
    *,
    peer: int,
    issuer: str,
    database: str,
) -> dict[str, str]:
    """Write the configuration and every secret; return the environment of the daemon."""
    credentials = folder / "credentials"
    credentials.mkdir()
    (credentials / "mqtt-password").write_text(planted.plant("broker"))
    (credentials / "server-token").write_text(planted.plant("server token", IN_HEADERS))
    planted.in_file("workspace-token", planted.plant("workspace", IN_HEADERS))
    planted.in_file("callback-secret", planted.plant("callbacks", IN_HEADERS))
    planted.in_file("server-password", planted.plant("server password"))
    planted.in_file("client-secret", planted.plant("client secret"))
    planted.in_file("webhook-secret", f"whsec_{planted.plant('webhook', '+/')}{_PADDING}")
    token = f"ada.{planted.plant('access token', '')}"
    key = (folder / "server.key").read_text().splitlines()[2]
    planted.planting.note("TLS key", key)
    planted.in_file(
        "monitor.toml",
        _CONFIGURATION.format(
            folder=folder,
            peer=peer,
            port=settings.port,
            callbacks_port=settings.callbacks_port,
            issuer=issuer,
            database=database,
            token_hash=_HASHER.hash(token),
        ),
    )
    return {
        "CREDENTIALS_DIRECTORY": str(credentials),
        "PLANTED_FORMER": planted.plant("former secret of callbacks", IN_HEADERS),
        "PLANTED_WEBHOOK": f"whsec_{planted.plant('former secret of the webhook', '+/')}{_PADDING}",
        "PLANTED_ALERTMANAGER": planted.plant("alertmanager", IN_HEADERS),
        "PLANTED_CHANNEL": _channel(planted, peer),
        "PLANTED_DATABASE": planted.texts["database"],
        "DATAPREP_MONITOR_CONFIG": str(folder / "monitor.toml"),
    }

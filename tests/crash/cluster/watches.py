"""What each daemon says to the outside as the present state, with the instant of its arrival."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

import aiohttp
from aiohttp import web
from msgspec import Struct

from monitor.bus.shards import CLUSTER
from monitor.model.alerts import BRIDGE
from tests.app.eventually import pause
from tests.servers import Relay

_PUBLISH = 3
_RETAINED = 0b001
_QOS = 0b110
_READ_SECONDS = 0.4

# Who connected from one port to another.
FindDaemon = Callable[[int, int], str | None]


class PublishedState(Struct, frozen=True):
    """A state of a shard that a daemon sent; an instant as of `time.time`."""

    at: float
    daemon: str
    shard: str  # each workspace is one
    what: str  # the topic, or the alert
    payload: str = ""  # of a message at the broker


class BrokerWatch(Relay):
    """Stands before the broker and reads which daemon publishes retained messages."""

    def __init__(self, broker_port: int, *, find_daemon: FindDaemon) -> None:
        super().__init__(broker_port)
        self._find_daemon = find_daemon
        self.published: list[PublishedState] = []

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        daemon = self._find_daemon(writer.get_extra_info("peername")[1], self.port)
        watched = asyncio.StreamReader()
        self._start(self._read(reader, watched, daemon or ""), "relay reading")
        await self._join(watched, writer)

    async def _read(
        self, reader: asyncio.StreamReader, watched: asyncio.StreamReader, daemon: str
    ) -> None:
        unread = b""
        try:
            while chunk := await reader.read(65_536):
                unread = self._take_packets(unread + chunk, daemon)
                watched.feed_data(chunk)
        except OSError:
            pass  # cut; the end is passed on below
        finally:
            watched.feed_eof()

    def _take_packets(self, data: bytes, daemon: str) -> bytes:
        """Note the states among the complete packets; return the incomplete rest."""
        while (sizes := _sizes(data)) is not None and len(data) >= sum(sizes):
            header, body = sizes
            if data[0] >> 4 == _PUBLISH and data[0] & _RETAINED:
                self._note(data[header : header + body], daemon, with_id=bool(data[0] & _QOS))
            data = data[header + body :]
        return data

    def _note(self, packet: bytes, daemon: str, *, with_id: bool) -> None:
        end = 2 + int.from_bytes(packet[:2], "big")
        topic = packet[2:end].decode()
        end += 2 if with_id else 0
        # Properties of MQTT 5 come first, with their length as that of a packet.
        properties = _sizes(packet[end - 1 :])
        assert properties is not None
        payload = packet[end - 1 + sum(properties) :].decode()
        levels = topic.split("/")
        shard = shard_of(levels[3]) if levels[2] == BRIDGE else levels[2]
        self.published.append(PublishedState(time.time(), daemon, shard, topic, payload))


def shard_of(instance: str) -> str:
    """Return the shard whose instance of the monitor this is."""
    return instance.partition("-")[2]


def _sizes(data: bytes) -> tuple[int, int] | None:
    """Return the lengths of the first packet's header and body, None while they are unknown."""
    body = 0
    for index, byte in enumerate(data[1:5]):
        body |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return index + 2, body
    return None


class AlertmanagerWatch:
    """Stands before an Alertmanager and reads which daemon sends which alerts."""

    def __init__(self, url: str, *, find_daemon: FindDaemon) -> None:
        self._url = url
        self._find_daemon = find_daemon
        self._runner: web.AppRunner | None = None
        self._session: aiohttp.ClientSession | None = None
        self.port = 0
        self.sent: list[PublishedState] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._pass_on)
        self._session = aiohttp.ClientSession()
        self._runner = web.AppRunner(app, shutdown_timeout=1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        (address,) = self._runner.addresses
        self.port = int(address[1])
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
        if self._session is not None:
            await self._session.close()

    async def _pass_on(self, request: web.Request) -> web.Response:
        assert self._session is not None
        assert request.transport is not None
        at = time.time()
        daemon = self._find_daemon(request.transport.get_extra_info("peername")[1], self.port)
        body = await request.read()
        if request.method == "POST":
            for alert in json.loads(body):
                labels = alert["labels"]
                shard = labels.get("workspace", "")
                if shard == BRIDGE:
                    shard = labels["part"].partition("@")[2] or CLUSTER
                self.sent.append(PublishedState(at, daemon or "", shard, json.dumps(alert)))
        async with self._session.request(
            request.method,
            self._url + request.path_qs,
            data=body,
            headers={"Content-Type": request.content_type},
        ) as answer:
            return web.Response(
                status=answer.status, body=await answer.read(), content_type=answer.content_type
            )


class FiringAlerts(Struct, frozen=True):
    """What fires by the API of an Alertmanager at an instant of `time.time`."""

    at: float
    since: dict[str, str]  # by the labels of an alert, when it began


class AlertmanagerReads:
    """Asks an Alertmanager again and again what fires, as its users see it."""

    def __init__(self, url: str) -> None:
        self._url = f"{url}/api/v2/alerts"
        self.reads: list[FiringAlerts] = []

    async def run(self) -> None:
        async with aiohttp.ClientSession() as session:
            while True:
                at = time.time()
                async with session.get(self._url) as answer:
                    alerts = await answer.json()
                since = {labels_of(alert): alert["startsAt"] for alert in alerts}
                self.reads.append(FiringAlerts(at, since))
                await pause(_READ_SECONDS)


def labels_of(alert: dict[str, Any]) -> str:
    """Return the labels of an alert as one text."""
    return json.dumps(alert["labels"], sort_keys=True)

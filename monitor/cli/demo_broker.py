"""The broker of the demo, and a subscriber that shares no code with the monitor."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import socket
from collections import Counter
from collections.abc import AsyncIterator, Callable
from typing import Any

from monitor.model.errors import MonitorError

try:
    from amqtt.broker import Broker
    from amqtt.client import MQTTClient
except ImportError:  # an installation that runs the daemon only
    Broker = MQTTClient = None

_CONNECT_SECONDS = 10.0
_RESULTS = ("succeeded", "failed", "canceled", "lost")


@contextlib.asynccontextmanager
async def broker() -> AsyncIterator[int]:
    """Run a broker on a free port of this machine and yield the port.

    Raises:
        MonitorError: the library of the broker is not installed.
    """
    if Broker is None:
        raise MonitorError(
            "the demo's broker is not installed: pip install '.[demo]' in the checkout"
        )
    # It logs each connection that ends, at any level.
    logging.getLogger("amqtt").setLevel(logging.CRITICAL)
    logging.getLogger("transitions").setLevel(logging.CRITICAL)
    port = free_port()
    running = Broker(
        {
            "listeners": {"default": {"type": "tcp", "bind": f"127.0.0.1:{port}"}},
            "plugins": {
                "amqtt.plugins.authentication.AnonymousAuthPlugin": {"allow_anonymous": True}
            },
        }
    )
    await running.start()
    try:
        yield port
    finally:
        await running.shutdown()


def free_port() -> int:
    """Return a port of this machine without a listener."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


class Subscriber:
    """Subscribes to everything, counts ends by kind and result, and handles each event once."""

    def __init__(self, on_event: Callable[[dict[str, Any]], None]) -> None:
        self._on_event = on_event
        self._event_ids: set[str] = set()
        self.ends: Counter[tuple[str, str]] = Counter()

    @contextlib.asynccontextmanager
    async def subscribed(self, port: int) -> AsyncIterator[None]:
        """Receive from the broker on this port for as long as the context lasts."""
        client = MQTTClient(client_id="demo-subscriber", config={"auto_reconnect": False})
        async with asyncio.timeout(_CONNECT_SECONDS):
            await client.connect(f"mqtt://127.0.0.1:{port}/")
            await client.subscribe([("dataprep/#", 1)])
        try:
            async with asyncio.TaskGroup() as group:
                receiving = group.create_task(self._receive(client), name="demo subscriber")
                try:
                    yield
                finally:
                    receiving.cancel()
        finally:
            await client.disconnect()

    async def _receive(self, client: Any) -> None:
        while True:
            message = await client.deliver_message()
            if message is not None and "event" in message.topic.split("/")[-2:]:
                self._handle(json.loads(message.data))

    def _handle(self, event: dict[str, Any]) -> None:
        if event["id"] in self._event_ids:
            return
        self._event_ids.add(event["id"])
        run = event["data"].get("run")
        result = event["type"].split(".")[-2]
        if run is not None and result in _RESULTS:
            self.ends[run["kind"], result] += 1
        self._on_event(event)

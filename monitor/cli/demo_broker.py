"""The broker of the demo, and a subscriber that knows nothing of the monitor."""

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

_CONNECT_SECONDS = 10.0
_RESULTS = ("succeeded", "failed", "canceled", "lost")


@contextlib.asynccontextmanager
async def broker() -> AsyncIterator[int]:
    """Run a broker on a free port of this machine and yield the port.

    Raises:
        MonitorError: the library of the broker is not installed.
    """
    try:
        from amqtt.broker import Broker  # noqa: PLC0415 - only the demo needs it
    except ImportError as exc:
        raise MonitorError(
            "the demo's broker is not installed: pip install 'dataprep-monitor[demo]'"
        ) from exc
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
    """Return a port of this machine that nobody listens on now."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


class Subscriber:
    """Subscribes to everything, counts ends by kind and result, and tells each event once."""

    def __init__(self, on_event: Callable[[dict[str, Any]], None]) -> None:
        self._on_event = on_event
        self._seen: set[str] = set()
        self.ends: Counter[tuple[str, str]] = Counter()

    @contextlib.asynccontextmanager
    async def listen(self, port: int) -> AsyncIterator[None]:
        """Listen to the broker on this port for as long as the context lasts."""
        from amqtt.client import MQTTClient  # noqa: PLC0415 - only the demo needs it

        client = MQTTClient(client_id="demo-subscriber", config={"auto_reconnect": False})
        async with asyncio.timeout(_CONNECT_SECONDS):
            await client.connect(f"mqtt://127.0.0.1:{port}/")
            await client.subscribe([("dataprep/#", 1)])
        listening = asyncio.create_task(self._listen(client), name="demo subscriber")
        try:
            yield
        finally:
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)
            await client.disconnect()

    async def _listen(self, client: Any) -> None:
        while True:
            message = await client.deliver_message()
            if message is not None and "event" in message.topic.split("/")[-2:]:
                self._take(json.loads(message.data))

    def _take(self, event: dict[str, Any]) -> None:
        if event["id"] in self._seen:
            return
        self._seen.add(event["id"])
        run = event["data"].get("run")
        word = event["type"].split(".")[-2]
        if run is not None and word in _RESULTS:
            self.ends[run["kind"], word] += 1
        self._on_event(event)

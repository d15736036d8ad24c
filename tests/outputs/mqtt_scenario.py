"""A store, an MQTT output and a subscriber around a real broker."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import aiomqtt
import msgspec
import pytest
from aiomqtt.client import ProtocolVersion
from msgspec import Struct
from prometheus_client import CollectorRegistry

from monitor.bus.sqlite import SqliteBus
from monitor.model.alerts import AlertingSnapshot
from monitor.model.clock import SystemClock
from monitor.model.events import Event
from monitor.outputs.delivery import DeliveryMetrics
from monitor.outputs.mqtt.output import MqttOutput
from monitor.outputs.mqtt.settings import MqttSettings
from monitor.tracking.live_state import LiveState
from tests.outputs.histories import change
from tests.outputs.output_scenario import output_parts

LIMIT_SECONDS = 60.0


def settings_for(url: str, **more: Any) -> MqttSettings:
    """Return settings whose waits suit a test; ``more`` overrides any."""
    settings = MqttSettings(
        url=url,
        reconnect_base_seconds=0.05,
        reconnect_cap_seconds=0.2,
        state_interval_seconds=0.02,
        state_scan_seconds=0.1,
        commit_interval_seconds=0.01,
        backoff_base_seconds=0.05,
        backoff_cap_seconds=0.1,
    )
    return msgspec.structs.replace(settings, **more)


class ReceivedMessage(Struct, frozen=True):
    """A message that a subscriber received."""

    topic: str
    payload: bytes
    is_retained: bool
    properties: dict[str, Any]

    def json(self) -> Any:
        return json.loads(self.payload)


class Subscriber:
    """Subscribes to all topics, on its own connection."""

    def __init__(self, port: int, *, keep_session_as: str | None = None) -> None:
        self._port = port
        self._session = keep_session_as
        self._arrived = asyncio.Condition()
        self._task: asyncio.Task[None] | None = None
        self._is_subscribed = asyncio.Event()
        self.messages: list[ReceivedMessage] = []

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._listen())
        async with asyncio.timeout(LIMIT_SECONDS):
            await self._is_subscribed.wait()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def on(self, end: str) -> list[ReceivedMessage]:
        """Return the messages on topics that end with ``end``, oldest first."""
        return [message for message in self.messages if message.topic.endswith(end)]

    def retained(self) -> dict[str, bytes]:
        """Return what the broker retained at the time of the subscription, by topic."""
        return {message.topic: message.payload for message in self.messages if message.is_retained}

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until the received messages fulfil the condition."""
        async with asyncio.timeout(LIMIT_SECONDS), self._arrived:
            await self._arrived.wait_for(condition)

    async def receive_all(self) -> None:
        """Return when everything that the broker had for this subscriber has arrived."""
        fence = f"fence/{len(self.messages)}"
        await self._client.publish(fence, b"", qos=1)
        await self.until(lambda: bool(self.on(fence)))

    async def _listen(self) -> None:
        self._client = client = aiomqtt.Client(
            "127.0.0.1",
            self._port,
            identifier=self._session,
            protocol=ProtocolVersion.V311 if self._session else ProtocolVersion.V5,
            clean_session=False if self._session else None,
        )
        async with client:
            await client.subscribe("#", qos=1)
            self._is_subscribed.set()
            async for message in client.messages:
                async with self._arrived:
                    self.messages.append(received_message(message))
                    self._arrived.notify_all()


def received_message(message: aiomqtt.Message) -> ReceivedMessage:
    assert isinstance(message.payload, bytes)
    packed = message.properties
    properties = {} if packed is None else packed.json()  # type: ignore[no-untyped-call]  # paho's
    return ReceivedMessage(message.topic.value, message.payload, message.retain, properties)


class MqttScenario:
    """An MQTT output that runs between `start` and `stop`, on a store that outlives it."""

    def __init__(self, folder: Path, settings: MqttSettings) -> None:
        self._folder = folder
        self.settings = settings
        self.clock = SystemClock()
        self.live_state = LiveState(["w"])
        self.snapshot = AlertingSnapshot()
        self.registry = CollectorRegistry()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        path = self._folder / "state.db"
        self.bus = await SqliteBus.open(path, clock=self.clock, registry=CollectorRegistry())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()
        await self.bus.close()

    async def start(self, *, is_connected: bool = True) -> None:
        """Run the output; return when it is connected, unless that wait is switched off."""
        self.registry = CollectorRegistry()
        self.output = MqttOutput(
            self.settings,
            output_parts(
                bus=self.bus,
                view=self.live_state.view,
                clock=self.clock,
                registry=self.registry,
                metrics=DeliveryMetrics(self.registry),
                alerting=lambda: self.snapshot,
            ),
        )
        self._task = asyncio.create_task(self.output.run())
        await self.until(lambda: self.output.is_well or not is_connected)

    async def stop(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    async def emit(self, *events: Event) -> None:
        await self.bus.commit(change(*events), timeout_seconds=5)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Let the output work until the condition holds."""
        async with asyncio.timeout(LIMIT_SECONDS):
            while not condition():
                assert self._task is not None
                if self._task.done():
                    await self._task
                await self.clock.sleep(0.005)

    async def until_delivered(self) -> None:
        """Wait until all events of the log are acknowledged and the position is durable."""
        assert await self.output.drain(timeout_seconds=LIMIT_SECONDS)

    def listed(self, topic: str) -> str:
        """Return the key under which the store lists a retained topic of this broker."""
        return f"retained:{self.settings.broker} {topic}"

    def metric(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(f"dataprep_monitor_{name}", labels)

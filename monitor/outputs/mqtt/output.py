"""Publishes events to the subscribers of a broker and keeps its retained topics up to date."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime

from prometheus_client import CollectorRegistry

from monitor.bus.contract import EventBus, Recorded, Start
from monitor.model.alerts import AlertingSnapshot
from monitor.model.clock import Clock
from monitor.model.errors import OutputRefusedError, OutputUnavailableError
from monitor.model.events import Event
from monitor.model.runs import Pipeline
from monitor.outputs.cloudevent_shapes import Message
from monitor.outputs.cloudevents import CONTENT_TYPE, encode, message_of
from monitor.outputs.delivery import Delivery, DeliveryMetrics
from monitor.outputs.mqtt.connection import Connection
from monitor.outputs.mqtt.foreign_writes import ForeignWrites
from monitor.outputs.mqtt.link import OutgoingMessage
from monitor.outputs.mqtt.retained import RetainedStates
from monitor.outputs.mqtt.settings import MqttSettings
from monitor.outputs.mqtt.states import BridgeInfo, NextStart
from monitor.outputs.mqtt.topics import Topics
from monitor.tracking.live_state import LiveStateView

CONSUMER = "mqtt"


def _no_start_known(workspace: str, pipeline: Pipeline) -> datetime | None:  # noqa: ARG001 - a NextStart
    return None


class MqttOutput:
    """One broker. A broker that is down, from the start or later, is waited for."""

    name = CONSUMER

    def __init__(
        self,
        settings: MqttSettings,
        *,
        bus: EventBus,
        view: LiveStateView,
        clock: Clock,
        registry: CollectorRegistry,
        metrics: DeliveryMetrics,
        info: BridgeInfo,
        next_start: NextStart = _no_start_known,
        alerting: Callable[[], AlertingSnapshot] = AlertingSnapshot,
    ) -> None:
        """``alerting`` must know the stored alerts before `run`; it is polled."""
        self._settings = settings
        self._topics = Topics(prefix=settings.prefix, instance=settings.instance)
        self._connection = Connection(
            settings, topics=self._topics, info=info, clock=clock, registry=registry
        )
        self.foreign_writes = ForeignWrites(clock=clock, registry=registry)
        self._retained = RetainedStates(
            consumer=CONSUMER,
            bus=bus,
            view=view,
            topics=self._topics,
            connection=self._connection,
            clock=clock,
            settings=settings,
            next_start=next_start,
            alerting=alerting,
            foreign_writes=self.foreign_writes,
        )
        self._delivery = Delivery(self, bus=bus, clock=clock, metrics=metrics, settings=settings)
        self._bus = bus

    @property
    def is_connected(self) -> bool:
        """True while the broker has accepted the connection and acknowledged the greeting."""
        return self._connection.link is not None

    @property
    def broker(self) -> str:
        """Host and port, without credentials."""
        return str(self._settings.broker)

    @property
    def status(self) -> str:
        """One sentence for people: connected since when, or why not."""
        connection = self._connection
        since = "" if connection.since is None else f" since {connection.since:%Y-%m-%dT%H:%M:%SZ}"
        if self.is_connected:
            return f"connected{since}" + ("" if connection.hint is None else f": {connection.hint}")
        return f"not connected{since}: {connection.reason}"

    async def run(self) -> None:
        """Deliver until cancelled; then store the position and publish ``stopped``."""
        # The position comes first, so that nothing is missed while the broker is away.
        await self._bus.subscribe(CONSUMER, start=Start.NEWEST)
        await self._retained.open()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._connection.run(), name="mqtt: connection")
            tasks.create_task(self._delivery.run(), name="mqtt: delivery")
            tasks.create_task(self._retained.run(), name="mqtt: retained states")

    async def introduce(self, info: BridgeInfo) -> None:
        """Replace what the topic ``info`` says, after the configuration has changed."""
        await self._connection.introduce(info)

    async def drain(self, *, timeout_seconds: float) -> bool:
        """Wait until all that the log holds now is acknowledged; False if it took longer."""
        return await self._delivery.drain(timeout_seconds=timeout_seconds)

    # --- what the delivery calls ---

    async def ready(self) -> None:
        await self._connection.ready()

    def send(self, recorded: Recorded) -> asyncio.Future[None] | None:
        """Publish one event; None for one that MQTT does not carry."""
        self._retained.touch(recorded.event)
        topic = self._topics.event(recorded.event)
        if topic is None:
            return None
        link = self._connection.link
        if link is None:
            return _failed(OutputUnavailableError("not connected"))
        message = message_of(recorded.event, position=recorded.position)
        try:
            payload = encode(message)
        except OutputRefusedError as exc:
            return _failed(exc)
        return link.send(
            OutgoingMessage(
                topic=topic,
                payload=payload,
                content_type=CONTENT_TYPE,
                expiry_seconds=self._settings.event_expiry_seconds,
                user_properties=_user_properties(message) if link.is_version_5 else (),
            )
        )

    def wants(self, event: Event) -> bool:
        """True where the event is published by this output."""
        return self._topics.event(event) is not None


def _user_properties(message: Message) -> tuple[tuple[str, str], ...]:
    properties = (
        ("id", message.id),
        ("type", message.type),
        ("source", message.source),
        ("subject", message.subject),
    )
    if isinstance(message.time, datetime):
        return (*properties, ("time", message.time.isoformat().replace("+00:00", "Z")))
    return properties


def _failed(reason: Exception) -> asyncio.Future[None]:
    answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    answer.set_exception(reason)
    return answer

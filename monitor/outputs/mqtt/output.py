"""Publishes events to the subscribers of a broker and keeps its retained topics up to date."""

from __future__ import annotations

import asyncio
from datetime import datetime

import msgspec

from monitor.bus.contract import Recorded
from monitor.model.alerts import OverwrittenTopics
from monitor.model.errors import OutputRefusedError, OutputUnavailableError
from monitor.outputs.cloudevents import CONTENT_TYPE, Message, encode, message_of
from monitor.outputs.event_output import DaemonInfo, EventOutput, OutputParts, Run
from monitor.outputs.mqtt.broker_connection import Connection
from monitor.outputs.mqtt.doctor import check_broker
from monitor.outputs.mqtt.foreign_writes import ForeignWrites
from monitor.outputs.mqtt.link import OutgoingMessage
from monitor.outputs.mqtt.link_opening import tls_file_problems
from monitor.outputs.mqtt.retained import RetainedStates
from monitor.outputs.mqtt.settings import MQTT, MqttSettings
from monitor.outputs.mqtt.topics import Topics, instance_of


class MqttOutput(EventOutput):
    """One broker. A broker that is down, from the start or later, is waited for."""

    record = MQTT
    path_problems = staticmethod(tls_file_problems)
    check = staticmethod(check_broker)

    def __init__(self, settings: MqttSettings, parts: OutputParts) -> None:
        super().__init__(settings, parts)
        instance = instance_of(settings.instance, parts.bus.shard)
        settings = msgspec.structs.replace(settings, instance=instance)
        self._settings = settings
        self._topics = Topics(prefix=settings.prefix, instance=settings.instance)
        self._connection = Connection(
            settings,
            bus=parts.bus,
            topics=self._topics,
            info=parts.info,
            clock=parts.clock,
            registry=parts.registry,
        )
        self._foreign_writes = ForeignWrites(clock=parts.clock, registry=parts.registry)
        self._retained = RetainedStates(
            consumer=self.name,
            bus=parts.bus,
            view=parts.view,
            topics=self._topics,
            connection=self._connection,
            clock=parts.clock,
            settings=settings,
            alerting=parts.alerting,
            foreign_writes=self._foreign_writes,
        )

    @property
    def is_well(self) -> bool:
        """True while the broker has accepted the connection and acknowledged the greeting."""
        return self._connection.link is not None

    @property
    def status(self) -> str:
        """One sentence for people: connected since when, or why not."""
        connection = self._connection
        since = "" if connection.since is None else f" since {connection.since:%Y-%m-%dT%H:%M:%SZ}"
        if self.is_well:
            return f"connected{since}" + ("" if connection.hint is None else f": {connection.hint}")
        return f"not connected{since}: {connection.reason}"

    async def _tasks(self) -> dict[str, Run]:
        await self._retained.open()
        return {"connection": self._connection.run, "retained states": self._retained.run}

    async def introduce(self, info: DaemonInfo) -> None:
        await self._connection.introduce(info)

    def overwritten(self) -> OverwrittenTopics | None:
        return self._foreign_writes.lasting()

    # --- what the delivery calls ---

    async def ready(self) -> None:
        await self._connection.ready()

    def send(self, recorded: Recorded) -> asyncio.Future[None] | None:
        """Publish one event; None for a type that the settings do not select."""
        self._retained.touch(recorded.event)
        if recorded.event.type not in self.types:
            return None
        link = self._connection.link
        if link is None:
            return _failed(OutputUnavailableError("not connected"))
        message = message_of(recorded.event, position=recorded.position, epoch=recorded.epoch)
        try:
            payload = encode(message)
        except OutputRefusedError as exc:
            return _failed(exc)
        return link.send(
            OutgoingMessage(
                topic=self._topics.event(recorded.event),
                payload=payload,
                content_type=CONTENT_TYPE,
                expiry_seconds=self._settings.event_expiry_seconds,
                user_properties=_user_properties(message) if link.is_version_5 else (),
            )
        )


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

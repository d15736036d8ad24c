"""The record of the output ``mqtt``."""

from __future__ import annotations

from monitor.outputs.event_selection import selected_types
from monitor.outputs.mqtt.settings import MqttSettings
from monitor.outputs.record import OutputRecord


def _receivers(settings: MqttSettings) -> list[str]:
    return [str(settings.broker)]


MQTT = OutputRecord(
    section="mqtt",
    settings=MqttSettings,
    output="monitor.outputs.mqtt.output:MqttOutput",
    receivers=_receivers,
    types=lambda settings: selected_types(settings.events),
    is_usual=True,
)

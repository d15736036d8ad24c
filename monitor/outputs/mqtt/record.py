"""The record of the output ``mqtt``."""

from __future__ import annotations

from monitor.outputs.record import OutputRecord
from monitor.outputs.settings import MqttSettings


def _receivers(settings: MqttSettings) -> list[str]:
    return [str(settings.broker)]


MQTT = OutputRecord(
    section="mqtt",
    settings=MqttSettings,
    output="monitor.outputs.mqtt.output:MqttOutput",
    receivers=_receivers,
    is_shown_when_off=True,
)

"""The outputs: all that is outside an output's own folder and names it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from monitor.model.notifying import OutputTypes
from monitor.outputs.alertmanager.settings import ALERTMANAGER
from monitor.outputs.file.settings import FILE
from monitor.outputs.mqtt.settings import MQTT
from monitor.outputs.notify.settings import NOTIFY
from monitor.outputs.webhook.settings import WEBHOOK

RECORDS = (MQTT, ALERTMANAGER, WEBHOOK, FILE, NOTIFY)


def output_types(settings: Mapping[str, Any]) -> OutputTypes:
    """Return what the outputs take that settings, by section, stand for; by their names."""
    return {
        name: record.types(own)
        for record in RECORDS
        if record.section in settings
        for name, own in record.by_name(settings[record.section]).items()
    }

"""The outputs: all that is outside an output's own folder and names it."""

from __future__ import annotations

from monitor.outputs.alertmanager.record import ALERTMANAGER
from monitor.outputs.file.record import FILE
from monitor.outputs.mqtt.record import MQTT
from monitor.outputs.webhook.record import WEBHOOK

RECORDS = (MQTT, ALERTMANAGER, WEBHOOK, FILE)

"""The settings of the outputs: MQTT, Alertmanager, webhook and metrics."""

from __future__ import annotations

from monitor.config.keys import section_of
from monitor.outputs.alertmanager.settings import AlertmanagerSettings
from monitor.outputs.metrics.settings import MetricsSettings
from monitor.outputs.mqtt.settings import MqttSettings
from monitor.outputs.webhook.settings import WebhookSettings

MQTT = section_of("mqtt", MqttSettings, is_optional=True)
ALERTMANAGER = section_of("alertmanager", AlertmanagerSettings, is_optional=True, is_example=True)
WEBHOOK = section_of("webhook", WebhookSettings, is_optional=True, is_example=True)
METRICS = section_of("metrics", MetricsSettings)

"""Outputs: deliveries that survive link loss, metrics, MQTT, Alertmanager, webhook, file."""

"""Where events go out: deliveries that survive link loss, MQTT, metrics."""

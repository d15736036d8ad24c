"""MQTT: events as messages, the present as retained topics."""

"""Connections, connectors, imported datasets and recipes."""

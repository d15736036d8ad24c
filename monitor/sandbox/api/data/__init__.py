"""Connections, connectors, imported datasets, recipes and functions."""

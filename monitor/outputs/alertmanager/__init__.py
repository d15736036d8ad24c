"""Alerts for Alertmanagers, by their API v2."""

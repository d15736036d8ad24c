"""Prometheus: events counted exactly once, the present gathered at each scrape."""

"""Prometheus: counters from events, the live state gathered at each scrape.

Counters and the position after their events are one commit: inside the store each event counts
once, also over a crash.
"""

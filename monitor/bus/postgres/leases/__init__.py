"""Leases of shards: heartbeats, claims, hand-overs, and news of other daemons."""

"""Which daemon holds which shard: heartbeats, claims, hand-overs, and news of others."""

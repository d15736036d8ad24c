"""The shards that this daemon holds."""

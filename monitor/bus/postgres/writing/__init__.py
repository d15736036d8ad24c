"""One writer of a daemon: many jobs of many shards in one fenced statement."""

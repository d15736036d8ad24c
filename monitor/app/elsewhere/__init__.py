"""The shards that other daemons hold, as they are shown here."""

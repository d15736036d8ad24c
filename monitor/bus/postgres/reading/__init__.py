"""Reads of one shard or of all, whoever holds them."""

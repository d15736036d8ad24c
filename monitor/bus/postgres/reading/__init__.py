"""Reads of one shard or of all, whichever daemon holds them."""

"""Capability discovery: what a workspace offers, and whether it still does."""

"""Capability discovery: what a workspace serves, and whether it still does."""

"""Inventory: what a workspace holds besides its runs, read slowly; one file a poll."""

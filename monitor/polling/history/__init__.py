"""Runs of every kind from before the start of following."""

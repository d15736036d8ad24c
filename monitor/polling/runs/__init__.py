"""Polls that follow runs: what changed, what is active, what ended, and what belongs to it."""

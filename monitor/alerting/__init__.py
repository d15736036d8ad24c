"""Judges what happened and what did not, and tells it once."""

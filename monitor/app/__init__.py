"""Builds the daemon from its rooms, starts it in order, reloads it, and drains it in reverse."""

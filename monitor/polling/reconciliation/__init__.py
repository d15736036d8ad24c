"""Runs of every kind, compared with what the workspace lists, and read by their ids."""

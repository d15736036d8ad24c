"""Callbacks of webhook tasks, sent by the workspace, and their faults."""

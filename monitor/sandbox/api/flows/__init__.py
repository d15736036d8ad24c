"""Flows, folders and what belongs to a flow."""

"""Requests: what they say."""

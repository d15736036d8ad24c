"""Requests that are sent when job groups end."""

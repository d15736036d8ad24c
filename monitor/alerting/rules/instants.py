"""Instants as the facts of alerts tell them."""

from __future__ import annotations

from datetime import UTC, datetime


def written(at: datetime) -> str:
    """Return an instant in ISO 8601, to the second in UTC."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

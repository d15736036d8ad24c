"""The settings of tracking."""

from __future__ import annotations

from msgspec import Struct


class TrackingSettings(Struct, frozen=True, kw_only=True):
    """How long finished runs are remembered, and how long a commit may take."""

    forget_seconds: float = 30 * 86_400.0
    commit_timeout_seconds: float = 10.0

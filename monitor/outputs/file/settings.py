"""What can be set about the file of events."""

from __future__ import annotations

from monitor.outputs.settings import DeliverySettings


class FileSettings(DeliverySettings, frozen=True, kw_only=True):
    """TMP."""

    path: str
    events: tuple[str, ...] = ("*",)
    rotate_bytes: int = 100_000_000
    rotate_seconds: float = 86_400.0
    keep: int = 10
    window: int = 500

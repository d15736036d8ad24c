"""What the daemon says about itself; `app` fills it in."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from msgspec import Struct

from monitor.bus.contract import Retention


class OutputStatus(Struct, frozen=True, kw_only=True):
    """One output. ``detail`` is one sentence for an operator."""

    name: str
    is_well: bool
    detail: str


class DaemonStatus(Struct, frozen=True, kw_only=True):
    """This daemon, and its configuration in force."""

    started_at: datetime
    config_hash: str
    store_schema: int
    retention: Retention


ReadDaemonStatus = Callable[[], DaemonStatus]

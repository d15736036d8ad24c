"""The status of the daemon itself; `app` fills it in."""

from __future__ import annotations

from collections.abc import Callable, Iterable
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


def worst_outputs(outputs: Iterable[OutputStatus]) -> dict[str, OutputStatus]:
    """Return the outputs by name; of those that several shards have, one that is not well."""
    worst: dict[str, OutputStatus] = {}
    for output in outputs:
        if output.name not in worst or (worst[output.name].is_well and not output.is_well):
            worst[output.name] = output
    return worst

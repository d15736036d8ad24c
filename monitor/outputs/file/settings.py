"""The settings of the file of events."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Annotated

from msgspec import Meta

from monitor.model.settings import Check, Setting
from monitor.outputs.event_selection import event_types, selected_types
from monitor.outputs.settings import DeliverySettings, OutputRecord


def _absolute(path: str) -> str | None:
    if not path.isprintable() or path.endswith("/") or not PurePosixPath(path).is_absolute():
        return 'must be an absolute path, such as "/var/log/monitor/events.jsonl"'
    return None


def _rotates_at(least: int, unit: str) -> Check:
    """Return the check of a limit that is off, or leaves a shipper time to read a file."""
    return lambda value: (
        None if value == 0 or value >= least else f"must be 0, or at least {least} {unit}"
    )


class FileSettings(DeliverySettings, frozen=True, kw_only=True):
    """File of CloudEvents in JSON, one a line, for log shippers.

    Without this table, no file is written.
    """

    path: Annotated[
        str,
        Setting(
            "Absolute path of the file. Its folder must exist, and the daemon needs write access "
            "to it. A shard with a name writes its own, such as events-NAME.jsonl.",
            "/var/log/dataprep-monitor/events.jsonl",
            check=_absolute,
        ),
    ]
    events: Annotated[
        tuple[str, ...],
        Setting(
            'Event types to write, as globs with * and ?: "*", "alert.*" or "run.failed"; "!" '
            'before one leaves out, as "!run.detailed".',
            check=event_types,
        ),
    ] = ("*",)
    rotate_bytes: Annotated[
        int,
        Meta(ge=0, le=1_000_000_000_000),
        Setting(
            "Size that the file does not exceed: it is rotated before. At least 65536; "
            "0 is no limit.",
            check=_rotates_at(65_536, "bytes"),
        ),
    ] = 100_000_000
    rotate_seconds: Annotated[
        float,
        Meta(ge=0, le=366 * 86_400),
        Setting(
            "Interval at which the file is rotated, counted from midnight UTC: 86400 is daily, "
            "3600 on the hour. At least 60; 0 is never.",
            check=_rotates_at(60, "seconds"),
        ),
    ] = 86_400.0
    keep: Annotated[
        int,
        Meta(ge=1, le=1_000_000),
        Setting("Number of rotated files to keep; the oldest are deleted, shipped or not."),
    ] = 10


FILE = OutputRecord(
    section="file",
    settings=FileSettings,
    output="monitor.outputs.file.output:FileOutput",
    receivers=lambda settings: [settings.path],
    types=lambda settings: selected_types(settings.events),
)

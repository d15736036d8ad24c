"""The record of the output ``file``."""

from __future__ import annotations

from monitor.outputs.event_selection import selected_types
from monitor.outputs.file.settings import FileSettings
from monitor.outputs.record import OutputRecord


def _receivers(settings: FileSettings) -> list[str]:
    return [settings.path]


FILE = OutputRecord(
    section="file",
    settings=FileSettings,
    output="monitor.outputs.file.output:FileOutput",
    receivers=_receivers,
    types=lambda settings: selected_types(settings.events),
)

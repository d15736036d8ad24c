"""Which events an output sends: types by globs, never those that are our own business."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase

from monitor.model.events import INTERNAL_EVENTS, EventType


def selected_types(patterns: Iterable[str]) -> frozenset[EventType]:
    """Return the types that one of the globs matches, such as ``alert.*``."""
    patterns = tuple(patterns)
    return frozenset(
        event_type
        for event_type in EventType
        if event_type not in INTERNAL_EVENTS
        and any(fnmatchcase(event_type, pattern) for pattern in patterns)
    )

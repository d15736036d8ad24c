"""Which events an output sends: types by globs, never those that are our own business."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase

from monitor.model.errors import ConfigurationError
from monitor.model.events import INTERNAL_EVENTS, EventType
from monitor.model.settings import each_readable
from monitor.model.suggestions import did_you_mean


def selected_types(patterns: Iterable[str]) -> frozenset[EventType]:
    """Return the types that one of the globs matches, such as ``alert.*``."""
    patterns = tuple(patterns)
    return frozenset(
        event_type
        for event_type in EventType
        if event_type not in INTERNAL_EVENTS
        and any(fnmatchcase(event_type, pattern) for pattern in patterns)
    )


def event_types(patterns: list[str]) -> str | None:
    """Return what the list must be, or None if it selects something with each glob."""
    if not patterns:
        return 'name at least one type, such as "alert.*"'
    return each_readable(_demand_match)(patterns)


def _demand_match(pattern: str) -> None:
    if not selected_types([pattern]):
        hint = did_you_mean(pattern, map(str, EventType))
        raise ConfigurationError(f"no event type matches {pattern!r}{hint}")

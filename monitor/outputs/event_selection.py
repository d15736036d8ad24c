"""Selects the events that an output sends: by globs of types, less those left out."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase

from monitor.model.errors import ConfigurationError
from monitor.model.events import EventType
from monitor.model.settings import each_readable
from monitor.model.suggestions import did_you_mean

_EXCEPT = "!"  # before a glob of what is left out


def selected_types(patterns: Iterable[str]) -> frozenset[EventType]:
    """Return the types that a glob such as ``alert.*`` matches, less those of ``!`` globs."""
    selected: set[EventType] = set()
    excluded: set[EventType] = set()
    for pattern in patterns:
        into = excluded if pattern.startswith(_EXCEPT) else selected
        into |= _matching(pattern.removeprefix(_EXCEPT))
    return frozenset(selected - excluded)


def event_types(patterns: list[str]) -> str | None:
    """Return what the list must be, or None if each glob matches something and some are left."""
    if not patterns:
        return 'name at least one type, such as "alert.*"'
    if problem := each_readable(_demand_match)(patterns):
        return problem
    if not selected_types(patterns):
        return 'selects nothing; add what is sent, such as "*" before "!run.detailed"'
    return None


def _matching(glob: str) -> set[EventType]:
    return {event_type for event_type in EventType if fnmatchcase(event_type, glob)}


def _demand_match(pattern: str) -> None:
    sign, glob = pattern[: pattern.startswith(_EXCEPT)], pattern.removeprefix(_EXCEPT)
    if not _matching(glob):
        # Some write a type as messages do.
        name = glob.removeprefix("dataprep.").removesuffix(".v1")
        hint = did_you_mean(f"{sign}{name}", (f"{sign}{known}" for known in EventType))
        raise ConfigurationError(f"no event type matches {pattern!r}{hint}")

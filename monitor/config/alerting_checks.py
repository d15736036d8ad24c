"""Validate single values of alerting. Each check returns a hint, or None for a valid value."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import TypeVar

from monitor.alerting.settings import EXCLUDES, parse_globs, parse_mute_window, zone_names
from monitor.config.cron import quartz_expression
from monitor.model.errors import ConfigurationError
from monitor.model.runs import RunKind, Trigger
from monitor.model.suggestions import did_you_mean

T = TypeVar("T")

RULE_NAME = r"[a-z0-9][a-z0-9_-]{0,62}"

AN_INSTANT = datetime(2026, 12, 24, 18, tzinfo=UTC)
AN_EARLIER_INSTANT = datetime(2026, 12, 24, 6, tzinfo=UTC)


def rule_name(name: str) -> str | None:
    if re.fullmatch(RULE_NAME, name) is None:
        return "use 1 to 63 of a-z, 0-9, _ and -, not _ or - first; it is a label and a topic level"
    return None


def mute_times(texts: list[str]) -> str | None:
    return _problems(texts, parse_mute_window)


def cron(text: str) -> str | None:
    return _problems([text], quartz_expression)


def _problems(texts: Iterable[T], read: Callable[[T], object]) -> str | None:
    """Return the problems of all texts as one sentence; None without any."""
    found: dict[str, None] = {}
    for text in texts:
        try:
            read(text)
        except ConfigurationError as exc:
            found.update(dict.fromkeys(exc.problems))
    return "; and ".join(found) or None


def time_zone(name: str) -> str | None:
    known = zone_names()
    if name in known:
        return None
    hint = did_you_mean(name, known) or "; write one of the IANA list, such as Europe/Berlin or UTC"
    return f"is no time zone{hint}"


def globs(found: str | list[str]) -> str | None:
    return _problems([[found] if isinstance(found, str) else found], parse_globs)


def run_kinds(found: str | list[str]) -> str | None:
    return globs(found) or fits_some(found, tuple(RunKind), "kind of run")


def triggers(found: str | list[str]) -> str | None:
    return globs(found) or fits_some(found, tuple(Trigger), "trigger")


def fits_some(found: str | Iterable[str], words: Iterable[str], what: str) -> str | None:
    """Return a hint for each glob that matches none of the words; None where all match."""
    words = [str(word) for word in words]

    def read(text: str) -> None:
        glob = text.removeprefix(EXCLUDES)
        if not any(fnmatch.fnmatchcase(word, glob) for word in words):
            hint = did_you_mean(glob, words) or f"; there are {', '.join(words) or 'none'}"
            raise ConfigurationError(f'no {what} fits "{glob}"{hint}')

    return _problems([found] if isinstance(found, str) else found, read)

"""Globs of ``match``: which words one field takes.

``*``, ``?`` and ``[abc]`` as in file names; case counts, since names of a workspace may differ by
nothing else. A leading ``!`` excludes: alone it takes everything but that, beside others it takes
away from what they take.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct

from monitor.model.errors import ConfigurationError

EXCLUDES = "!"
LONGEST_GLOB = 500  # characters
MOST_GLOBS = 1_000


class Globs(Struct, frozen=True, kw_only=True):
    """The globs of one field, read. ``wanted`` empty takes everything that is not excluded."""

    wanted: tuple[str, ...]
    excluded: tuple[str, ...]  # without their mark
    fits: Callable[[str], object | None]
    bars: Callable[[str], object | None]

    def take(self, words: Iterable[str]) -> bool:
        """True where one of the words, which all name the same thing, fits and none is barred."""
        words = tuple(words)
        if self.excluded and any(self.bars(word) is not None for word in words):
            return False
        return not self.wanted or any(self.fits(word) is not None for word in words)


def read_globs(texts: Sequence[str]) -> Globs:
    """Return the globs of one field.

    Raises:
        ConfigurationError: one is empty, or excludes everything; one sentence says so.
    """
    wanted = tuple(text for text in texts if not text.startswith(EXCLUDES))
    excluded = tuple(text[1:] for text in texts if text.startswith(EXCLUDES))
    if not all((*wanted, *excluded)):
        raise ConfigurationError('must not be empty; leave the key out, or write "*"')
    if any(not text.strip("*") for text in excluded):
        raise ConfigurationError(f'"{EXCLUDES}*" excludes everything; remove it')
    if len(texts) > MOST_GLOBS or any(len(text) > LONGEST_GLOB for text in texts):
        raise ConfigurationError(
            f"must be at most {MOST_GLOBS:,} globs of {LONGEST_GLOB} characters each"
        )
    return Globs(wanted=wanted, excluded=excluded, fits=_any_of(wanted), bars=_any_of(excluded))


def _any_of(globs: Iterable[str]) -> Callable[[str], object | None]:
    return re.compile("|".join(fnmatch.translate(glob) for glob in globs)).match

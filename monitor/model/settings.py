"""Declares keys of the configuration file by the fields of settings types.

``workers: Annotated[int, Meta(ge=1, le=100), Setting("Maximum number of requests.")] = 8`` is all
there is to a key: its name, type, limits, default and text. Reading, the reference, the schema and
the variables of the environment are made of it. A field without a `Setting` is set by the code.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

from msgspec import Struct

from monitor.model.errors import ConfigurationError
from monitor.model.secrets import Secret

# Returns what a value of the file must be, or None where it is valid.
Check = Callable[[Any], str | None]


class Setting(Struct, frozen=True):
    """A key of the file. Its change applies at the next reload."""

    about: str  # what it does and why to change it; one sentence or two
    example: Any = None  # the reference shows it in the place of the default
    check: Check | None = None  # of a value that has the right type
    is_file: bool = False  # names a file, which must exist
    is_required: bool | None = None  # None: where the field has no default
    may_be_single: bool = False  # a text alone is a list of one
    word_for_none: str | None = None  # what the file writes where the field is None
    # Other words that people use for a choice, in small letters, and the choice that they mean.
    other_words: Mapping[str, str] = MappingProxyType({})
    section: str | None = None  # where it is not that of the settings type
    is_hidden: bool = False  # people write secrets here by mistake: a problem does not repeat it
    alternative: str | None = None  # the table below that may stand in its place


class StartSetting(Setting, frozen=True):
    """A key of the file that is read at start: a change needs a restart."""


# Of hexadecimal digits drawn at random hardly any text has less.
_BITS_PER_CHARACTER = 2.0


def not_empty(value: str | list[str]) -> str | None:
    return None if value and all(value) else "must not be empty; leave the key out instead"


def one_line(text: str) -> str | None:
    if not text.isprintable():
        return "must not hold a line end or control character"
    return not_empty(text)


def hard_to_guess(characters: int) -> Check:
    """Return a check of a secret. Random ones are long; a shorter one falls to guessing."""
    way_out = "make one with: openssl rand -hex 32"

    def check(secret: Secret) -> str | None:
        text = secret.reveal()
        if len(text) < characters:
            return f"must hold at least {characters} characters; {way_out}"
        if _bits(text) < _BITS_PER_CHARACTER * characters:
            return f"is too easy to guess: it repeats itself; {way_out}"
        return None

    return check


def _bits(text: str) -> float:
    """Return the bits of a text that is drawn from its own characters, each repetition for one."""
    period = (text + text).find(text, 1)
    return period * math.log2(len(set(text)))


def readable(parse: Callable[[Any], object]) -> Check:
    """Return a check that accepts what ``parse`` takes without a `ConfigurationError`."""
    return lambda value: problems_of([value], parse)


def each_readable(parse: Callable[[Any], object]) -> Check:
    """Return a check of a list: ``parse`` takes each item."""
    return lambda values: problems_of(values, parse)


def problems_of(values: Iterable[Any], parse: Callable[[Any], object]) -> str | None:
    """Return the problems of all values as one sentence; None without any."""
    problems: dict[str, None] = {}
    for value in values:
        try:
            parse(value)
        except ConfigurationError as exc:
            problems.update(dict.fromkeys(exc.problems))
    return "; and ".join(problems) or None

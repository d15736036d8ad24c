"""Wrong values for every key of the file, made of its kind and limits, and what is then said."""

from __future__ import annotations

import math
from collections.abc import Iterator

from monitor.config.keys import Key, Kind
from monitor.config.section import keys_of_secret
from monitor.config.sections import SECTIONS
from tests.config.settings_tables import Row


def place(path: str, name: str) -> str:
    """Return where a key stands in a file with one table of each list."""
    first, dot, rest = path.partition(".")
    index = "[0]" if SECTIONS.is_repeated(first) else ""
    return f"{first}{index}{dot}{rest}.{name}"


KEYS: dict[str, Key] = {
    place(section.path, key.name): key for section in SECTIONS for key in section.keys
}


# A value of a wrong type for each kind of value, and what is said of it.
WRONG_TYPES: dict[Kind, tuple[object, str]] = {
    Kind.TEXT: (5, "5: must be a text in quotes"),
    Kind.TEXTS: ("x", '"x": must be a list of texts'),
    Kind.NUMBER: ("x", '"x": must be a number'),
    Kind.WHOLE: (1.5, "1.5: must be a whole number"),
    Kind.BOOLEAN: (1, "1: must be true or false"),
    Kind.ONE_OR_MORE: (5, "5: must be a text or a list of texts"),
    Kind.TABLE: ("x", '"x": must be a table of texts'),
    Kind.INSTANT: (
        "x",
        (
            '"x": must be a date and time with its offset, without quotes, '
            "such as 2026-11-21T18:00:00Z"
        ),
    ),
}
WRONG_LOCATIONS = {
    "file": "5: must be a file that holds nothing else; a line end after it is ignored",
    "env": "5: must be the name of an environment variable that holds it",
    "credential": "5: must be the name of a systemd credential of the service",
    "command": "5: must be a command that prints nothing else; no shell reads it",
}
UNITS = {"_seconds": " seconds", "_bytes": " bytes", "_per_minute": " requests a minute"}


def wrong_types() -> Iterator[Row]:
    """Return a value of a wrong type for every key; a secret has one for each way."""
    for where, key in KEYS.items():
        if key.kind is Kind.SECRET:
            forms = keys_of_secret(key)
            for name, form in forms.items():
                yield f"{where.rpartition('.')[0]}.{name}", 5, WRONG_LOCATIONS[form]
            names = ", ".join(forms)
            yield where, "a secret", f"***: a secret may not stand in the file; use {names}"
        else:
            value, sentence = WRONG_TYPES[key.kind]
            if key.setting.is_hidden:
                sentence = f"***: {sentence.partition(': ')[2]}"
            yield where, value, sentence


def out_of_range() -> Iterator[Row]:
    """Return for every number with limits one value below and one above them."""
    for where, key in KEYS.items():
        unit = next((unit for ending, unit in UNITS.items() if key.name.endswith(ending)), "")
        if key.minimum is not None:
            below = math.ceil(key.minimum) - 1
            yield where, below, f"{below}: must be at least {key.minimum}{unit}"
        if key.maximum is not None:
            above = math.floor(key.maximum) + 1
            yield where, above, f"{above}: must be at most {key.maximum}{unit}"

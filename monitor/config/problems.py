"""Problems of a configuration, gathered instead of raised one by one."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from monitor.model.secrets import Secret
from monitor.model.suggestions import suggestion

ABSENT = "(absent)"
MASK = "***"
MAX_SHOWN_CHARACTERS = 80

# A mistyped key may still hold a secret: a value whose key's name suggests that is not shown.
_SECRET_NAME = re.compile(r"tok|secret|pass|pwd|auth|cred|key", re.IGNORECASE)
_CREDENTIALS = re.compile(r"://.*@")  # a password may hold anything, spaces and quotes too
_SECRET_PARAMETER = re.compile(
    r"([?&][^=&]*(?:pass(?!file)|pwd|secret|token)[^=&]*=)(?:[^\"\\]|\\.)*", re.IGNORECASE
)


class Problem(Struct, frozen=True, kw_only=True):
    """One problem, its key and value. ``hint`` says how to solve it."""

    key: str  # "workspaces[0].url", or the name of an environment variable
    value: str  # as the file writes it, never a secret
    hint: str

    def __str__(self) -> str:
        return f"{self.key}: {self.value}: {self.hint}"


class Problems:
    """Gathers problems. ``origins`` names the variable of a key that the environment set.

    ``warnings`` are settings that can be used and do not do what they seem to do.
    """

    def __init__(self) -> None:
        self.found: list[Problem] = []
        self.warnings: list[Problem] = []
        self.origins: dict[str, str] = {}

    def add(self, key: str, value: object, hint: str) -> None:
        """Add a problem; ``value`` is shown as `shown` does."""
        self._add(key, shown(value), hint)

    def add_absent(self, key: str, hint: str) -> None:
        self._add(key, ABSENT, hint)

    def add_hidden(self, key: str, hint: str) -> None:
        """Add a problem whose value may be a secret."""
        self._add(key, MASK, hint)

    def warn(self, key: str, value: object, hint: str) -> None:
        """Add a warning; ``value`` is shown as `shown` does."""
        self.warnings.append(self._problem(key, shown(value), hint))

    def _add(self, key: str, value: str, hint: str) -> None:
        problem = self._problem(key, value, hint)
        if problem not in self.found:
            self.found.append(problem)

    def _problem(self, key: str, value: str, hint: str) -> Problem:
        named = _one_line(self.origins.get(key, key))
        return Problem(key=named, value=_one_line(value), hint=_one_line(hint))

    def holds(self, key: str) -> bool:
        """True where the value of that key has a problem."""
        named = _one_line(self.origins.get(key, key))
        return any(problem.key == named for problem in self.found)

    def add_unknown(self, key: str, value: object, known: Iterable[str]) -> None:
        """Add an unknown key, and the known key that was probably meant."""
        leaf = re.split(r"\.|__", key)[-1]
        meant = suggestion(leaf, known)
        hint = f"unknown key; did you mean {meant}?" if meant else "unknown key; remove it"
        if isinstance(value, str) and any(map(_SECRET_NAME.search, (leaf, meant or ""))):
            self.add_hidden(key, hint)
        else:
            self.add(key, value, hint)


def shown(value: object) -> str:
    """Return a value as a file would write it, bounded, and without credentials in URLs."""
    if isinstance(value, Secret):
        return MASK
    if isinstance(value, Mapping):
        return "(a table)"
    if isinstance(value, list | tuple) and any(isinstance(item, Mapping | list) for item in value):
        return f"(a list of {len(value)})"
    text = without_credentials(_as_json(value))
    text = _SECRET_PARAMETER.sub(rf"\g<1>{MASK}", text)
    if len(text) > MAX_SHOWN_CHARACTERS:
        return f"{text[:MAX_SHOWN_CHARACTERS]}..."
    return text


def without_credentials(text: str) -> str:
    """Return a text without the user and the password of a URL."""
    return _CREDENTIALS.sub(f"://{MASK}@", text)


def _one_line(text: str) -> str:
    """Return ``text`` with line ends and control characters escaped."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in text
    )


def _as_json(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except ValueError:  # a number of more digits than Python writes out
        return "(a number of thousands of digits)"

"""What is wrong with a configuration, gathered instead of raised one by one."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from monitor.model.secrets import Secret

ABSENT = "(absent)"
MASK = "***"
MAX_SHOWN_CHARACTERS = 80

# A key of ours that is mistyped may still hold a secret: what its name suggests is not shown.
_SECRET_NAME = re.compile(r"tok|secret|pass|pwd|auth|cred|key", re.IGNORECASE)
_CREDENTIALS = re.compile(r"://.*@")  # a password may hold anything, spaces and quotes too


class Problem(Struct, frozen=True, kw_only=True):
    """One thing that is wrong. ``hint`` says what would be right."""

    key: str  # "workspaces[0].url", or the name of an environment variable
    value: str  # as it was found, never a secret
    hint: str

    def __str__(self) -> str:
        return f"{self.key}: {self.value}: {self.hint}"


class Problems:
    """Gathers faults. ``origins`` names the variable behind a key that the environment set."""

    def __init__(self) -> None:
        self.found: list[Problem] = []
        self.origins: dict[str, str] = {}

    def add(self, key: str, value: object, hint: str) -> None:
        """Note a fault; ``value`` is shown as `shown` does."""
        self._add(key, shown(value), hint)

    def add_absent(self, key: str, hint: str) -> None:
        self._add(key, ABSENT, hint)

    def add_hidden(self, key: str, hint: str) -> None:
        """Note a fault whose value may be a secret."""
        self._add(key, MASK, hint)

    def _add(self, key: str, value: str, hint: str) -> None:
        named = _one_line(self.origins.get(key, key))
        problem = Problem(key=named, value=_one_line(value), hint=_one_line(hint))
        if problem not in self.found:
            self.found.append(problem)

    def holds(self, key: str) -> bool:
        """True where something is wrong with the value of that key."""
        named = _one_line(self.origins.get(key, key))
        return any(run.key == named for run in self.found)

    def add_unknown(self, key: str, value: object, known: Iterable[str]) -> None:
        """Note a key that nobody knows, and the known one that was probably meant."""
        leaf = re.split(r"\.|__", key)[-1]
        meant = suggestion(leaf, known)
        hint = f"unknown key; did you mean {meant}?" if meant else "unknown key; remove it"
        if isinstance(value, str) and any(map(_SECRET_NAME.search, (leaf, meant or ""))):
            self.add_hidden(key, hint)
        else:
            self.add(key, value, hint)


def suggestion(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that ``name`` most resembles, None if it resembles none."""
    close = difflib.get_close_matches(name.lower(), list(known), n=1, cutoff=0.6)
    return close[0] if close else None


def shown(value: object) -> str:
    """Return a value as a file would write it, bounded, and without credentials in URLs."""
    if isinstance(value, Secret):
        return MASK
    if isinstance(value, Mapping):
        return "(a table)"
    if isinstance(value, list | tuple) and any(isinstance(item, Mapping | list) for item in value):
        return f"(a list of {len(value)})"
    text = _CREDENTIALS.sub(f"://{MASK}@", _as_json(value))
    if len(text) > MAX_SHOWN_CHARACTERS:
        return f"{text[:MAX_SHOWN_CHARACTERS]}..."
    return text


def _one_line(text: str) -> str:
    """Return ``text`` with whatever could begin a line or a colour of its own written out."""
    if text.isprintable():
        return text
    return "".join(
        other_text if other_text.isprintable() else other_text.encode("unicode_escape").decode()
        for other_text in text
    )


def _as_json(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except ValueError:  # a number of more digits than Python writes out
        return "(a number of thousands of digits)"

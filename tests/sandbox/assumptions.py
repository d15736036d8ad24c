"""What the sandbox assumes where nothing published speaks, read from its file."""

from __future__ import annotations

import tomllib
from pathlib import Path

import msgspec
from msgspec import Struct

_FILE = Path(__file__).parents[2] / "monitor" / "sandbox" / "assumptions.toml"


class Assumption(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One assumption. Without ``operations`` it holds everywhere."""

    text: str  # Markdown
    operations: tuple[str, ...] = ()


ASSUMPTIONS = msgspec.convert(tomllib.loads(_FILE.read_text()), dict[str, Assumption])


def assumed_of(operation_id: str) -> list[str]:
    """Return the keys of what is assumed of one operation, beside what is assumed of all."""
    return [key for key, held in ASSUMPTIONS.items() if operation_id in held.operations]

"""How a setting is described. One description serves reading, reference and schema alike.

A key's default is not written here: it is the default of the field that the key sets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

import msgspec
from msgspec import Struct


class Kind(Enum):
    """The type that a value has in the file: what to call it, and its name in a JSON Schema."""

    TEXT = ("a text in quotes", "string")
    TEXTS = ("a list of texts", "array")
    NUMBER = ("a number", "number")
    WHOLE = ("a whole number", "integer")
    BOOLEAN = ("true or false", "boolean")
    SECRET = ("a secret", "string")  # never in the file: see `places`

    @property
    def title(self) -> str:
        return self.value[0]

    @property
    def schema_type(self) -> str:
        return self.value[1]

    def fits(self, value: object) -> bool:
        """True where the value has this type; a boolean is no number here."""
        if isinstance(value, bool) or self is Kind.BOOLEAN:
            return isinstance(value, bool) and self is Kind.BOOLEAN
        if self is Kind.NUMBER:
            # TOML knows nan and inf; no setting has a use for either.
            return isinstance(value, int | float) and abs(value) < float("inf")
        if self is Kind.WHOLE:
            return isinstance(value, int)
        if self is Kind.TEXTS:
            return isinstance(value, list) and all(isinstance(one, str) for one in value)
        return isinstance(value, str)


# Returns what would be right, or None where the value is right already.
Check = Callable[[Any], str | None]
# Returns the fields that a value of the file stands for.
Spread = Callable[[Any], Mapping[str, Any]]


class Key(Struct, frozen=True, kw_only=True):
    """One key of the file, and the field that it sets."""

    name: str
    kind: Kind
    about: str  # what it does and why one would change it; one sentence or two
    unit: str = ""
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    check: Check | None = None
    is_required: bool = False
    is_file: bool = False  # names a file, which must be there
    example: Any = None  # for the reference, where there is no default
    target: type[Struct] | None = None  # where it is not the section's
    field: str = ""  # where it is not the key's name
    spread: Spread | None = None  # where one key sets several fields, or another type
    written_default: Any = None  # where the file writes the default otherwise than the field

    @property
    def field_name(self) -> str:
        return self.field or self.name


class Section(Struct, frozen=True, kw_only=True):
    """One table of the file, ``workspaces`` being a list of tables.

    ``fixed`` names the fields of the target that no key sets; they are set by the code alone.
    """

    path: str  # "mqtt", "workspaces.poll"
    target: type[Struct]
    about: str
    keys: tuple[Key, ...]
    is_optional: bool = False  # without the table, that part of the daemon is off
    fixed: tuple[str, ...] = ()

    def target_of(self, key: Key) -> type[Struct]:
        return key.target or self.target

    def key(self, name: str) -> Key | None:
        return next((one for one in self.keys if one.name == name), None)


def default_of(section: Section, key: Key) -> Any:
    """Return the default as the file would write it; None where there is none."""
    if key.written_default is not None:
        return key.written_default
    for field in msgspec.structs.fields(section.target_of(key)):
        if field.name == key.field_name:
            return None if field.required else _written(field.default)
    return None


def _written(default: Any) -> Any:
    if default is msgspec.NODEFAULT:
        return None
    return list(default) if isinstance(default, tuple | frozenset) else default


def converted(section: Section, key: Key, value: Any) -> Mapping[str, Any]:
    """Return the fields that a value of the file sets, each in the field's own type."""
    if key.spread is not None:
        return key.spread(value)
    if key.kind is Kind.SECRET:
        return {key.field_name: value}
    kinds = {one.name: one.type for one in msgspec.structs.fields(section.target_of(key))}
    return {key.field_name: msgspec.convert(value, kinds[key.field_name])}

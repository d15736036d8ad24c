"""The keys of the file, made of the fields that they set: see `monitor.model.settings`.

One description serves reading, reference, schema and environment alike.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from enum import Enum, StrEnum
from functools import cache
from types import NoneType, UnionType
from typing import Any, get_args, get_origin

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import FieldInfo

from monitor.model.secrets import Secret
from monitor.model.settings import Check, Setting, not_empty


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


def _is_number(value: object) -> bool:
    # TOML knows nan and inf; no setting has a use for either.
    return isinstance(value, int | float) and abs(value) < float("inf")


def _is_table_of_texts(value: object) -> bool:
    return isinstance(value, Mapping) and all(
        _is_text(item) for pair in value.items() for item in pair
    )


class Kind(Enum):
    """The type of a value in the file: its name for people, its JSON Schema, and what has it."""

    TEXT = ("a text in quotes", {"type": "string"}, _is_text)
    TEXTS = ("a list of texts", {"type": "array", "items": {"type": "string"}}, _are_texts)
    NUMBER = ("a number", {"type": "number"}, _is_number)
    WHOLE = ("a whole number", {"type": "integer"}, lambda value: isinstance(value, int))
    BOOLEAN = ("true or false", {"type": "boolean"}, lambda value: isinstance(value, bool))
    ONE_OR_MORE = (
        "a text or a list of texts",
        {"type": ["string", "array"], "items": {"type": "string"}},
        lambda value: _is_text(value) or _are_texts(value),
    )
    TABLE = (
        "a table of texts",
        {"type": "object", "additionalProperties": {"type": "string"}},
        _is_table_of_texts,
    )
    INSTANT = (
        "a date and time with its offset, without quotes, such as 2026-11-21T18:00:00Z",
        {"type": "string", "format": "date-time"},
        lambda value: isinstance(value, datetime) and value.tzinfo is not None,
    )
    SECRET = ("a secret", {"type": "string"}, _is_text)  # never in the file: see `locations`

    def __init__(
        self, title: str, schema: Mapping[str, Any], fits: Callable[[object], bool]
    ) -> None:
        self.title = title
        self.schema = schema
        self._fits = fits

    def fits(self, value: object) -> bool:
        """True where the value has this type; a boolean is no number here."""
        return (self is Kind.BOOLEAN or not isinstance(value, bool)) and self._fits(value)


_KINDS = {
    bool: Kind.BOOLEAN,
    int: Kind.WHOLE,
    float: Kind.NUMBER,
    datetime: Kind.INSTANT,
    dict: Kind.TABLE,
    tuple: Kind.TEXTS,
    Secret: Kind.SECRET,
}

_UNITS = {"_seconds": "seconds", "_bytes": "bytes", "_per_minute": "requests a minute"}


class Key(Struct, frozen=True, kw_only=True):
    """One key of the file."""

    field: FieldInfo  # that it sets
    setting: Setting  # what the field says about it
    kind: Kind
    minimum: float | None
    maximum: float | None
    choices: tuple[str, ...]
    pattern: str | None  # for editors, of a text that ``check`` validates

    @property
    def name(self) -> str:
        return self.field.encode_name

    @property
    def about(self) -> str:
        return self.setting.about

    @property
    def unit(self) -> str:
        """Return what a number counts, which its name says; empty where it says nothing."""
        return next((unit for ending, unit in _UNITS.items() if self.name.endswith(ending)), "")

    @property
    def is_required(self) -> bool:
        required = self.setting.is_required
        return self.field.required if required is None else required

    @property
    def check(self) -> Check | None:
        return not_empty if self.setting.is_file else self.setting.check

    @property
    def default(self) -> Any:
        """Return the default as the file would write it; None where it shows an example."""
        if self.setting.example is not None or self.field.required:
            return None
        default = self.field.default
        if default is msgspec.NODEFAULT:
            return self.field.default_factory()
        if default is None:
            return self.setting.word_for_none
        return list(default) if isinstance(default, tuple) else default

    def converted(self, value: Any) -> Any:
        """Return a valid value of the file in the field's own type."""
        if self.kind is Kind.SECRET:
            return value
        if self.setting.word_for_none is not None and value == self.setting.word_for_none:
            return None
        if self.kind is Kind.ONE_OR_MORE and isinstance(value, str):
            value = [value]
        return msgspec.convert(value, self.field.type)


def keys_of(settings: type[Struct]) -> list[Key]:
    """Return the keys that set fields of a settings type: its own in their order, then its base's.

    Raises:
        KeyError: a field with a `Setting` has a type that no key can have.
    """
    classes = [inspect.get_annotations(settings_class) for settings_class in settings.__mro__]
    fields = {field.name: field for field in fields_of(settings)}
    names = dict.fromkeys(name for annotations in classes for name in annotations)
    keys = (_key_of(fields[name]) for name in names if name in fields)
    return [key for key in keys if key is not None]


@cache
def fields_of(settings: type[Struct]) -> tuple[FieldInfo, ...]:
    """Return the fields of a settings type: resolving their annotations takes a millisecond."""
    return msgspec.structs.fields(settings)


def setting_of(field: FieldInfo) -> Setting | None:
    """Return what a field says about its key; None where the code alone sets it."""
    marks = getattr(field.type, "__metadata__", ())
    return next((mark for mark in marks if isinstance(mark, Setting)), None)


def _key_of(field: FieldInfo) -> Key | None:
    setting = setting_of(field)
    if setting is None:
        return None
    limits = next((mark for mark in field.type.__metadata__ if isinstance(mark, Meta)), Meta())
    plain = _plain(field.type)
    kind = Kind.TEXT if issubclass(plain, str) else _KINDS[plain]
    words = tuple(plain) if issubclass(plain, StrEnum) else ()
    return Key(
        field=field,
        setting=setting,
        kind=Kind.ONE_OR_MORE if setting.may_be_single else kind,
        minimum=limits.ge,
        maximum=limits.le,
        choices=words if setting.word_for_none is None else (setting.word_for_none, *words),
        pattern=limits.pattern,
    )


def _plain(annotated: Any) -> type:
    """Return the type of a field without its marks, its None and its items."""
    plain: Any = get_args(annotated)[0]
    if isinstance(plain, UnionType):
        plain = next(part for part in get_args(plain) if part is not NoneType)
    whole: type = get_origin(plain) or plain
    return whole


def in_toml(value: Any) -> str:
    """Return a value as the file writes it."""
    if isinstance(value, list):
        return f"[{', '.join(in_toml(item) for item in value)}]"
    if isinstance(value, Mapping):
        pairs = ", ".join(f"{_key_in_toml(name)} = {in_toml(item)}" for name, item in value.items())
        return f"{{ {pairs} }}" if pairs else "{}"
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, float):
        return number(value)
    return json.dumps(value, ensure_ascii=False)


def _key_in_toml(name: str) -> str:
    return name if re.fullmatch("[A-Za-z0-9_-]+", name) else in_toml(name)


def number(value: float) -> str:
    """Return a number without a needless fraction."""
    return str(int(value)) if value == int(value) else str(value)

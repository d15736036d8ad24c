"""How a setting is described. One description serves reading, reference and schema alike.

A key's default is not written here: it is the default of the field that the key sets.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from datetime import datetime
from enum import Enum, StrEnum
from types import NoneType, UnionType
from typing import Any, get_args, get_origin

import msgspec
from msgspec import Meta, Struct

from monitor.model.secrets import Secret
from monitor.model.settings import Setting, not_empty


class Kind(Enum):
    """The type of a value in the file: its name for people, and its name in a JSON Schema."""

    TEXT = ("a text in quotes", "string")
    TEXTS = ("a list of texts", "array")
    NUMBER = ("a number", "number")
    WHOLE = ("a whole number", "integer")
    BOOLEAN = ("true or false", "boolean")
    ONE_OR_MORE = ("a text or a list of texts", ["string", "array"])
    TABLE = ("a table of texts", "object")
    INSTANT = (
        "a date and time with its offset, without quotes, such as 2026-11-21T18:00:00Z",
        "string",
    )
    SECRET = ("a secret", "string")  # never in the file: see `locations`

    @property
    def title(self) -> str:
        title: str = self.value[0]
        return title

    @property
    def schema_type(self) -> Any:
        """A word, or a list of them where there is a choice."""
        return self.value[1]

    def fits(self, value: object) -> bool:
        """True where the value has this type; a boolean is no number here."""
        if isinstance(value, bool) or self is Kind.BOOLEAN:
            return isinstance(value, bool) and self is Kind.BOOLEAN
        fits = _FITS.get(self)
        return isinstance(value, str) if fits is None else fits(value)


def _is_number(value: object) -> bool:
    # TOML knows nan and inf; no setting has a use for either.
    return isinstance(value, int | float) and abs(value) < float("inf")


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _is_table_of_texts(value: object) -> bool:
    return isinstance(value, Mapping) and all(
        isinstance(item, str) for pair in value.items() for item in pair
    )


_FITS: Mapping[Kind, Callable[[object], bool]] = {
    Kind.NUMBER: _is_number,
    Kind.WHOLE: lambda value: isinstance(value, int),
    Kind.TEXTS: _are_texts,
    Kind.ONE_OR_MORE: lambda value: isinstance(value, str) or _are_texts(value),
    Kind.TABLE: _is_table_of_texts,
    Kind.INSTANT: lambda value: isinstance(value, datetime) and value.tzinfo is not None,
}


# Returns what the value must be, or None where it is valid.
Check = Callable[[Any], str | None]
# Returns the fields that a value of the file stands for.
Spread = Callable[[Any], Mapping[str, Any]]


_UNITS = {"_seconds": "seconds", "_bytes": "bytes", "_per_minute": "requests a minute"}


class Key(Struct, frozen=True, kw_only=True):
    """One key of the file, and the field that it sets."""

    name: str
    kind: Kind
    about: str  # what it does and why to change it; one sentence or two
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    pattern: str = ""  # for editors, of a text that ``check`` validates
    check: Check | None = None
    is_required: bool = False
    is_file: bool = False  # names a file, which must exist
    example: Any = None  # for the reference, where there is no default
    target: type[Struct] | None = None  # where it is not the section's
    field: str = ""  # where it is not the key's name
    spread: Spread | None = None  # where one key sets several fields, or another type
    written_default: Any = None  # where the file writes the default in another form than the field
    varies: bool = False  # the field's default is none: another key sets it, or it must be given

    @property
    def field_name(self) -> str:
        return self.field or self.name

    @property
    def unit(self) -> str:
        """Return what a number counts, which its name says; empty where it says nothing."""
        return next((unit for ending, unit in _UNITS.items() if self.name.endswith(ending)), "")


_KINDS = {
    bool: Kind.BOOLEAN,
    int: Kind.WHOLE,
    float: Kind.NUMBER,
    datetime: Kind.INSTANT,
    dict: Kind.TABLE,
    tuple: Kind.TEXTS,
    Secret: Kind.SECRET,
}


def keys_of(settings: type[Struct]) -> tuple[Key, ...]:
    """Return the keys that set fields of a settings type: its own in their order, then its base's.

    Raises:
        KeyError: a field with a `Setting` has a type that no key can have.
    """
    classes = [inspect.get_annotations(settings_class) for settings_class in settings.__mro__]
    fields = {field.name: field for field in msgspec.structs.fields(settings)}
    names = dict.fromkeys(name for annotations in classes for name in annotations)
    keys = (_key_of(fields[name]) for name in names if name in fields)
    return tuple(key for key in keys if key is not None)


def _key_of(field: msgspec.structs.FieldInfo) -> Key | None:
    """Return the key that sets a field; None where the code alone sets it."""
    marks = getattr(field.type, "__metadata__", ())
    setting = next((mark for mark in marks if isinstance(mark, Setting)), None)
    if setting is None:
        return None
    limits = next((mark for mark in marks if isinstance(mark, Meta)), Meta())
    plain = _plain(field.type)
    kind = Kind.TEXT if issubclass(plain, str) else _KINDS[plain]
    words = tuple(plain) if issubclass(plain, StrEnum) else ()
    return Key(
        name=field.encode_name,
        kind=Kind.ONE_OR_MORE if setting.may_be_single else kind,
        about=setting.about,
        minimum=limits.ge,
        maximum=limits.le,
        choices=(setting.word_for_none, *words) if setting.word_for_none else words,
        pattern=limits.pattern or "",
        check=not_empty if setting.is_file else setting.check,
        is_required=field.required if setting.is_required is None else setting.is_required,
        is_file=setting.is_file,
        example=setting.example,
        field=field.name,
        varies=setting.example is not None,
    )


def _plain(annotated: Any) -> type:
    """Return the type of a field without its marks, its None and its items."""
    plain: Any = get_args(annotated)[0]
    if isinstance(plain, UnionType):
        plain = next(part for part in get_args(plain) if part is not NoneType)
    whole: type = get_origin(plain) or plain
    return whole


class Section(Struct, frozen=True, kw_only=True):
    """One table of the file, or one of a list of tables.

    ``fixed`` names the fields of the target that no key sets; they are set by the code alone.
    """

    path: str  # "mqtt", "workspaces.poll"
    target: type[Struct]
    about: str
    keys: tuple[Key, ...]
    is_optional: bool = False  # without the table, that part of the daemon is off
    is_repeated: bool = False  # there may be several: a list of tables
    is_example: bool = False  # the reference shows it behind #, since it would change something
    fixed: tuple[str, ...] = ()

    def target_of(self, key: Key) -> type[Struct]:
        return key.target or self.target

    def key(self, name: str) -> Key | None:
        return next((key for key in self.keys if key.name == name), None)


def default_of(section: Section, key: Key) -> Any:
    """Return the default as the file would write it; None where there is none."""
    if key.written_default is not None:
        return key.written_default
    if key.varies:
        return None
    for field in msgspec.structs.fields(section.target_of(key)):
        if field.name == key.field_name:
            if field.default_factory is dict:
                return {}
            return None if field.required else _written(field.default)
    return None


def _written(default: Any) -> Any:
    if default is msgspec.NODEFAULT:
        return None
    return list(default) if isinstance(default, tuple) else default


def converted(section: Section, key: Key, value: Any) -> Mapping[str, Any]:
    """Return the fields that a value of the file sets, each in the field's own type."""
    if key.spread is not None:
        return key.spread(value)
    if key.kind is Kind.SECRET:
        return {key.field_name: value}
    if key.kind is Kind.ONE_OR_MORE and isinstance(value, str):
        value = [value]
    kinds = {field.name: field.type for field in msgspec.structs.fields(section.target_of(key))}
    return {key.field_name: msgspec.convert(value, kinds[key.field_name])}


def in_toml(value: Any) -> str:
    """Return a value as the file writes it."""
    if isinstance(value, list):
        return f"[{', '.join(in_toml(item) for item in value)}]"
    if isinstance(value, Mapping):
        pairs = ", ".join(f"{name} = {in_toml(item)}" for name, item in value.items())
        return f"{{ {pairs} }}" if pairs else "{}"
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, float):
        return number(value)
    return json.dumps(value, ensure_ascii=False)


def number(value: float) -> str:
    """Return a number without a needless fraction."""
    return str(int(value)) if value == int(value) else str(value)


def section_of(
    path: str, settings: type[Struct], *, is_optional: bool = False, is_example: bool = False
) -> Section:
    """Return the section of a settings type; the type's docstring is its text."""
    return Section(
        path=path,
        target=settings,
        about=" ".join((settings.__doc__ or "").split()),
        keys=keys_of(settings),
        is_optional=is_optional,
        is_example=is_example,
    )

"""The models of the API: what fields bodies have, of which type, and which must be there.

``models/public.json`` holds what is publicly known. Each other file beside it belongs to one
family of operations and has up to three parts:

- ``assumed``: models that operations name and nobody describes.
- ``facts``: fields, as ``Model.field``, where recorded answers show something else than the
  public description, or more.
- ``bodies``: what operations take and answer for which the catalogue names no model.

A type is ``str``, ``int``, ``float``, ``bool``, ``datetime``, ``object``, ``any``, the name of a
model, ``list[X]``, ``dict(str, X)`` or ``X|Y``. A model whose only field has no name is no object
but what that field's type says, such as a bare text.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from importlib import resources
from typing import TypeAlias

import msgspec
from msgspec import Struct
from msgspec import field as attribute

from monitor.catalogue.operations import Operation

PUBLIC_FILE = "public.json"
WORDS = frozenset({"str", "int", "float", "bool", "datetime", "object", "any"})
_OF_LIST = re.compile(r"list\[(.+)\]")
_OF_MAP = re.compile(r"dict\(str, (.+)\)")
_BEFORE_A_BRACKET = re.compile(r"\|(?![^\[]*\])(?![^(]*\))")
# As the public models write what is a list or a text.
_ALIASES = {"list": "list[any]", "str (a bare JSON string)": "str"}


class Field(Struct, frozen=True, kw_only=True):
    """One field of a model. Without ``enum`` every value of its type is right."""

    type: str
    required: bool = False
    enum: tuple[str, ...] = ()


Model: TypeAlias = Mapping[str, Field]


class Bodies(Struct, frozen=True, kw_only=True):
    """The models of what an operation takes and answers; None where it does not."""

    request: str | None = None
    response: str | None = None


class Family(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The content of one family's file."""

    assumed: dict[str, dict[str, Field]] = attribute(default_factory=dict)
    facts: dict[str, Field] = attribute(default_factory=dict)
    bodies: dict[str, Bodies] = attribute(default_factory=dict)


class Simple(Struct, frozen=True):
    """A type that is one of ``WORDS``."""

    word: str


class Named(Struct, frozen=True):
    """A type that is a model."""

    model: str


class ListOf(Struct, frozen=True):
    """A list whose items have one type."""

    item: Type


class MapOf(Struct, frozen=True):
    """An object with any keys, whose values have one type."""

    value: Type


class AnyOf(Struct, frozen=True):
    """A value that has one of several types."""

    choices: tuple[Type, ...]


Type: TypeAlias = Simple | Named | ListOf | MapOf | AnyOf


@functools.cache
def type_of(text: str) -> Type:
    """Return what a field's ``type`` means."""
    text = _ALIASES.get(text, text)
    if len(parts := _BEFORE_A_BRACKET.split(text)) > 1:
        return AnyOf(tuple(type_of(part) for part in parts))
    if found := _OF_LIST.fullmatch(text):
        return ListOf(type_of(found.group(1)))
    if found := _OF_MAP.fullmatch(text):
        return MapOf(type_of(found.group(1)))
    return Simple(text) if text in WORDS else Named(text)


@functools.cache
def public_models() -> Mapping[str, Model]:
    """Return the publicly known models by name."""
    content = resources.files(__package__).joinpath(PUBLIC_FILE).read_bytes()
    return msgspec.json.decode(content, type=dict[str, dict[str, Field]])


@functools.cache
def families() -> Mapping[str, Family]:
    """Return the families' files by their names."""
    folder = resources.files(__package__)
    files = sorted(folder.iterdir(), key=lambda file: file.name)
    return {
        file.name: msgspec.json.decode(file.read_bytes(), type=Family)
        for file in files
        if file.name.endswith(".json") and file.name != PUBLIC_FILE
    }


@functools.cache
def models() -> Mapping[str, Model]:
    """Return all models by name: public ones with the families' facts, and assumed ones."""
    found = {name: dict(model) for name, model in public_models().items()}
    for family in families().values():
        found.update({name: dict(model) for name, model in family.assumed.items()})
    for path, correction in corrections().items():
        name, _, field = path.partition(".")
        found[name][field] = correction
    return found


@functools.cache
def corrections() -> Mapping[str, Field]:
    """Return where facts win over the public description, by ``Model.field``."""
    return {path: fact for family in families().values() for path, fact in family.facts.items()}


@functools.cache
def _bodies() -> Mapping[str, Bodies]:
    return {name: body for family in families().values() for name, body in family.bodies.items()}


def request_of(operation: Operation) -> str | None:
    """Return the type of the JSON that an operation takes; None where it takes none."""
    if operation.request is None and operation.operation_id in _bodies():
        return _bodies()[operation.operation_id].request
    return operation.request


def response_of(operation: Operation) -> str | None:
    """Return the type of the JSON that an operation answers; None where it answers none."""
    if operation.response is None and operation.operation_id in _bodies():
        return _bodies()[operation.operation_id].response
    return operation.response

"""The models of the API: the fields of bodies, their types, and which must be there.

``public.json`` holds what is publicly known. Each other file beside it belongs to one
family of operations and has up to three parts:

- ``assumed``: models that operations name without a description.
- ``facts``: fields, as ``Model.field``, where recorded answers show something else than the
  public description, or more.
- ``bodies``: what operations take and answer for which the catalogue names no model.

A type is ``str``, ``int``, ``float``, ``bool``, ``datetime``, ``object``, ``any``, the name of a
model, ``list[X]``, ``dict(str, X)`` or ``X|Y``. A model whose only field has no name is no object
but what that field's type says, such as a bare text.

Which status and which kind of body an operation takes and answers stands here too: the server
answers by it, and the served specification lists it.
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
JSON_TYPE = "application/json"
ZIP_TYPE = "application/zip"
PDF_TYPE = "application/pdf"
FORM_TYPE = "multipart/form-data"
FILE_TYPES = (ZIP_TYPE, "application/octet-stream", FORM_TYPE)
# Answers of these models are the few fields that show what changed.
MINIMAL = frozenset({"UpdatedObjectSchema", "WrangledDatasetUpdateResponse"})
# A repeated x-execution-id is answered 304.
RUNS = frozenset({"runJobGroup", "runFlow", "runPlan"})
_MAKING = ("create", "copy", "import", "run", "add", "share", "commit")
_MAKES_NOTHING = frozenset({"importPackageDryRun"})
_ALSO_MAKES = frozenset({"updateConnectorOverrides"})  # by its name: "Create overrides ..."
_FILES = {
    "getFlowPackage": ZIP_TYPE,
    "getPlanPackage": ZIP_TYPE,
    "getMacroPackage": ZIP_TYPE,
    "getEnvironmentParametersPackage": ZIP_TYPE,
    "getJobGroupPdfResults": PDF_TYPE,
}
_TAKES_FILES_ONLY = frozenset(
    {
        *("importPackage", "importPackageDryRun", "importMacroPackage", "importPlanPackage"),
        *("importAndAddDataset", "createRelease"),
    }
)
_TAKES_FILES_TOO = frozenset({"importEnvironmentParametersPackage"})


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


def status_of(operation: Operation) -> int:
    """Return the status of success: 201 where something is made, 204 where there is no body."""
    if makes(operation):
        return 201
    return 200 if media_type_of(operation) is not None else 204


def makes(operation: Operation) -> bool:
    """True for what creates something."""
    name = operation.operation_id
    if operation.method != "POST" or name in _MAKES_NOTHING:
        return False
    return name in _ALSO_MAKES or name.startswith(_MAKING)


def media_type_of(operation: Operation) -> str | None:
    """Return the type of the answer's body; None where it has none."""
    if operation.operation_id in _FILES:
        return _FILES[operation.operation_id]
    return None if response_of(operation) is None else JSON_TYPE


def takes_files(operation: Operation) -> bool:
    """True where the request's body is, or may be, a file."""
    return operation.operation_id in _TAKES_FILES_ONLY | _TAKES_FILES_TOO


def body_types_of(operation: Operation) -> tuple[str, ...]:
    """Return the types of body that an operation takes; none where it takes no body."""
    name = operation.operation_id
    if name in _TAKES_FILES_ONLY:
        return FILE_TYPES
    if request_of(operation) is None:
        return ()
    return (JSON_TYPE, *FILE_TYPES) if name in _TAKES_FILES_TOO else (JSON_TYPE,)

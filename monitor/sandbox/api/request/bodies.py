"""Holds a body against the model that its operation names, and reads its fields one by one.

Lenient where the workspace is: unknown fields are ignored, digits in a text are an integer, and
a field named ``value`` takes any JSON. Every refusal names the field by its path.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime

from monitor.sandbox.api.errors import ApiError, Json, bad_field, validation_failed
from monitor.sandbox.api.models.models import (
    AnyOf,
    Field,
    ListOf,
    MapOf,
    Model,
    Named,
    Simple,
    Type,
    models,
    type_of,
)
from monitor.sandbox.api.request.parameters import INTEGER

MOST_LEVELS = 40
LONGEST_TEXT = 64 * 1024
LARGEST_INTEGER = 2**63 - 1
_NOUNS = {
    "str": "a string",
    "int": "an integer",
    "float": "a number",
    "bool": "a boolean",
    "datetime": "a date",
    "object": "an object",
}
_TYPES: dict[str, type | tuple[type, ...]] = {
    "str": str,
    "int": int,
    "float": (int, float),
    "bool": bool,
    "object": dict,
}


def check_body(type_name: str, body: Json) -> Json:
    """Return a body that fits a type; an absent one is empty where nothing is required.

    Raises:
        ApiError: 400, naming the field that does not fit.
    """
    check_sizes(body)
    type_ = type_of(type_name)
    if body is None and not _requires(type_):
        return {}
    is_object = isinstance(type_, Named) and "" not in models().get(type_.model, {"": None})
    if is_object and not isinstance(body, dict):
        raise validation_failed('"body" must be a JSON object')
    _check(type_, body, path="", enum=())
    return body


def check_part(type_name: str, value: Json, *, path: str) -> Json:
    """Return a part of a body that fits a type which the body's own model does not define.

    Raises:
        ApiError: 400, naming the field that does not fit.
    """
    _check(type_of(type_name), value, path=path, enum=())
    return value


def check_sizes(body: Json) -> None:
    """Refuse what could not be repeated in an answer: deep nests and endless numbers.

    Raises:
        ApiError: 400.
    """
    level = [body]
    for _ in range(MOST_LEVELS):
        inner: list[Json] = []
        for value in level:
            if isinstance(value, dict):
                inner.extend(value.values())
            elif isinstance(value, list):
                inner.extend(value)
            elif isinstance(value, int) and abs(value) > LARGEST_INTEGER:
                raise validation_failed(f'"body" has an integer beyond {LARGEST_INTEGER}')
        if not inner:
            return
        level = inner
    raise validation_failed(f'"body" has more than {MOST_LEVELS} levels')


def _requires(type_: Type) -> bool:
    model = models().get(type_.model, {}) if isinstance(type_, Named) else {}
    return any(field.required for field in model.values())


def _check(type_: Type, value: Json, *, path: str, enum: Iterable[str]) -> None:
    match type_:
        case Simple(word):
            _check_word(word, value, path=path, enum=tuple(enum))
        case Named(model) if model in models():
            _check_model(models()[model], value, path=path)
        case ListOf(item):
            if not isinstance(value, list):
                raise bad_field(path or "body", "must be an array")
            for place, json in enumerate(value):
                _check(item, json, path=f"{path}[{place}]", enum=enum)
        case MapOf(inner):
            if not isinstance(value, dict):
                raise bad_field(path or "body", "must be an object")
            for name, json in value.items():
                _check(inner, json, path=f"{path}.{name}" if path else name, enum=())
        case AnyOf(choices):
            _check_choices(choices, value, path=path, enum=enum)
        case _:
            return  # a model without a description


def _check_model(model: Model, value: Json, *, path: str) -> None:
    if "" in model:
        _check(type_of(model[""].type), value, path=path, enum=model[""].enum)
        return
    if not isinstance(value, dict):
        raise bad_field(path or "body", "must be an object")
    for name, field in model.items():
        _check_field(name, field, value, path=f"{path}.{name}" if path else name)


def _check_field(name: str, field: Field, holder: Mapping[str, Json], *, path: str) -> None:
    value = holder.get(name)
    if value is None:
        if field.required:
            raise bad_field(path, "is required")
        return
    if name == "value" and field.type == "object":
        return
    _check(type_of(field.type), value, path=path, enum=field.enum)


def _check_choices(
    choices: tuple[Type, ...], value: Json, *, path: str, enum: Iterable[str]
) -> None:
    refusal: ApiError | None = None
    for choice in choices:
        try:
            _check(choice, value, path=path, enum=enum)
        except ApiError as error:
            refusal = error
        else:
            return
    if all(isinstance(choice, Simple) for choice in choices):
        nouns = [
            _NOUNS.get(choice.word, choice.word) for choice in choices if isinstance(choice, Simple)
        ]
        raise bad_field(path or "body", f"must be {' or '.join(nouns)}")
    if refusal is not None:
        raise refusal


def _check_word(word: str, value: Json, *, path: str, enum: tuple[str, ...]) -> None:
    if word != "any" and not _is(word, value):
        raise bad_field(path or "body", f"must be {_NOUNS[word]}")
    if isinstance(value, str) and len(value) > LONGEST_TEXT:
        raise bad_field(path or "body", f"must be at most {LONGEST_TEXT} characters long")
    if enum and value not in enum:
        raise bad_field(path or "body", f"must be one of [{', '.join(enum)}]")


def _is(word: str, value: Json) -> bool:
    if word == "int" and isinstance(value, str):
        return INTEGER.fullmatch(value) is not None
    if word == "datetime":
        return isinstance(value, str) and instant(value) is not None
    if isinstance(value, bool):
        return word == "bool"
    return isinstance(value, _TYPES[word])


def instant(text: str) -> datetime | None:
    """Return the moment that a text names, in UTC where it names no zone; None for no date."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


class Body:
    """One JSON object. ``path`` is where it stands in the whole body, for messages."""

    def __init__(self, value: Json, *, path: str = "") -> None:
        """Take the object.

        Raises:
            ApiError: 400, when the value is no object.
        """
        if not isinstance(value, dict):
            raise (
                bad_field(path, "must be an object")
                if path
                else validation_failed('"body" must be a JSON object')
            )
        self._value: Mapping[str, Json] = value
        self._path = path

    def name_of(self, field: str) -> str:
        return f"{self._path}.{field}" if self._path else field

    def has(self, field: str) -> bool:
        return self._value.get(field) is not None

    def names(self) -> tuple[str, ...]:
        """Return the names of the fields that were sent, null or not."""
        return tuple(self._value)

    def raw(self, field: str) -> Json:
        """Return the value as it was sent.

        Raises:
            ApiError: 400, when the field is missing or null.
        """
        if not self.has(field):
            raise bad_field(self.name_of(field), "is required")
        return self._value[field]

    def text(self, field: str, *, one_of: Collection[str] = (), longest: int = LONGEST_TEXT) -> str:
        """Return a text, not empty.

        Raises:
            ApiError: 400, when it is missing, no text, too long or none of ``one_of``.
        """
        value: str = self._read(field, "str")
        if not value:
            raise bad_field(self.name_of(field), "is not allowed to be empty")
        if len(value) > longest:
            raise bad_field(self.name_of(field), f"must be at most {longest} characters long")
        if one_of and value not in one_of:
            raise bad_field(self.name_of(field), f"must be one of [{', '.join(one_of)}]")
        return value

    def optional_text(self, field: str) -> str | None:
        """Return a text, or None where it is absent, null or empty.

        Raises:
            ApiError: 400, when it is no text.
        """
        return self.text(field) if self.has(field) and self._value[field] != "" else None

    def integer(self, field: str, *, least: int | None = None, most: int = LARGEST_INTEGER) -> int:
        """Return a whole number; digits in a text count as one.

        Raises:
            ApiError: 400, when it is missing, no whole number or outside the limits.
        """
        value = int(self._read(field, "int"))
        if value > most or (least is not None and value < least):
            raise bad_field(self.name_of(field), f"must be from {least} to {most}")
        return value

    def boolean(self, field: str, *, default: bool = False) -> bool:
        """Return a truth value.

        Raises:
            ApiError: 400, when it is something else.
        """
        return bool(self._read(field, "bool")) if self.has(field) else default

    def integers(self, field: str) -> tuple[int, ...]:
        """Return a list of whole numbers; none where the field is absent.

        Raises:
            ApiError: 400, when it is something else.
        """
        values = self._read(field, "list[int]") if self.has(field) else ()
        return tuple(int(value) for value in values)

    def array(self, field: str) -> list[Json]:
        """Return a list.

        Raises:
            ApiError: 400, when it is missing or something else.
        """
        return list(self._read(field, "list[any]"))

    def objects(self, field: str) -> list[Body]:
        """Return a list of objects.

        Raises:
            ApiError: 400, when it is missing, empty or something else.
        """
        values = self.array(field)
        if not values:
            raise bad_field(self.name_of(field), "must contain at least 1 item")
        return [
            Body(value, path=f"{self.name_of(field)}[{index}]")
            for index, value in enumerate(values)
        ]

    def object(self, field: str) -> Body:
        """Return an object.

        Raises:
            ApiError: 400, when it is missing or something else.
        """
        return Body(self.raw(field), path=self.name_of(field))

    def texts(self, field: str) -> dict[str, str]:
        """Return a map of texts; empty where the field is absent.

        Raises:
            ApiError: 400, when it is something else.
        """
        return dict(self._read(field, "dict(str, str)")) if self.has(field) else {}

    def _read(self, field: str, type_name: str) -> Json:
        return check_part(type_name, self.raw(field), path=self.name_of(field))

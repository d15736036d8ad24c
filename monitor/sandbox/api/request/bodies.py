"""Fields of a JSON body, read one at a time; every refusal names the field."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TypeVar

from monitor.sandbox.api.errors import Json, bad_field, validation_failed
from monitor.sandbox.api.request.parameters import INTEGER

LONGEST_TEXT = 64 * 1024
LARGEST_INTEGER = 2**63 - 1
Default = TypeVar("Default")


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
        value = self.raw(field)
        if not isinstance(value, str):
            raise bad_field(self.name_of(field), "must be a string")
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
        if not self.has(field) or self._value[field] == "":
            return None
        return self.text(field)

    def integer(self, field: str, *, least: int | None = None, most: int = LARGEST_INTEGER) -> int:
        """Return a whole number; digits in a text count as one.

        Raises:
            ApiError: 400, when it is missing, no whole number or outside the limits.
        """
        return _integer(self.raw(field), self.name_of(field), least=least, most=most)

    def boolean(self, field: str, *, default: bool = False) -> bool:
        """Return a truth value.

        Raises:
            ApiError: 400, when it is something else.
        """
        if not self.has(field):
            return default
        value = self._value[field]
        if not isinstance(value, bool):
            raise bad_field(self.name_of(field), "must be a boolean")
        return value

    def integers(self, field: str) -> tuple[int, ...]:
        """Return a list of whole numbers; none where the field is absent.

        Raises:
            ApiError: 400, when it is something else.
        """
        if not self.has(field):
            return ()
        found = []
        for index, value in enumerate(self.array(field)):
            found.append(_integer(value, f"{self.name_of(field)}[{index}]"))
        return tuple(found)

    def array(self, field: str) -> list[Json]:
        """Return a list.

        Raises:
            ApiError: 400, when it is missing or something else.
        """
        value = self.raw(field)
        if not isinstance(value, list):
            raise bad_field(self.name_of(field), "must be an array")
        return value

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
        if not self.has(field):
            return {}
        value = self.raw(field)
        if not isinstance(value, dict):
            raise bad_field(self.name_of(field), "must be an object")
        for name, text in value.items():
            if not isinstance(text, str):
                raise bad_field(f"{self.name_of(field)}.{name}", "must be a string")
        return dict(value)


def _integer(
    value: Json, name: str, *, least: int | None = None, most: int = LARGEST_INTEGER
) -> int:
    if isinstance(value, str) and INTEGER.fullmatch(value):
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise bad_field(name, "must be an integer")
    if value > most or (least is not None and value < least):
        raise bad_field(name, f"must be from {least} to {most}")
    return value

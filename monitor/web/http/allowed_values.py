"""Words for the allowed values of a parameter or field."""

from __future__ import annotations

from typing import Any

from msgspec import inspect


def kinds_of(annotation: Any) -> tuple[inspect.Type, ...]:
    """Return the types that a value of an annotation may have, None and limits among them."""
    return _unwrapped(inspect.type_info(annotation))


def need_of(kinds: tuple[inspect.Type, ...]) -> str:
    """Return what a value should have been, empty where its error says it as well."""
    return next(filter(None, map(_need, kinds)), "")


def _unwrapped(info: inspect.Type) -> tuple[inspect.Type, ...]:
    match info:
        case inspect.UnionType(types=types):
            return tuple(kind for part in types for kind in _unwrapped(part))
        case inspect.Metadata(type=described):
            return _unwrapped(described)
    return (info,)


def _need(kind: inspect.Type) -> str:
    match kind:
        case inspect.EnumType(cls=words):
            return f"is none of {', '.join(str(word.value) for word in words)}"
        case inspect.LiteralType(values=values):
            return f"is none of {', '.join(map(str, values))}"
        case inspect.IntType(ge=int(least), le=int(most)):
            return f"is not a number from {least} to {most}"
        case inspect.DateTimeType():
            return "is not an ISO 8601 instant"
        case inspect.BoolType():
            return "is neither true nor false"
    return ""

"""Parses the query of a URL into a struct, and writes it again for links."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

import msgspec
from msgspec import NODEFAULT, Struct
from msgspec.structs import FieldInfo, fields

from monitor.model.suggestions import did_you_mean
from monitor.web.http.problems import ProblemDetails
from monitor.web.http.request_parsing import SHOWN, one_line

S = TypeVar("S", bound=Struct)

_TEXT_CHARACTERS = 500  # of one parameter


def parse_queries(
    types: Sequence[type[Struct]], path: Mapping[str, str], query: Iterable[tuple[str, str]]
) -> list[Struct]:
    """Return one struct of each type; a parameter goes to every type that has such a field.

    Raises:
        ProblemDetails: a parameter that none of them has, that is given twice, or whose value
            does not fit.
    """
    known = sorted({field.encode_name for kind in types for field in fields(kind)} - path.keys())
    values = dict(path)
    for name, text in query:
        if name not in known:
            hint = did_you_mean(name[:SHOWN], known) or f"; known: {', '.join(known) or 'none'}"
            raise ProblemDetails(400, f"query: {one_line(name[:SHOWN])!r} is not known{hint}")
        if name in values:
            raise ProblemDetails(400, f"{name}: is given twice")
        if text:  # a form sends its empty fields too
            values[name] = text
    return [_parse(kind, values) for kind in types]


def parse_query(kind: type[S], path: Mapping[str, str], query: Iterable[tuple[str, str]]) -> S:
    """Return the query as a struct of one type; raises as `parse_queries` does."""
    (parsed,) = parse_queries([kind], path, query)
    assert isinstance(parsed, kind)  # noqa: S101 - for the type checker
    return parsed


def url_of(path: str, query: Struct, **changes: object) -> str:
    """Return the URL of a page or route with this query; what equals its default is left out.

    Names in braces in ``path`` are filled in from the query. ``changes`` go over its fields.
    """
    values = {**msgspec.structs.asdict(query), **changes}
    shown: dict[str, str] = {}
    for field in fields(type(query)):
        value, text = values[field.name], _text(values[field.name])
        if f"{{{field.name}}}" in path:
            path = path.replace(f"{{{field.name}}}", quote(text, safe=""))
        elif value != field.default:
            shown[field.encode_name] = text
    return f"{path}?{urlencode(shown)}" if shown else path


def _parse(kind: type[S], values: Mapping[str, str]) -> S:
    parsed: dict[str, Any] = {}
    for field in fields(kind):
        text = values.get(field.encode_name)
        if text is not None:
            parsed[field.name] = _value(field, text)
        elif field.default is NODEFAULT:
            raise ProblemDetails(400, f"{field.encode_name}: is missing")
    return kind(**parsed)


def _value(field: FieldInfo, text: str) -> Any:
    if len(text) > _TEXT_CHARACTERS:
        raise ProblemDetails(
            400, f"{field.encode_name}: is longer than {_TEXT_CHARACTERS} characters"
        )
    try:
        return msgspec.convert(text, field.type, strict=False)
    except msgspec.ValidationError as exc:
        words = [str(word) for word in _words(field.type)]
        need = f"is none of {', '.join(words)}" if words else f"does not fit: {exc}"
        shown = one_line(text[:SHOWN])
        raise ProblemDetails(400, f"{field.encode_name}: {shown!r} {need}") from exc


def _words(kind: Any) -> list[object]:
    """Return the words that an enumeration or literal allows, none for any other type."""
    info: Any = msgspec.inspect.type_info(kind)
    parts = getattr(info, "types", (info,))
    words: list[object] = []
    for part in parts:
        if isinstance(part, msgspec.inspect.EnumType):
            words += [member.value for member in part.cls]
        elif isinstance(part, msgspec.inspect.LiteralType):
            words += part.values
    return words


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)

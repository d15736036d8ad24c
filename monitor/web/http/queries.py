"""Parses the query of a URL into a struct, and writes it again for links."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

import msgspec
from msgspec import NODEFAULT, Struct
from msgspec.structs import FieldInfo, fields

from monitor.model.suggestions import did_you_mean
from monitor.web.http.allowed_values import kinds_of, need_of
from monitor.web.http.problem_details import ProblemDetails
from monitor.web.http.request_parsing import SHOWN, one_line

S = TypeVar("S", bound=Struct)

LONGEST_PARAMETER = 500  # characters


def parse_queries(
    types: Sequence[type[Struct]], path: Mapping[str, str], query: Iterable[tuple[str, str]]
) -> list[Struct]:
    """Return one struct of each type; a parameter goes to every type that has such a field.

    Raises:
        ProblemDetails: a parameter that none of them has, that is given twice, or whose value
            does not fit. What is wrong in the path names no page: 404.
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
    return [_parse(kind, values, path) for kind in types]


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


def _parse(kind: type[S], values: Mapping[str, str], path: Mapping[str, str]) -> S:
    parsed: dict[str, Any] = {}
    for field in fields(kind):
        text = values.get(field.encode_name)
        if text is not None:
            status = 404 if field.encode_name in path else 400
            parsed[field.name] = _value(field, text, status=status)
        elif field.default is NODEFAULT:
            raise ProblemDetails(400, f"{field.encode_name}: is missing")
    return kind(**parsed)


def _value(field: FieldInfo, text: str, *, status: int) -> Any:
    if len(text) > LONGEST_PARAMETER:
        raise ProblemDetails(
            status, f"{field.encode_name}: is longer than {LONGEST_PARAMETER} characters"
        )
    kinds = kinds_of(field.type)
    try:
        if any(isinstance(kind, msgspec.inspect.DateTimeType) for kind in kinds):
            return _instant(field.encode_name, text)  # msgspec would take a number for one too
        return msgspec.convert(text, field.type, strict=False)
    except ValueError as exc:
        need = need_of(kinds) or f"does not fit: {exc}"
        shown = one_line(text[:SHOWN])
        raise ProblemDetails(status, f"{field.encode_name}: {shown!r} {need}") from exc


def _instant(name: str, text: str) -> datetime:
    instant = datetime.fromisoformat(text)
    if instant.tzinfo is None:
        raise ProblemDetails(
            400, f"{name}: {text[:SHOWN]!r} names no time zone; add Z or an offset"
        )
    return instant


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return value.isoformat()
    return "" if value is None else str(value)

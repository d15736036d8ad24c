"""Parses requests: bodies, queries, words and cursors; and writes queries again, for links.

A list is sorted by a key that no two rows share, such as (created_at, id), and a cursor is the key
of the last row that was shown. So a page goes on after that row also where rows were added or
removed meanwhile. Nothing is kept for a client.

    key = read_cursor("runs", query.cursor, tuple[datetime, str])
    rows = [row for row in rows if key is None or sort_key(row) > key]
    next_cursor = cursor_after("runs", sort_key(rows[-1])) if has_more else None
"""

from __future__ import annotations

import asyncio
import base64
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import MAXYEAR, MINYEAR, datetime
from enum import StrEnum
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

import msgspec
from aiohttp import web
from msgspec import NODEFAULT, Struct, inspect
from msgspec.structs import FieldInfo, fields

from monitor.model.suggestions import did_you_mean
from monitor.web.http.problem_details import ProblemDetails
from monitor.web.http.struct_fields import fields_of

T = TypeVar("T")
E = TypeVar("E", bound=StrEnum)
S = TypeVar("S", bound=Struct)
K = TypeVar("K", bound=tuple[Any, ...])

BODY = web.RequestKey("body", object)  # the parsed body of a write, for its line in the log
BODY_SECONDS = web.AppKey("body_seconds", float)  # for a client to send a body
SHOWN = 40  # characters of what a request names
LONGEST_PARAMETER = 500  # characters

_ERROR_SHOWN = 200  # characters of an error, which repeats parts of the body
_UNKNOWN_WORD = re.compile(r"Invalid enum value .* - at `\$\.(\w+)`")
_KNOWN_SHOWN = 10  # names that fit into a line
_SORTED_BY = 40  # characters of a name


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


def answer_json(value: object, *, status: int = 200) -> web.Response:
    return web.Response(
        status=status, body=msgspec.json.encode(value), content_type="application/json"
    )


def one_line(text: str) -> str:
    """Return the text without line breaks and control characters."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


async def read_body(request: web.Request, shape: type[T]) -> T:
    """Return the body.

    Raises:
        ProblemDetails: it is not JSON of that shape, or is not there in time.
    """
    # A page of another origin may let a browser post plain text here, but not JSON.
    if request.content_type != "application/json":
        raise ProblemDetails(415, "body: its Content-Type must be application/json")
    try:
        async with asyncio.timeout(request.app[BODY_SECONDS]):
            text = await request.read()
    except TimeoutError as exc:
        raise ProblemDetails(408, "body: it did not arrive in time") from exc
    try:
        body = msgspec.json.decode(text, type=shape)
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
        # The error repeats the name of an unknown field, which may be anything.
        error = one_line(str(exc)[:_ERROR_SHOWN])
        raise ProblemDetails(400, f"body: {error}{_allowed(error, shape)}") from exc
    request[BODY] = body
    return body


def _allowed(error: str, shape: type[Any]) -> str:
    """Return the words that the field may have whose value is none of them."""
    field = _UNKNOWN_WORD.fullmatch(error)
    if field is None:
        return ""
    annotations = {each.encode_name: each.type for each in fields(shape)}
    return f", which {need_of(kinds_of(annotations[field[1]]))}"


def parse_word(name: str, text: str, words: type[E]) -> E:
    """Return the word.

    Raises:
        ProblemDetails: it is none of the words.
    """
    try:
        return words(text)
    except ValueError as exc:
        problem = f"{name}: {text[:SHOWN]!r} is none of {', '.join(words)}"
        raise ProblemDetails(400, problem) from exc


def unknown(name: str, known: Collection[str]) -> str:
    """Return the sentence that a name is not known, with the nearest one that is."""
    hint = did_you_mean(name[:SHOWN], known)
    if not hint and 0 < len(known) <= _KNOWN_SHOWN:
        hint = f"; known: {', '.join(known)}"
    return f"{name[:SHOWN]!r} is not known{hint}"


def parse_queries(
    types: Sequence[type[Struct]], path: Mapping[str, str], query: Iterable[tuple[str, str]]
) -> list[Struct]:
    """Return one struct of each type; a parameter goes to every type that has such a field.

    Raises:
        ProblemDetails: a parameter that none of them has, that is given twice, or whose value
            does not fit. What is wrong in the path names no page: 404.
    """
    known = sorted({field.encode_name for kind in types for field in fields_of(kind)} - path.keys())
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
    for field in fields_of(type(query)):
        value, text = values[field.name], _text(values[field.name])
        if f"{{{field.name}}}" in path:
            path = path.replace(f"{{{field.name}}}", quote(text, safe=""))
        elif value != field.default:
            shown[field.encode_name] = text
    return f"{path}?{urlencode(shown)}" if shown else path


def _parse(kind: type[S], values: Mapping[str, str], path: Mapping[str, str]) -> S:
    parsed: dict[str, Any] = {}
    for field in fields_of(kind):
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


def cursor_after(list_name: str, key: tuple[Any, ...]) -> str:
    """Return the cursor of the page after the row with that sort key.

    ``list_name`` names the list and its order, such as ``pipelines by name``: a cursor of another
    order is foreign. The key is of what JSON knows, and short: see `sort_text`.
    """
    text = msgspec.json.encode([list_name, *key])
    return base64.urlsafe_b64encode(text).decode().rstrip("=")


def read_cursor(list_name: str, cursor: str | None, shape: type[K]) -> K | None:
    """Return the sort key in a cursor, None without one.

    Its instants are aware, so that they compare with those of rows.

    Raises:
        ProblemDetails: it is no cursor of this list; ``shape`` is the type of its keys.
    """
    if cursor is None:
        return None
    try:
        text = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        of, *key = msgspec.json.decode(text, type=list[Any])
        after: K = msgspec.convert(key, shape)
        if of == list_name and all(map(_is_sortable, after)):
            return after
    except (ValueError, OverflowError, RecursionError):  # no base64, no JSON, or another key
        pass
    raise ProblemDetails(
        400,
        f"cursor: {one_line(cursor[:SHOWN])!r} is not one of this list; "
        "leave it out to start at the beginning",
    )


def _is_sortable(part: object) -> bool:
    """Return False for an instant without a zone, or that another zone cannot express."""
    if not isinstance(part, datetime):
        return True
    return part.tzinfo is not None and MINYEAR < part.year < MAXYEAR


def sort_text(name: str) -> str:
    """Return what a list sorts a name by: names may be too long for a cursor.

    Rows whose names begin alike need something more in their key, such as an id.
    """
    return name.casefold()[:_SORTED_BY]

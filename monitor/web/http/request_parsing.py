"""Parses requests and writes JSON: bodies, words of a query, names that are not known."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection
from enum import StrEnum
from typing import Any, TypeVar

import msgspec
from aiohttp import web
from msgspec.structs import fields

from monitor.model.suggestions import did_you_mean
from monitor.web.http.allowed_values import kinds_of, need_of
from monitor.web.http.problem_details import ProblemDetails

T = TypeVar("T")
E = TypeVar("E", bound=StrEnum)

BODY = web.RequestKey("body", object)  # the parsed body of a write, for its line in the log
BODY_SECONDS = web.AppKey("body_seconds", float)  # for a client to send a body
_ERROR_SHOWN = 200  # characters of an error, which repeats parts of the body
SHOWN = 40  # characters of what a request names
_UNKNOWN_WORD = re.compile(r"Invalid enum value .* - at `\$\.(\w+)`")
_KNOWN_SHOWN = 10  # names that fit into a line


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

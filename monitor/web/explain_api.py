"""Reads what a request asks, and writes what it is answered."""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum
from typing import TypeVar

import msgspec
from aiohttp import web

from monitor.model.suggestions import did_you_mean
from monitor.web.problems import ProblemDetails

T = TypeVar("T")
E = TypeVar("E", bound=StrEnum)

_LONGEST = 200  # of what is repeated of a body
_SHOWN = 40  # characters of what was asked for
_KNOWN_SHOWN = 10  # names that fit into a line


def answer_json(value: object, *, status: int = 200) -> web.Response:
    return web.Response(
        status=status, body=msgspec.json.encode(value), content_type="application/json"
    )


async def read_body(request: web.Request, shape: type[T]) -> T:
    """Return the body, or say in a problem what is wrong with it."""
    # A page of somebody else's may let a browser post plain text here, but not JSON.
    if request.content_type != "application/json":
        raise ProblemDetails(415, "body: its Content-Type must be application/json")
    try:
        return msgspec.json.decode(await request.read(), type=shape)
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
        # The message repeats the name of an unknown field, which may be anything.
        said = "".join(item if item.isprintable() else "\ufffd" for item in str(exc)[:_LONGEST])
        raise ProblemDetails(400, f"body: {said}") from exc


def choice(request: web.Request, name: str, words: type[E]) -> E | None:
    """Return one word of a query, None where it is not there."""
    told = request.query.get(name)
    if told is None:
        return None
    try:
        return words(told)
    except ValueError as exc:
        raise ProblemDetails(400, f"{name}: {told[:40]!r} is none of {', '.join(words)}") from exc


def unknown(asked: str, known: Collection[str]) -> str:
    """Return the sentence that a name is not known, with the nearest one that is."""
    hint = did_you_mean(asked[:_SHOWN], known)
    if not hint and 0 < len(known) <= _KNOWN_SHOWN:
        hint = f"; known: {', '.join(known)}"
    return f"{asked[:_SHOWN]!r} is not known{hint}"


def refuse_unknown(workspace: str | None, known: Collection[str], *, status: int = 400) -> None:
    """Raise a problem where a workspace is asked for that is not known.

    For where nothing was found: of one that was followed once there may still be runs and alerts.
    """
    if workspace is not None and workspace not in known:
        raise ProblemDetails(status, f"workspace: {unknown(workspace, known)}")

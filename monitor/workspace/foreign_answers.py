"""Recognises answers that are not the API's: a login, maintenance or error page of a proxy.

They prove nothing about editions, operations or objects, whatever their status. A refusal of the
API has its error envelope; a good answer is JSON, and of the shape that the operation has. JSON is
examined only until an operation has been answered well once, because reading a page twice costs.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import msgspec
from msgspec import Raw, Struct

from monitor.catalogue.operations import Operation
from monitor.model.errors import PayloadError
from monitor.model.outside import harmless
from monitor.workspace import wire
from monitor.workspace.decoding import read_as

_LONGEST_TYPE = 60
_MARKUP = "text/html"
_ANY = msgspec.json.Decoder(Raw)
_LISTING = msgspec.json.Decoder(wire.Listing | list[Raw])


class _Document(Struct):
    paths: dict[str, Raw]


# Of the operations from which the edition follows.
_SHAPES: Mapping[str, msgspec.json.Decoder[Any]] = {
    "getOpenApiSpec": msgspec.json.Decoder(_Document),
    "getCurrentPerson": msgspec.json.Decoder(wire.OnlyId),
    "listFlows": _LISTING,
    "listJobLibrary": _LISTING,
    "listOutputObjects": _LISTING,
    "listPlanSnapshotRuns": _LISTING,
    "listPlans": _LISTING,
    "listSchedules": _LISTING,
    "listUserDefinedFunctions": _LISTING,
}
# These mean the same from the API and from a proxy; a server error is one anyway.
_OF_ANYBODY = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.TOO_MANY_REQUESTS})


def foreign_refusal(
    status_code: int, headers: Mapping[str, str], body: bytes, *, has_envelope: bool
) -> str | None:
    """Return what was answered in the place of a refusal by the API; None for one of its own."""
    if has_envelope or status_code in _OF_ANYBODY:
        return None
    if status_code < HTTPStatus.BAD_REQUEST:
        return "it redirects elsewhere, so the url may be wrong; not followed"
    if status_code >= HTTPStatus.INTERNAL_SERVER_ERROR and not _is_markup(headers, body):
        return None
    return _described(headers, body)


def foreign_success(
    operation: Operation, headers: Mapping[str, str], body: bytes, *, is_proven: bool
) -> str | None:
    """Return what a 2xx answer holds that the API never answers, else None.

    ``is_proven``: the operation has been answered well before.
    """
    if operation.answers_file:
        return None
    if _is_markup(headers, body):
        return _described(headers, body)
    if operation.method != "GET" or (body and (is_proven or _is_read(_ANY, body))):
        return None
    return f"{_described(headers, body)}, no whole JSON"


def is_of_shape(operation_id: str, body: bytes) -> bool:
    """True where the answer has the operation's shape, as far as one is known."""
    decoder = _SHAPES.get(operation_id)
    return decoder is None or _is_read(decoder, body)


def _is_read(decoder: msgspec.json.Decoder[Any], body: bytes) -> bool:
    try:
        read_as(decoder, body)
    except PayloadError:
        return False
    return True


def _is_markup(headers: Mapping[str, str], body: bytes) -> bool:
    return _type_of(headers) == _MARKUP or body[:64].lstrip()[:1] == b"<"


def _described(headers: Mapping[str, str], body: bytes) -> str:
    if not body:
        return "an empty body"
    return _type_of(headers) or ("markup" if _is_markup(headers, body) else "a body of no type")


def _type_of(headers: Mapping[str, str]) -> str:
    content_type = headers.get("Content-Type", "").partition(";")[0].strip().lower()
    return harmless(content_type, longest=_LONGEST_TYPE)

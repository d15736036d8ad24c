"""What a request carries: JSON, or a file."""

from __future__ import annotations

import re
from email.message import Message

import msgspec
from aiohttp import ClientError, web
from msgspec import Struct

from monitor.catalogue.operations import Operation
from monitor.sandbox.api.errors import ApiError, Json, bad_field, shortened, validation_failed
from monitor.sandbox.api.models.models import (
    FORM_TYPE,
    JSON_TYPE,
    body_types_of,
    request_of,
    takes_files,
)
from monitor.sandbox.api.request.bodies import check_body, check_sizes

BODY_LIMIT_BYTES = 1024 * 1024
UPLOAD_LIMIT_BYTES = 16 * 1024 * 1024
_FILE_NAME = re.compile(rb'filename="?([^";\r\n]*)')
METHODS_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})


class Content(Struct, frozen=True, kw_only=True):
    """A request's body. ``upload`` is None where it is no file."""

    body: Json = None
    upload: bytes | None = None
    upload_name: str = ""


async def read_content(request: web.Request, operation: Operation) -> Content:
    """Return what was sent, held against what the operation takes.

    Raises:
        ApiError: 400 for what does not fit, 413 for more than the limit, 415 for another type.
    """
    if operation.method not in METHODS_WITH_BODY:
        return Content()
    files = takes_files(operation)
    content = await _bytes_of(request, UPLOAD_LIMIT_BYTES if files else BODY_LIMIT_BYTES)
    types = body_types_of(operation) or (JSON_TYPE,)
    full_type = readable(request.headers.get("Content-Type", types[0]))
    short_type = full_type.partition(";")[0].strip().lower()
    if content.strip() and short_type not in types:
        raise _wrong_type(short_type, types)
    if files and short_type != JSON_TYPE:
        return _file_in(content, full_type)
    body = _json(content)
    model = request_of(operation)
    if model is None:
        check_sizes(body)
        return Content(body=body)
    return Content(body=check_body(model, body))


async def _bytes_of(request: web.Request, limit: int) -> bytes:
    too_large = ApiError(
        413,
        "PayloadTooLargeException",
        "Payload too large",
        f"The body has more than {limit} bytes",
    )
    if (request.content_length or 0) > limit:
        raise too_large
    try:
        content = await request.read()
    except web.HTTPRequestEntityTooLarge as exc:
        raise too_large from exc
    except (web.RequestPayloadError, ClientError) as exc:
        raise validation_failed('"body" cannot be read to its end') from exc
    if len(content) > limit:
        raise too_large
    return content


def _wrong_type(short_type: str, types: tuple[str, ...]) -> ApiError:
    return ApiError(
        415,
        "UnsupportedMediaTypeException",
        "Unsupported media type",
        f"The body must be {' or '.join(types)}, not {shortened(short_type)}",
    )


def _json(content: bytes) -> Json:
    if not content.strip():
        return None
    try:
        return msgspec.json.decode(content)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as exc:
        raise validation_failed('"body" must be valid JSON') from exc


def _file_in(content: bytes, full_type: str) -> Content:
    """Return the file: the whole content, or the part of a form that is a file.

    Of several it is the one that is named ``data``, as clients have it by the reference; others
    name theirs ``file`` or ``archive``.
    """
    found = Content(upload=content)
    if full_type.partition(";")[0].strip().lower() == FORM_TYPE:
        found = _part_of_form(content, full_type)
    if not found.upload:
        raise bad_field("data", "is required")
    return found


def _part_of_form(content: bytes, full_type: str) -> Content:
    header = Message()
    header["Content-Type"] = full_type
    boundary = header.get_boundary()
    if not boundary:
        raise bad_field("data", "cannot be found: the form has no boundary")
    files: list[Content] = []
    for part in content.split(b"--" + boundary.encode())[1:]:
        head, _, data = part.partition(b"\r\n\r\n")
        named = _FILE_NAME.search(head)
        name = named.group(1).decode(errors="replace") if named else ""
        found = Content(upload=data.removesuffix(b"\r\n"), upload_name=name)
        if b'name="data"' in head or b"name=data" in head:
            return found
        if named:
            files.append(found)
    return files[0] if files else Content()


def readable(text: str) -> str:
    """Return ``text`` with bytes that were no UTF-8 replaced, so that an answer can repeat it."""
    return text.encode(errors="replace").decode()

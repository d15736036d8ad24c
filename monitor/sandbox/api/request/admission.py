"""Admits requests: by token, by rate, and by body, before one is served."""

from __future__ import annotations

import base64
import binascii
import math
import re
from datetime import timedelta
from email.message import Message

import msgspec
from aiohttp import ClientError, web
from msgspec import Struct

from monitor.catalogue.operations import Edition, Operation
from monitor.sandbox.api.errors import (
    ApiError,
    Json,
    bad_field,
    shortened,
    unauthorized,
    validation_failed,
)
from monitor.sandbox.api.models.models import (
    FORM_TYPE,
    JSON_TYPE,
    body_types_of,
    request_of,
    takes_files,
)
from monitor.sandbox.api.request.bodies import check_body, check_sizes
from monitor.sandbox.world.records.objects import Person
from monitor.sandbox.world.shelves import World

QUOTA_WINDOW_SECONDS = 60.0
BODY_LIMIT_BYTES = 1024 * 1024
UPLOAD_LIMIT_BYTES = 16 * 1024 * 1024
_FILE_NAME = re.compile(rb'filename="?([^";\r\n]*)')
METHODS_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})


def authenticate(world: World, header: str, edition: Edition) -> Person:
    """Return the person whose access token the header carries.

    Self-managed workspaces, edition ``open``, take Basic too: a person's address, and as the
    password any of his tokens.

    Raises:
        ApiError: 401, when there is no token, or none that this workspace accepts.
    """
    scheme, _, token = header.strip().partition(" ")
    address = None
    if scheme.lower() == "basic" and edition is Edition.OPEN:
        address, token = _decoded(token.strip())
    elif scheme.lower() != "bearer" or not token.strip():
        raise unauthorized("An access token is required: Authorization: Bearer <token>")
    person = world.person_of(token.strip())
    if person is None or person.is_disabled:
        raise unauthorized("The access token is unknown or expired")
    if address is not None and address.casefold() != person.email.casefold():
        raise unauthorized("The password is no access token of this person")
    return person


def _decoded(credentials: str) -> tuple[str, str]:
    try:
        address, _, password = base64.b64decode(credentials, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError, ValueError) as exc:
        raise unauthorized("The credentials are no Base64 of address:password") from exc
    return address, password


class Window(Struct):
    """What one counter has let through since ``began`` (monotonic seconds)."""

    scope: str
    limit: int
    began: float
    used: int = 0

    def seconds_left(self, monotonic: float) -> float:
        return max(0.0, self.began + QUOTA_WINDOW_SECONDS - monotonic)


class Quotas:
    """Counts requests; one window per operation and person, one per operation."""

    def __init__(self, world: World) -> None:
        """Start with every quota unused; the windows follow the world's clock."""
        self._world = world
        self._clock = world.clock
        self._windows: dict[tuple[str, str], Window] = {}

    def take(self, operation: Operation, person_id: int) -> dict[str, str]:
        """Count one request and return the headers with what is left.

        Operations without a quota have no headers.

        Raises:
            ApiError: 429, when the user's or the workspace's quota is used up.
        """
        quota = operation.quota_per_minute
        if quota is None:
            return {}
        windows = (
            self._window(operation.operation_id, "user", str(person_id), quota.user),
            self._window(operation.operation_id, "workspace", "", quota.workspace),
        )
        for window in windows:
            if window.used >= window.limit:
                raise self._refusal(operation, window, windows)
        for window in windows:
            window.used += 1
        return self._headers(windows)

    def _window(self, operation_id: str, scope: str, who: str, limit: int) -> Window:
        now = self._clock.monotonic()
        key = (operation_id, f"{scope} {who}")
        window = self._windows.get(key)
        if window is None or window.seconds_left(now) <= 0:
            window = self._windows[key] = Window(scope, limit, now)
        return window

    def _headers(self, windows: tuple[Window, ...]) -> dict[str, str]:
        headers: dict[str, str] = {}
        now = self._clock.monotonic()
        wall = self._world.now()
        for window in windows:
            prefix = f"x-rate-limit-{window.scope}"
            reset = wall + timedelta(seconds=window.seconds_left(now))
            headers[f"{prefix}-limit"] = str(window.limit)
            headers[f"{prefix}-remaining"] = str(window.limit - window.used)
            headers[f"{prefix}-reset"] = str(int(reset.timestamp() * 1000))
        return headers

    def _refusal(self, operation: Operation, full: Window, windows: tuple[Window, ...]) -> ApiError:
        wait_seconds = max(1, math.ceil(full.seconds_left(self._clock.monotonic())))
        return ApiError(
            429,
            "TooManyRequestsException",
            "Too Many Requests",
            f'API quota reached for "{operation.operation_id}". Wait {wait_seconds} seconds '
            f"before making a new request. (Max. {full.limit} requests allowed per minute "
            f"per {full.scope}.)",
            headers={**self._headers(windows), "x-retry-after": str(wait_seconds)},
        )


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

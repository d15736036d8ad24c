"""Who asks, and how often: tokens, and quotas per minute."""

from __future__ import annotations

import base64
import binascii
import math
from datetime import timedelta

from msgspec import Struct

from monitor.catalogue.operations import Edition, Operation
from monitor.sandbox.api.errors import ApiError, unauthorized
from monitor.sandbox.world.records.objects import Person
from monitor.sandbox.world.shelves import World

QUOTA_WINDOW_SECONDS = 60.0


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

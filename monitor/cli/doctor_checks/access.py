"""Checks whether the workspace answers, has the right time, and accepts the token."""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import ssl
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

import aiohttp
from msgspec import Struct

from monitor.catalogue.capabilities import Capability
from monitor.catalogue.operations import operation
from monitor.model.checks import CHECK_SECONDS, FIRST, CheckLine, failed, ok, warning
from monitor.model.errors import (
    NotAvailableError,
    ThrottledError,
    UnauthorizedError,
    UnreadableAnswerError,
    WorkspaceError,
)
from monitor.model.outside import is_loopback
from monitor.model.secrets import Secret
from monitor.outputs.certificates import Endpoint, check_certificate
from monitor.workspace.client import Priority, WorkspaceClient
from monitor.workspace.payloads import AccessTokenRow
from monitor.workspace.settings import WorkspaceSettings
from monitor.workspace.transport import tls_of

_JWT_PARTS = 3

_SKEW_SECONDS = 30.0
_SOON_DAYS = 14
_SERVER_ERRORS = 500
_NEW_TOKEN = "make a new token in the workspace and write it to token_file"  # noqa: S105 - advice, no secret


class TokenDetails(Struct, frozen=True, kw_only=True):
    """What the token contains; None where it does not."""

    token_id: str | None = None
    expires_at: datetime | None = None


def details_of(token: Secret) -> TokenDetails:
    """Read a token that is base64 of JSON, or a JWT; any other has no details."""
    parts = token.reveal().split(".")
    claims = _json_in(parts[1] if len(parts) == _JWT_PARTS else parts[0])
    token_id = claims.get("tokenId") or claims.get("jti")
    return TokenDetails(
        token_id=token_id if isinstance(token_id, str) else None,
        expires_at=_instant(claims.get("exp")),
    )


def _json_in(text: str) -> dict[str, Any]:
    padded = text + "=" * (-len(text) % 4)
    try:
        claims = json.loads(base64.urlsafe_b64decode(padded.replace("+", "-").replace("/", "_")))
    except (ValueError, binascii.Error, RecursionError):
        return {}
    return claims if isinstance(claims, dict) else {}


def _instant(seconds: object) -> datetime | None:
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        return None
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return None


async def reach(client: WorkspaceClient, subject: str) -> CheckLine:
    """Request the specification, which every edition serves; all other checks need the answer."""
    url = client.settings.url
    hint = f"see that url, name server, firewall and proxy let this machine reach it{FIRST}"
    try:
        async with asyncio.timeout(CHECK_SECONDS):
            await client.operations.open_api_spec(priority=Priority.CHANGES)
    except TimeoutError:
        return failed(subject, f"{url}: no answer within {CHECK_SECONDS:.0f} s", hint)
    except (UnauthorizedError, ThrottledError):
        pass  # the API is there
    except UnreadableAnswerError as error:
        return _is_no_api(subject, url, str(error))
    except WorkspaceError as error:
        status_code = error.status_code
        if status_code is None:
            found, hint = _unanswered(url, error) or (str(error), hint.removesuffix(FIRST))
            return failed(subject, f"{url}: {found}", f"{hint}{FIRST}")
        if status_code >= _SERVER_ERRORS:
            return failed(subject, f"{url}: {error}", hint)
        if error.exception_name is None or not await _has_routes(client):
            return _is_no_api(subject, url, str(error))
    return ok(subject, f"{url} answers")


async def _has_routes(client: WorkspaceClient) -> bool:
    """Return True where a route is there that the edition must have: each has one of these two."""
    for operation_id, path_values in (("listFlows", ()), ("getJobGroup", (0,))):
        try:
            async with asyncio.timeout(CHECK_SECONDS):
                await client.requester.request(
                    operation_id, *path_values, priority=Priority.CHANGES
                )
        except NotAvailableError as error:
            if error.status_code != HTTPStatus.NOT_FOUND:
                return True
        except (WorkspaceError, TimeoutError):
            return True  # another refusal, or none: nothing says that it is absent
        else:
            return True
    return False


def _unanswered(url: str, error: WorkspaceError) -> tuple[str, str] | None:
    """Return why no connection came about, and what to do; None where only ``error`` knows."""
    cause, parts = error.__cause__, urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    if isinstance(cause, aiohttp.ClientConnectorDNSError):
        return (
            f"no name server knows the host {parts.hostname}",
            "correct the host in url, or the name servers of this machine",
        )
    if isinstance(cause, aiohttp.ClientConnectorCertificateError):
        return None
    if isinstance(cause, aiohttp.ClientConnectorSSLError):
        return (
            f"port {port} of {parts.hostname} does not speak TLS",
            "write http:// in url, or the port of https",
        )
    if isinstance(cause, aiohttp.ClientConnectorError) and isinstance(
        cause.os_error, ConnectionRefusedError
    ):
        return (
            f"nothing listens on port {port} of {parts.hostname}",
            "correct host and port in url, or start what should listen there",
        )
    return None


def _is_no_api(subject: str, url: str, reason: str) -> CheckLine:
    return failed(
        subject,
        f"{url} answers, but not as the API does: {reason}",
        f"name the API's base in url, not the page's, as https://api.clouddataprep.com{FIRST}",
    )


async def check_tls(settings: WorkspaceSettings, subject: str, *, now: datetime) -> list[CheckLine]:
    """Check the certificate of the workspace as the daemon does."""
    parts = urlsplit(settings.url)
    host = parts.hostname or ""
    if parts.scheme == "http":
        if is_loopback(host):
            return [ok(subject, "not used, and not needed on this machine")]
        return [
            warning(subject, "the token travels in the clear", "write https:// in the url"),
        ]
    context = await asyncio.to_thread(tls_of, settings)
    if isinstance(context, bool):
        is_verified = context
        context = await asyncio.to_thread(ssl.create_default_context)
        if not is_verified:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
    endpoint = Endpoint(host=host, port=parts.port or 443, settings="workspaces")
    return await check_certificate(subject, endpoint, context, now=now)


def clock_line(client: WorkspaceClient, subject: str) -> CheckLine:
    """Check the difference between the workspace's clock and ours."""
    skew = client.requester.time.skew_seconds()
    if skew is None:
        return warning(
            subject,
            "the workspace sends no Date header",
            "let proxies in between pass the Date header; watermarks are in workspace time",
        )
    if abs(skew) <= _SKEW_SECONDS:
        return ok(subject, f"the workspace's differs from ours by {abs(skew):.0f} s")
    order = "ahead of" if skew > 0 else "behind"
    return warning(
        subject,
        f"the workspace's is {abs(skew):.0f} s {order} ours",
        "let NTP set this machine's clock; runs are followed in workspace time",
    )


def refused_token(subject: str, error: UnauthorizedError, settings: WorkspaceSettings) -> CheckLine:
    """Return the line of a token that the workspace refuses."""
    if settings.token is None:
        return failed(
            subject,
            f"none is configured, and the workspace requires one: {error}",
            f"{_NEW_TOKEN}{FIRST}",
        )
    return failed(subject, f"refused: {error}", f"{_NEW_TOKEN}{FIRST}")


async def check_person(
    client: WorkspaceClient, subject: str, capabilities: frozenset[Capability]
) -> list[CheckLine]:
    """Check the owner of the token, where the edition shows it."""
    if Capability.KNOW_THE_PERSON not in capabilities:
        return [ok(subject, "accepted; this edition does not show whose it is")]
    person = await client.inventory.current_person(priority=Priority.CHANGES)
    name = person.email or person.name or f"person {person.id}"
    if person.is_disabled:
        return [failed(subject, f"it belongs to {name}, who is disabled", _NEW_TOKEN)]
    return [ok(subject, f"accepted; it belongs to {name}")]


def expiry_lines(client: WorkspaceClient, subject: str, *, now: datetime) -> list[CheckLine]:
    """Return when the token expires, without a request; no line where it does not say that."""
    token = client.settings.token
    expires_at = None if token is None else details_of(token).expires_at
    return [] if expires_at is None else [expiry_line(subject, expires_at, now)]


async def check_expiry(client: WorkspaceClient, subject: str, *, now: datetime) -> list[CheckLine]:
    """Check when the token expires: by its own content, else by the workspace's list."""
    token = client.settings.token
    if token is None:
        return [ok(subject, "there is no token that could expire")]
    own = expiry_lines(client, subject, now=now)
    if own:
        return own
    row = await _row_of(client, details_of(token).token_id)
    if row is None:
        return [ok(subject, "neither the token nor the workspace shows when it expires")]
    if row.expires_at is None:
        return [ok(subject, "the workspace shows no expiry")]
    return [expiry_line(subject, row.expires_at, now)]


async def _row_of(client: WorkspaceClient, token_id: str | None) -> AccessTokenRow | None:
    edition = client.requester.edition
    if edition is None or not operation("listApiAccessTokens").is_part_of(edition):
        return None
    try:
        rows = await client.inventory.access_tokens(priority=Priority.CHANGES)
    except NotAvailableError:
        return None
    if len(rows) == 1:
        return rows[0]
    # Without its id in the token itself, ours cannot be distinguished from the others.
    return next((row for row in rows if token_id is not None and row.id == token_id), None)


def expiry_line(
    subject: str, expires_at: datetime, now: datetime, *, new_token: str = _NEW_TOKEN
) -> CheckLine:
    """Return the line of a token, or pair, that expires then."""
    day = f"{expires_at:%Y-%m-%d %H:%M} UTC"
    if expires_at <= now:
        return failed(subject, f"it expired on {day}", new_token)
    days = (expires_at - now).days
    if days < _SOON_DAYS:
        return warning(subject, f"it expires on {day}, {days} days from now", new_token)
    return ok(subject, f"valid until {day}")

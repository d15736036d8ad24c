"""The id and expiry inside an access token, read without any request and unverified."""

from __future__ import annotations

import base64
import binascii
import json
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct

from monitor.model.secrets import Secret

_JWT_PARTS = 3


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

"""What an access token tells of itself, without asking anybody and without checking it."""

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
    """Its own name and end, as far as the token can tell."""

    token_id: str | None = None
    expires_at: datetime | None = None


def facts_of(token: Secret) -> TokenDetails:
    """Read a token that is base64 of JSON, or a JWT; any other tells nothing."""
    parts = token.reveal().split(".")
    told = _json_in(parts[1] if len(parts) == _JWT_PARTS else parts[0])
    token_id = told.get("tokenId") or told.get("jti")
    return TokenDetails(
        token_id=token_id if isinstance(token_id, str) else None,
        expires_at=_instant(told.get("exp")),
    )


def _json_in(text: str) -> dict[str, Any]:
    padded = text + "=" * (-len(text) % 4)
    try:
        told = json.loads(base64.urlsafe_b64decode(padded.replace("+", "-").replace("/", "_")))
    except (ValueError, binascii.Error, RecursionError):
        return {}
    return told if isinstance(told, dict) else {}


def _instant(seconds: object) -> datetime | None:
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        return None
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return None

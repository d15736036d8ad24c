"""Signatures by the rules of Standard Webhooks (standardwebhooks.com). Pure."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Iterable
from datetime import datetime
from urllib.parse import quote


def signed_headers(
    body: bytes, *, event_id: str, at: datetime, keys: Iterable[bytes]
) -> dict[str, str]:
    """Return the headers by which a receiver knows who sent the body, and that it is not old.

    ``at`` is the moment of this attempt; the id is the same in all of them. Each key signs, so
    that a receiver that knows any one of them is content.
    """
    # Ids of ours are plain, but for what a workspace may call its things.
    sent_id = event_id if event_id.isascii() and event_id.isprintable() else quote(event_id)
    timestamp = str(int(at.timestamp()))
    signed = b".".join((sent_id.encode(), timestamp.encode(), body))
    return {
        "webhook-id": sent_id,
        "webhook-timestamp": timestamp,
        "webhook-signature": " ".join(f"v1,{_signature(signed, key)}" for key in keys),
    }


def _signature(signed: bytes, key: bytes) -> str:
    return base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()

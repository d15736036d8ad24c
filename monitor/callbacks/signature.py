"""The signature of a callback, by an assumed scheme: nothing about it is published.

Assumed: ``X-Webhook-Signature: t=<stamp>,sha256=<hex>``, HMAC-SHA256 over ``<stamp>.<raw body>``,
the stamp in seconds or milliseconds. Everything that rests on the assumption is in this module;
the primary control of callbacks is the secret header.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from datetime import datetime

from monitor.model.secrets import Secret

HEADER = "X-Webhook-Signature"

_PARTS = re.compile(r"t=(\d{1,16}),sha256=([0-9a-fA-F]{64})")
_MILLISECONDS_FROM = 100_000_000_000  # larger stamps cannot be seconds for three thousand years


def is_valid(
    header: str | None,
    body: bytes,
    secret: Secret,
    *,
    now: datetime,
    tolerance_seconds: float = 300,
) -> bool:
    """True when the header signs exactly these bytes, within the tolerance around ``now``."""
    match = _PARTS.fullmatch((header or "").replace(" ", ""))
    if match is None:
        return False
    stamp, digest = match.groups()
    seconds = int(stamp) / 1000 if int(stamp) >= _MILLISECONDS_FROM else float(stamp)
    if abs(now.timestamp() - seconds) > tolerance_seconds:
        return False
    signed = stamp.encode() + b"." + body
    expected = hmac.digest(secret.reveal().encode(), signed, hashlib.sha256).hex()
    return hmac.compare_digest(expected, digest.lower())

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


class Verifier:
    """Makes and checks the signatures of one key."""

    def __init__(self, key: Secret, *, tolerance_seconds: float = 300) -> None:
        # Keyed once: a copy is cheaper, and small bodies do not make it wait for other threads.
        self._keyed = hmac.new(key.reveal().encode(), digestmod=hashlib.sha256)
        self._tolerance_seconds = tolerance_seconds

    def accepts(self, header: str | None, body: bytes, *, now: datetime) -> bool:
        """True when the header signs exactly these bytes, within the tolerance around ``now``."""
        match = _PARTS.fullmatch((header or "").replace(" ", ""))
        if match is None:
            return False
        stamp, digest = match.groups()
        seconds = float(stamp)
        if seconds >= _MILLISECONDS_FROM:
            seconds /= 1000
        if abs(now.timestamp() - seconds) > self._tolerance_seconds:
            return False
        return hmac.compare_digest(self._digest(stamp, body), digest.lower())

    def sign(self, body: bytes, *, now: datetime) -> str:
        """Return the header that signs these bytes."""
        stamp = str(int(now.timestamp()))
        return f"t={stamp},sha256={self._digest(stamp, body)}"

    def _digest(self, stamp: str, body: bytes) -> str:
        keyed = self._keyed.copy()
        keyed.update(stamp.encode() + b"." + body)
        return keyed.hexdigest()

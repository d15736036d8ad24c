"""The errors of triggers."""

from __future__ import annotations

from monitor.model.errors import PayloadError


class BadTriggerError(PayloadError, ValueError):
    """A trigger that no instant can be computed from; the message names the part and the reason."""

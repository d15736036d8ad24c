"""The callbacks that came lately, in memory: whoever empties the inbox as it fills reads here."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from msgspec import Struct

from monitor.bus.contract import StoredCallback

CALLBACKS_HELD = 2_000  # for each workspace


class _Inbox(Struct):
    """All that waits behind ``before``; what waits in front of it is in the file only."""

    before: int
    waiting: dict[int, StoredCallback] = {}  # by id, in the order of arrival


class Arrivals:
    """What waits in the inboxes as far as it came in this life, and not too long ago."""

    def __init__(self) -> None:
        self._inboxes: dict[str, _Inbox] = {}

    def take(self, callbacks: Iterable[StoredCallback]) -> None:
        """Add what has become durable, in the order of the ids."""
        for callback in callbacks:
            inbox = self._inboxes.setdefault(callback.workspace, _Inbox(callback.id - 1))
            inbox.waiting[callback.id] = callback
            if len(inbox.waiting) > CALLBACKS_HELD:
                inbox.before = next(iter(inbox.waiting))
                del inbox.waiting[inbox.before]

    def forget(self, ids: Iterable[int]) -> None:
        """Leave out what no longer waits."""
        for id_ in ids:
            for inbox in self._inboxes.values():
                inbox.waiting.pop(id_, None)

    def behind(self, workspace: str, after: int, *, limit: int) -> list[StoredCallback] | None:
        """Return at most ``limit`` callbacks behind that id; None where the file must tell."""
        inbox = self._inboxes.get(workspace)
        if inbox is None or after < inbox.before:
            return None
        return list(islice((item for item in inbox.waiting.values() if item.id > after), limit))

"""The newest callbacks in memory: an inbox reader that keeps up reads here, not in the file."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from msgspec import Struct

from monitor.bus.contract import StoredCallback

CALLBACKS_KEPT = 2_000  # for each workspace


class _Inbox(Struct):
    """All callbacks that wait behind ``before``; earlier ones are in the file only."""

    before: int
    waiting: dict[int, StoredCallback] = {}  # by id, in the order of arrival


class RecentCallbacks:
    """The newest waiting callbacks of each workspace."""

    def __init__(self) -> None:
        self._inboxes: dict[str, _Inbox] = {}
        self._workspaces: dict[int, str] = {}  # of each callback here, by its id

    def add(self, callbacks: Iterable[StoredCallback]) -> None:
        """Add what has become durable, in the order of the ids."""
        for callback in callbacks:
            inbox = self._inboxes.setdefault(callback.workspace, _Inbox(callback.id - 1))
            inbox.waiting[callback.id] = callback
            self._workspaces[callback.id] = callback.workspace
            if len(inbox.waiting) > CALLBACKS_KEPT:
                inbox.before = next(iter(inbox.waiting))
                self.forget((inbox.before,))

    def forget(self, ids: Iterable[int]) -> None:
        """Drop callbacks that no longer wait."""
        for id_ in ids:
            workspace = self._workspaces.pop(id_, None)
            if workspace is not None:
                del self._inboxes[workspace].waiting[id_]

    def behind(self, workspace: str, after: int, *, limit: int) -> list[StoredCallback] | None:
        """Return at most ``limit`` callbacks behind that id; None where only the file has them."""
        inbox = self._inboxes.get(workspace)
        if inbox is None or after < inbox.before:
            return None
        return list(
            islice((callback for callback in inbox.waiting.values() if callback.id > after), limit)
        )

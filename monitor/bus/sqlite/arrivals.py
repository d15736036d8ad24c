"""The newest callbacks in memory: an inbox reader that keeps up reads here, not in the file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import islice

from msgspec import Struct

from monitor.bus.contract import StoredCallback
from monitor.model.runs import RunKey

CALLBACKS_KEPT = 2_000  # for each workspace


class _Inbox(Struct):
    """All callbacks that wait behind ``before``; earlier ones are in the file only."""

    before: int
    waiting: dict[int, StoredCallback] = {}  # by id, in the order of arrival


class RecentCallbacks:
    """The newest waiting callbacks of each workspace, and the runs of all that wait."""

    def __init__(self) -> None:
        self._inboxes: dict[str, _Inbox] = {}
        self._runs: dict[int, RunKey] = {}  # of each waiting callback, by its id
        self._waiting: Counter[RunKey] = Counter()

    def restore(self, runs: Iterable[tuple[int, RunKey]]) -> None:
        """Add the runs of callbacks that waited in the file before; they stay there only."""
        for id_, key in runs:
            self._count(id_, key)

    def add(self, callbacks: Iterable[StoredCallback]) -> None:
        """Add what has become durable, in the order of the ids."""
        for callback in callbacks:
            self._count(callback.id, RunKey(callback.workspace, callback.kind, callback.run_id))
            inbox = self._inboxes.setdefault(callback.workspace, _Inbox(callback.id - 1))
            inbox.waiting[callback.id] = callback
            if len(inbox.waiting) > CALLBACKS_KEPT:
                inbox.before = next(iter(inbox.waiting))
                del inbox.waiting[inbox.before]

    def forget(self, ids: Iterable[int]) -> None:
        """Drop callbacks that no longer wait."""
        for id_ in ids:
            key = self._runs.pop(id_, None)
            if key is None:
                continue
            self._waiting[key] -= 1
            if not self._waiting[key]:
                del self._waiting[key]
            if (inbox := self._inboxes.get(key.workspace)) is not None:
                inbox.waiting.pop(id_, None)

    def is_waiting(self, key: RunKey) -> bool:
        return key in self._waiting

    def _count(self, id_: int, key: RunKey) -> None:
        if id_ not in self._runs:
            self._runs[id_] = key
            self._waiting[key] += 1

    def behind(self, workspace: str, after: int, *, limit: int) -> list[StoredCallback] | None:
        """Return at most ``limit`` callbacks behind that id; None where only the file has them."""
        inbox = self._inboxes.get(workspace)
        if inbox is None or after < inbox.before:
            return None
        return list(
            islice((callback for callback in inbox.waiting.values() if callback.id > after), limit)
        )

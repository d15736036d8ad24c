"""The state entries of a shard in the first minute of its life here.

Its parts then read nearly all of them, topic by topic; so those of a workspace are read at once,
and what is stored meanwhile is learned. Later each topic is read from the store: the parts have in
memory what they need again.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from monitor.bus.postgres import codec
from monitor.model.slices import in_slices

_KEPT_SECONDS = 60.0
_ENTRIES = "SELECT topic, key, value FROM state_entry WHERE workspace = $1"

Fetch = Callable[..., Awaitable[Iterable[Any]]]
_ByTopic = dict[str, dict[str, bytes]]


class FirstEntries:
    """Belongs to the event loop. ``fetch`` is of the shard's reading connections."""

    def __init__(self) -> None:
        self._by_workspace: dict[str, _ByTopic] = {}
        self._reading: dict[str, list[tuple[str, str, bytes | None]]] = {}  # stored meanwhile
        self._turn = asyncio.Lock()
        self._ends: asyncio.TimerHandle | None = None
        self._is_over = False

    async def of_topic(self, workspace: str, topic: str, fetch: Fetch) -> dict[str, bytes] | None:
        """Return the entries of a topic, None after the first minute."""
        if not self._is_over:
            async with self._turn:
                if not self._is_over and workspace not in self._by_workspace:
                    await self._read(workspace, fetch)
        return None if self._is_over else dict(self._by_workspace[workspace].get(topic, {}))

    def learn(self, workspace: str, topic: str, key: str, value: bytes | None) -> None:
        """Apply an entry that has become durable; None: it was deleted."""
        if (stored := self._reading.get(workspace)) is not None:
            stored.append((topic, key, value))
        elif (entries := self._by_workspace.get(workspace)) is not None:
            _apply(entries, topic, key, value)

    async def _read(self, workspace: str, fetch: Fetch) -> None:
        if self._ends is None:
            loop = asyncio.get_running_loop()
            self._ends = loop.call_later(_KEPT_SECONDS, self.forget)
        entries: _ByTopic = defaultdict(dict)
        stored = self._reading[workspace] = []
        try:
            # An entry for each of ten thousand pipelines.
            async for row in in_slices(await fetch(_ENTRIES, codec.text(workspace))):
                entries[codec.read_text(row["topic"])][codec.read_text(row["key"])] = row["value"]
        finally:
            del self._reading[workspace]
        for topic, key, value in stored:
            _apply(entries, topic, key, value)
        if not self._is_over:
            self._by_workspace[workspace] = entries

    def forget(self) -> None:
        """Keep nothing any more."""
        self._is_over = True
        self._by_workspace.clear()
        if self._ends is not None:
            self._ends.cancel()


def _apply(entries: _ByTopic, topic: str, key: str, value: bytes | None) -> None:
    if value is None:
        entries.get(topic, {}).pop(key, None)
    else:
        entries.setdefault(topic, {})[key] = value

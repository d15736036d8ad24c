"""The shards that the page shows: those of this daemon from memory, all others from the store."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from msgspec import Struct

from monitor.bus.contract import StoredShard
from monitor.tracking.live_state import LiveStateView
from monitor.web.daemon_status import OutputStatus
from monitor.web.requests import AlertingRequests, ShardRequests


def page_url(url: str | None) -> str | None:
    """Return the address of a daemon's page, None where it is no address to link to."""
    return url if url is not None and url.startswith(("https://", "http://")) else None


class Mirrored(Struct, frozen=True, kw_only=True):
    """Who holds a shard that this daemon shows from the store, and how old that is."""

    holder: str | None  # id of a daemon; None: nobody holds it
    url: str | None  # of the holder's page
    read_at: datetime | None  # our clock; None: not read yet
    reason: str | None = None  # why it is not read now, one sentence


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownShard:
    """One shard, and what answers for it; ``mirrored`` None: this daemon holds it."""

    name: str
    bus: StoredShard
    live: LiveStateView
    alerting: AlertingRequests
    requests: ShardRequests
    outputs: Callable[[], Sequence[OutputStatus]]
    mirrored: Callable[[], Mirrored] | None = None


# The same mapping until a shard comes or goes.
ShownShards = Callable[[], Mapping[str, ShownShard]]


class ShardDirectory:
    """Finds the shard of a workspace."""

    def __init__(self, shown: ShownShards) -> None:
        self._shown = shown
        self._of: dict[str, str] = {}  # workspace -> shard in which it was last found

    def all(self) -> Sequence[ShownShard]:
        return tuple(self._shown().values())

    def hosted(self) -> Sequence[ShownShard]:
        """Return the shards that this daemon holds."""
        return [shard for shard in self._shown().values() if shard.mirrored is None]

    def mirrored(self, name: str) -> Mirrored | None:
        """Return who holds a shard, None where this daemon does or does not show it."""
        shard = self._shown().get(name)
        return None if shard is None or shard.mirrored is None else shard.mirrored()

    def mirrored_of(self, workspace: str) -> Mirrored | None:
        """Return who holds the shard of a workspace, None where this daemon does."""
        shard = self.of(workspace)
        return None if shard is None or shard.mirrored is None else shard.mirrored()

    def of(self, workspace: str) -> ShownShard | None:
        """Return the shard of a workspace; None where no shard has it."""
        shown = self._shown()
        shard = shown.get(self._of.get(workspace, ""))
        if shard is not None and shard.live.workspace(workspace) is not None:
            return shard
        for shard in shown.values():
            if shard.live.workspace(workspace) is not None:
                self._of[workspace] = shard.name
                return shard
        self._of.pop(workspace, None)
        return None

"""The one place of a workspace's token pair: a state entry, fenced and moved with its shard."""

from __future__ import annotations

from monitor.bus.contract import Change, EventBus, StateEntry, decode_entries
from monitor.workspace.access.stored_tokens import StoredTokens, decoder, encoded

TOPIC = "oauth"
_KEY = "tokens"
_COMMIT_SECONDS = 10.0


class StoredTokenStore:
    """The `TokenStore` of one workspace. Its entry holds secrets; nothing else may show it."""

    def __init__(self, workspace: str, bus: EventBus) -> None:
        self._workspace = workspace
        self._bus = bus

    async def load(self) -> StoredTokens:
        entries = await self._bus.state_entries(self._workspace, TOPIC)
        # A damaged one is logged; then the configured refresh token is tried.
        return decode_entries(entries, decoder(), topic=TOPIC).get(_KEY, StoredTokens())

    async def store(self, tokens: StoredTokens) -> None:
        entry = StateEntry(workspace=self._workspace, topic=TOPIC, key=_KEY, value=encoded(tokens))
        await self._bus.commit(Change(state_entries=(entry,)), timeout_seconds=_COMMIT_SECONDS)

"""Stores the access and refresh tokens of a workspace: the `TokenStore` that its shard has."""

from __future__ import annotations

from monitor.bus.contract import Change, EventBus, StateEntry, decode_entry
from monitor.model.errors import BusSchemaError
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
        """Return what was stored last.

        Raises:
            BusSchemaError: it is damaged. It stays: without it the configured refresh token, which
                is dead once it has been used, would take the place of a pair that works.
        """
        entries = await self._bus.state_entries(self._workspace, TOPIC)
        if (value := entries.get(_KEY)) is None:
            return StoredTokens()
        try:
            return decode_entry(value, decoder(), what=f"{TOPIC} {_KEY!r}")
        except BusSchemaError as exc:
            raise BusSchemaError(
                f"{exc}; no access token is refreshed and nothing is sent: start the version that"
                " wrote it, or restore the store"
            ) from exc

    async def store(self, tokens: StoredTokens) -> None:
        entry = StateEntry(workspace=self._workspace, topic=TOPIC, key=_KEY, value=encoded(tokens))
        await self._bus.commit(Change(state_entries=(entry,)), timeout_seconds=_COMMIT_SECONDS)

"""Keys that sign the tokens of forms, kept in the store.

So a form that one daemon has shown may be sent to another, and after a restart. Each daemon signs
with a key of its own, a new one twice a day; the others read it by the name in the token.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from typing import NamedTuple

from monitor.bus.contract import StoreEntries
from monitor.bus.contract.store_entries import FORM_TOPIC
from monitor.model.bounded_memory import BoundedMemory
from monitor.model.clock import Clock

FORM_SECONDS = 12 * 3_600.0  # for a person to fill in a form
_SIGNING_SECONDS = FORM_SECONDS
# A token of the last moment is good for as long again; clocks of daemons may differ.
_KEPT_SECONDS = 4 * FORM_SECONDS
_KEY_BYTES = 32
_NAME = re.compile(r"[0-9]{10}\.[0-9a-f]{16}")  # since when, in seconds since 1970
_REMEMBERED = 100
_COMMIT_SECONDS = 10.0


class FormKey(NamedTuple):
    """One key, and by what a token names it."""

    name: str
    key: bytes


class FormKeys:
    """Makes the keys of this daemon, and reads those of all."""

    def __init__(self, entries: StoreEntries, *, clock: Clock) -> None:
        self._entries = entries
        self._clock = clock
        self._own: FormKey | None = None
        self._until = clock.monotonic()
        self._making = asyncio.Lock()
        self._read: BoundedMemory[str, bytes] = BoundedMemory(_REMEMBERED)

    async def own(self) -> FormKey:
        """Return the key that signs now; every daemon can read it.

        Raises:
            BusUnavailableError: there is none yet, and the store takes none.
        """
        async with self._making:
            if self._own is None or self._clock.monotonic() >= self._until:
                self._own = await self._made()
                self._until = self._clock.monotonic() + _SIGNING_SECONDS
            return self._own

    async def of(self, name: str) -> bytes | None:
        """Return the key of that name; None where there is none, or no longer.

        Raises:
            BusUnavailableError: it cannot be read.
        """
        if _NAME.fullmatch(name) is None:
            return None
        key = self._read.get(name)
        if key is None:
            key = await self._entries.get(FORM_TOPIC, name)
            if key is not None:
                self._read.put(name, key)
        return key

    async def _made(self) -> FormKey:
        now = int(self._clock.now().timestamp())
        made = FormKey(f"{now:010d}.{secrets.token_hex(8)}", secrets.token_bytes(_KEY_BYTES))
        await self._entries.put(FORM_TOPIC, dict([made]), timeout_seconds=_COMMIT_SECONDS)
        await self._entries.drop_before(FORM_TOPIC, f"{now - int(_KEPT_SECONDS):010d}")
        self._read.put(made.name, made.key)
        return made

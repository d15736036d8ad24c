"""Small durable values of the whole store: of no workspace, and so of no shard.

Any daemon that shares the store writes and reads them, whichever shards it holds.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Protocol

from monitor.model.errors import BusFullError

# Topics. A dump has the entries of `DUMPED_TOPICS`; others stay with their store.
AUDIT_TOPIC = "audit"
FORM_TOPIC = "form"
SESSION_TOPIC = "session"
DUMPED_TOPICS = (AUDIT_TOPIC,)

VALUE_BYTES_BOUND = 64 * 1024
ENTRIES_BOUND = 100_000  # of a topic
READ_BOUND = 1_000  # entries of one answer
# Visible ASCII without the backslash: every store compares these in the same order.
_NAME = re.compile(r"[!-\[\]-~]{1,200}")
AFTER_ALL_KEYS = "\x7f"


class StoreEntries(Protocol):
    """Entries by topic and key. Every method may raise `BusUnavailableError`."""

    async def get(self, topic: str, key: str) -> bytes | None:
        """Return the value; None where there is no entry."""

    async def newest(
        self, topic: str, *, before: str | None = None, limit: int
    ) -> list[tuple[str, bytes]]:
        """Return the last entries by key in descending order, with ``before`` those below it.

        At most `READ_BOUND`, whatever ``limit`` is.
        """

    async def put(
        self, topic: str, entries: Mapping[str, bytes | None], *, timeout_seconds: float
    ) -> None:
        """Return once all of the entries are durable, or none is; None removes one.

        Raises:
            BusFullError: a value, or the topic, would be larger than its bound.
        """

    async def drop_before(self, topic: str, key: str) -> int:
        """Remove the entries whose key is below ``key``; return how many there were."""


def check_entries(topic: str, entries: Mapping[str, bytes | None]) -> None:
    """Return where a store can hold these entries.

    Raises:
        BusFullError: a value is too large.
        ValueError: a topic or key has other characters than visible ASCII, or a backslash.
    """
    for name in (topic, *entries):
        if _NAME.fullmatch(name) is None:
            raise ValueError(f"{name!r} is no name of an entry: use visible ASCII without \\")
    for key, value in entries.items():
        if value is not None and len(value) > VALUE_BYTES_BOUND:
            raise BusFullError(
                f"the entry {key} of {topic} has {len(value):,} bytes; the store takes "
                f"{VALUE_BYTES_BOUND:,}"
            )


def full(topic: str) -> BusFullError:
    """Return the error for one entry more than a topic may have."""
    return BusFullError(f"the store has {ENTRIES_BOUND:,} entries of {topic} and takes no more")

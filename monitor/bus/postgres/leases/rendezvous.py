"""Chooses a daemon for each shard: rendezvous hashing (highest random weight). Pure.

Every daemon computes the same answer without asking another. When a daemon comes, only the shards
that are its own now move; when it goes, only those that it had.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from functools import lru_cache


def best_daemon(shard: str, daemons: Collection[str]) -> str | None:
    """Return the daemon that is to have the shard; None where there is none."""
    return max(daemons, key=lambda daemon: (_weight(daemon, shard), daemon), default=None)


# Every pair is asked for again whenever a daemon comes or goes.
@lru_cache(maxsize=65_536)
def _weight(daemon: str, shard: str) -> bytes:
    # Neither name can hold a NUL, so no two pairs are the same text.
    return hashlib.blake2b(f"{daemon}\0{shard}".encode(), digest_size=8).digest()

"""What outputs know of the lease of their shard: nothing starts on its way out without it."""

from __future__ import annotations

from collections.abc import Callable

# True while this daemon surely holds the shard. Asked right before something is sent, not when it
# is made: a process that was stopped goes on anywhere in between.
MaySend = Callable[[], bool]

LEASE_UNCERTAIN = "this daemon does not surely hold the shard"

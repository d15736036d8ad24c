"""The check of a shard's lease before anything is sent."""

from __future__ import annotations

from collections.abc import Callable

# True while this daemon surely holds the shard. Asked right before something is sent, not when it
# is made: a process that was stopped goes on anywhere in between.
MaySend = Callable[[], bool]

LEASE_UNCERTAIN = "this daemon does not surely hold the shard"

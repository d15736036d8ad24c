"""The shards that this daemon's host was given, and the changes that it has yet to take.

A grant ends once: lost, or released by the host. It stays known until its bus is closed, so that
its shard is neither named free nor claimed again while its former life still ends here.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from monitor.bus.postgres.leases.lease import Lease
from monitor.bus.shards import (
    CallbacksArrived,
    LeaseChange,
    ShardGranted,
    ShardLost,
    ShardReassigned,
)

if TYPE_CHECKING:
    from monitor.bus.postgres.bus import PostgresBus


@dataclass(slots=True, kw_only=True)
class Grant:
    """A shard with its bus, from the claim on."""

    lease: Lease
    bus: PostgresBus
    granted_at: float  # on the monotonic clock
    is_delivered: bool = False  # the host has it
    is_reassigned: bool = False  # the host knows that another daemon is to have it


class Grants:
    """Belongs to the event loop; nothing here waits for the server."""

    def __init__(self) -> None:
        self._granted: dict[str, Grant] = {}
        self._lost: dict[str, Grant] = {}
        self._ending: dict[str, Grant] = {}  # the host has ended it, and its bus closes
        self._undelivered: list[Grant] = []  # lost before the host had them
        self._changes: deque[LeaseChange] = deque()
        self._has_changes = asyncio.Event()
        self._first: set[str] | None = None  # of the first cycle, not delivered yet
        self._first_are_delivered = asyncio.Event()

    def __len__(self) -> int:
        return len(self._granted)

    def all(self) -> list[Grant]:
        """Return the grants that are not lost."""
        return list(self._granted.values())

    def of(self, shard: str) -> Grant | None:
        return self._granted.get(shard)

    def is_ending(self, shard: str) -> bool:
        """True while a former life of the shard has not ended here."""
        return shard in self._lost or shard in self._ending

    def is_closing(self, shard: str) -> bool:
        """True while its bus may still write what it has accepted: its row stays as it is."""
        return shard in self._ending

    def grant(self, lease: Lease, bus: PostgresBus, *, at: float) -> None:
        self._granted[lease.shard] = Grant(lease=lease, bus=bus, granted_at=at)
        self._add(ShardGranted(bus=bus, instructions=bus.instructions))

    def lose(self, lease: Lease, reason: str) -> bool:
        """End a grant; False where it has ended already."""
        grant = self._granted.get(lease.shard)
        if grant is None or grant.lease is not lease:
            return False
        del self._granted[lease.shard]
        if grant.is_delivered:
            self._lost[lease.shard] = grant
            self._add(ShardLost(shard=lease.shard, reason=reason))
        else:
            self._undelivered.append(grant)
            self._withdraw(lease.shard)
        return True

    def reassign(self, shard: str, by: str) -> None:
        grant = self._granted.get(shard)
        if grant is not None and not grant.is_reassigned:
            grant.is_reassigned = True
            self._add(ShardReassigned(shard=shard, by=by))

    def callbacks_arrived(self, shard: str) -> None:
        """Let the host read the inbox; what it has not read about it yet is said once."""
        grant = self._granted.get(shard)
        change = CallbacksArrived(shard=shard)
        if grant is not None and grant.is_delivered and change not in self._changes:
            self._add(change)

    def take(self, shard: str) -> Grant | None:
        """Return the grant that the host ends, lost or not, until `ended`; None without any."""
        grant = self._lost.pop(shard, None)
        if grant is None:
            grant = self._granted.get(shard)
            if grant is None or not grant.is_delivered:
                return None
            del self._granted[shard]
        # What the host has not read about it is void: it may have a newer grant by then.
        self._changes = deque(
            change
            for change in self._changes
            if isinstance(change, ShardGranted) or change.shard != shard
        )
        self._ending[shard] = grant
        return grant

    def ended(self, grant: Grant) -> None:
        """Let the shard be claimed again: the bus is closed, and its row named free."""
        self._ending.pop(grant.lease.shard, None)

    def take_undelivered(self) -> list[Grant]:
        """Return the grants that the host has never learned of, for their buses to be closed."""
        undelivered, self._undelivered = self._undelivered, []
        return undelivered

    def take_all(self) -> list[Grant]:
        """Return every grant, for the end of the store."""
        grants = [*self._granted.values(), *self._lost.values(), *self.take_undelivered()]
        self._granted.clear()
        self._lost.clear()
        self._changes.clear()
        return grants

    # --- what the host reads ---

    async def next_change(self) -> LeaseChange:
        while not self._changes:
            self._has_changes.clear()
            await self._has_changes.wait()
        change = self._changes.popleft()
        if isinstance(change, ShardGranted):
            self._granted[change.bus.shard].is_delivered = True
            self._deliver_first({change.bus.shard})
        return change

    def first_cycle_ended(self) -> None:
        """Take what is granted by now as what this daemon gets at its start."""
        if self._first is None:
            self._first = {
                shard for shard, grant in self._granted.items() if not grant.is_delivered
            }
            self._deliver_first(())

    async def await_first(self) -> None:
        await self._first_are_delivered.wait()

    def _deliver_first(self, shards: Collection[str]) -> None:
        if self._first is not None:
            self._first.difference_update(shards)
            if not self._first:
                self._first_are_delivered.set()

    def _withdraw(self, shard: str) -> None:
        self._changes = deque(
            change
            for change in self._changes
            if not (isinstance(change, ShardGranted) and change.bus.shard == shard)
        )
        self._deliver_first({shard})

    def _add(self, change: LeaseChange) -> None:
        self._changes.append(change)
        self._has_changes.set()

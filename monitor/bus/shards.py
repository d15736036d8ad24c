"""The contract of a store of shards: their holders, and what every daemon may do with all of them.

A shard is a named group of workspaces with a log, consumers and alerts of its own. At any time at
most one daemon holds it, by a lease that it renews; a daemon that has lost the lease stores
nothing any more, because every transaction checks it. A file is a store with one shard, held by the
file's lock.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from msgspec import Struct

from monitor.bus.contract import (
    EventBus,
    Pruned,
    Received,
    Retention,
    StateEntry,
    StoredCallback,
    StoredLog,
    StoredRuns,
    StoredShard,
    StoreEntries,
)
from monitor.bus.trusted_time import JudgedTime
from monitor.model.runs import RunState

SOLE = ""  # the name of the only shard of an embedded store
# The shard without workspaces that every cluster has: its holder watches the cluster for all. No
# workspace can have the name.
CLUSTER = "_cluster"


class WorkspaceIdentity(Struct, frozen=True, kw_only=True):
    """A workspace, and the URL by which two configurations can tell that they mean the same."""

    name: str
    url: str


class ShardDefinition(Struct, frozen=True, kw_only=True):
    """A shard as the configuration of this daemon has it.

    ``digest`` is the same in two daemons only where all that is set about the shard is the same.
    """

    name: str
    workspaces: tuple[WorkspaceIdentity, ...]
    digest: str


class Instruction(Struct, frozen=True, kw_only=True):
    """What a daemon asks of the holder of a shard then. ``id`` is the store's."""

    id: int
    kind: str
    body: bytes
    created_by: str  # id of the daemon that asks


class ShardInstructions(Protocol):
    """The instructions of one shard, for its holder. May raise `BusUnavailableError`."""

    async def next(self) -> Instruction:
        """Return the oldest instruction without an outcome, once there is one."""

    async def finish(self, instruction_id: int, outcome: bytes, *, timeout_seconds: float) -> None:
        """Return once the outcome is durable; the daemon that asked may read it for a day."""


class ShardGranted(Struct, frozen=True, kw_only=True):
    """The shard is this daemon's from now on. Without ``instructions`` no other can ask."""

    bus: EventBus
    instructions: ShardInstructions | None = None


class ShardLost(Struct, frozen=True, kw_only=True):
    """The shard is not, or not surely, this daemon's any more: stop, and publish nothing."""

    shard: str
    reason: str


class ShardReassigned(Struct, frozen=True, kw_only=True):
    """Another daemon is to have the shard: finish what runs, then release it."""

    shard: str
    by: str


class CallbacksArrived(Struct, frozen=True, kw_only=True):
    """Other daemons have stored callbacks for a shard that this one holds: its inbox has them."""

    shard: str


LeaseChange = ShardGranted | ShardLost | ShardReassigned | CallbacksArrived


class DaemonRecord(Struct, frozen=True, kw_only=True):
    """One daemon of the cluster, by the server's clock."""

    id: str
    host: str
    process_id: int
    version: str
    url: str | None  # of its page
    started_at: datetime
    renewed_at: datetime
    expires_at: datetime
    is_alive: bool
    shards: int  # that it holds


class ShardRecord(Struct, frozen=True, kw_only=True):
    """One shard of the cluster. ``backlog`` is that of its slowest consumer."""

    name: str
    workspaces: tuple[str, ...]
    holder: str | None  # id of a daemon
    epoch: int
    held_since: datetime | None
    newest_position: int
    backlog: int
    inbox: int
    last_change: str  # how it came to its holder: claimed, handed over, taken over
    taken_over_at: datetime | None = None  # for the last time, from a daemon that was gone
    is_configured: bool = True  # at a daemon that is alive; else it is to have no holder


class ClusterStatus(Struct, frozen=True, kw_only=True):
    """Who shares the store, and who holds what. ``this`` is the id of the daemon that answers."""

    this: str
    at: datetime
    schema: int
    lease_seconds: float
    daemons: tuple[DaemonRecord, ...]
    shards: tuple[ShardRecord, ...]


class ShardsElsewhere(Protocol):
    """Reads, and asks, shards that other daemons hold. May raise `BusUnavailableError`."""

    async def stored_shards(self, shards: Collection[str]) -> dict[str, StoredShard]:
        """Return what reads each of these shards, held anywhere; an unknown one is absent."""

    async def state_entries_of(
        self, workspaces: Collection[str], topics: Collection[str]
    ) -> list[StateEntry]:
        """Return the state entries of those topics of all the workspaces."""

    async def active_runs_of(self, workspaces: Collection[str]) -> list[RunState]:
        """Return all stored runs of the workspaces that have not ended."""

    async def consumer_states(
        self, consumer: str, shards: Collection[str]
    ) -> dict[str, dict[str, bytes]]:
        """Return by shard what the consumer's steps have stored; nothing stored is absent."""

    async def instruct(self, shard: str, kind: str, body: bytes, *, timeout_seconds: float) -> int:
        """Return the id of a durable instruction; the shard's holder then executes it.

        Raises:
            ConfigurationError: too many wait in that shard already.
        """

    async def outcome(self, instruction_id: int, *, timeout_seconds: float) -> bytes | None:
        """Return the outcome of an instruction; None where there is none within the time-out."""


class StoreTimes(Struct, frozen=True, kw_only=True):
    """The store's own clock, and where the judgement of its ages has left off.

    That is its newest event where they were never judged; None where nothing is stored.
    """

    now: datetime
    judged: JudgedTime | None


class ShardStore(Protocol):
    """The store of a daemon. Every method may raise `BusUnavailableError`."""

    @property
    def daemon_id(self) -> str:
        """The name of this daemon among those that share the store; "" where none can."""

    @property
    def schema(self) -> int:
        """The version of the schema that the store had when it was opened."""

    @property
    def away_since(self) -> datetime | None:
        """Since when the database of several daemons does not answer; None while it does."""

    @property
    def stored_runs(self) -> StoredRuns:
        """Reads the runs of all shards, whichever daemons hold them."""

    @property
    def log(self) -> StoredLog:
        """Reads the events of all shards, whichever daemons hold them."""

    @property
    def entries(self) -> StoreEntries:
        """Entries of no shard, which every daemon writes and reads."""

    @property
    def elsewhere(self) -> ShardsElsewhere | None:
        """Reads and asks the shards of other daemons; None where there can be none."""

    async def define(self, definitions: Sequence[ShardDefinition]) -> None:
        """Say which shards this daemon may hold: at its start, and with each configuration.

        Raises:
            ConfigurationError: a workspace is stored in another shard, or means another URL to a
                daemon that is alive.
        """

    async def next_change(self) -> LeaseChange:
        """Return the next change of what this daemon holds. A cancelled call loses none.

        A store that is unavailable is waited for; shards that are held are lost meanwhile.
        """

    async def await_first_shards(self) -> None:
        """Return once `next_change` has returned all that this daemon gets at its start."""

    async def release(self, shard: str) -> None:
        """Close the shard's bus and let others have the shard at once."""

    async def give_up(self, shard: str, cause: BaseException) -> None:
        """Close the bus of a shard whose parts have failed; this daemon or another starts it.

        Raises:
            BaseException: ``cause``, where no other daemon could have it.
        """

    async def drain(self) -> None:
        """Take no shard any more: this daemon is about to end."""

    async def receive(
        self, callback: StoredCallback, *, inbox_bound: int, timeout_seconds: float
    ) -> Received:
        """Keep a callback of any workspace, as `EventBus.receive` says; its holder observes it."""

    async def prune(self, retention: Retention, *, now: datetime) -> Mapping[str, Pruned]:
        """Apply retention to all shards that this daemon holds, as `EventBus.prune` says."""

    async def times(self) -> StoreTimes:
        """Return what the store's clock shows; that of a file is ours."""

    async def keep_judged(self, judged: JudgedTime) -> None:
        """Store by what time ages were judged, for the daemon that starts next."""

    async def probe(self, *, timeout_seconds: float) -> None:
        """Return once a value that is never read is durable."""

    async def cluster(self) -> ClusterStatus | None:
        """Return who shares the store; None where it cannot be shared."""

    async def watch(self) -> None:
        """Return when the store is closed.

        Raises:
            BusUnavailableError: it was lost for good; the daemon must end.
        """

    async def close(self) -> None:
        """Release what is held, and the store. Further calls raise."""

"""The contract of a shard with the rest of the daemon."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Protocol

from monitor.bus.contract.data_types import (
    Arrivals,
    Batch,
    Change,
    DeadLetter,
    Pruned,
    Received,
    Recorded,
    Retention,
    Start,
    Step,
    StoredCallback,
    StoreStatus,
)
from monitor.model.alerts import PipelineOfKind
from monitor.model.runs import RunKey, RunKind, RunState, Status


class StoredRuns(Protocol):
    """Reads what is known of runs. Workspaces have one name each, so it needs no shard."""

    async def runs(self, keys: Collection[RunKey]) -> dict[RunKey, RunState]:
        """Return the stored states of those runs; an unknown or forgotten run is absent."""

    async def active_runs(self, workspace: str) -> list[RunState]:
        """Return all stored runs of the workspace that have not ended, oldest first."""

    async def recent_runs(
        self,
        *,
        workspaces: Collection[str] | None = None,
        kind: RunKind | None = None,
        statuses: Collection[Status] = (),
        pipelines: Collection[PipelineOfKind] | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        before: RunKey | None = None,
        limit: int,
    ) -> list[RunState]:
        """Return at most ``limit`` stored runs, newest creation first.

        Of those statuses, all where none is named; of those workspaces and pipelines only, where
        these are given; created at or after ``since`` and before ``until``; after the stored run
        ``before`` in that order. After a run that is not stored there is none.
        """

    async def pipeline_runs(
        self,
        pipelines: Collection[PipelineOfKind],
        *,
        limit: int,
        since: datetime | None = None,
        before: datetime | None = None,
    ) -> dict[PipelineOfKind, list[RunState]]:
        """Return of each pipeline at most ``limit`` stored runs, newest creation first.

        Only those created at or after ``since`` and before ``before``, where these are given.
        """

    async def children(self, key: RunKey) -> list[RunState]:
        """Return the stored runs whose parent is ``key``: of a flow run or a plan run."""

    async def state_entries(self, workspace: str, topic: str) -> dict[str, bytes]:
        """Return the state entries of one topic, by key."""

    async def events_by_id(self, ids: Collection[str]) -> dict[str, Recorded]:
        """Return those of the events that are still in a log, by id."""


class StoredShard(StoredRuns, Protocol):
    """Reads one shard, whichever daemon holds it. Every method may raise `BusUnavailableError`."""

    @property
    def shard(self) -> str:
        """The name of the shard; "" for the only one of an embedded store."""

    async def events(self, *, after: int, limit: int) -> list[Recorded]:
        """Return events after ``after`` without a consumer; no gap is counted."""

    async def events_since(self, recorded_at: datetime) -> int:
        """Return the position before the first event recorded at or after that instant."""

    async def consumer_state(self, consumer: str) -> dict[str, bytes]:
        """Return the state that the consumer's steps have stored."""

    async def dead_letters(self, consumer: str, *, limit: int) -> list[DeadLetter]:
        """Return the newest dead letters of a consumer."""

    async def dead_letters_after(
        self, consumer: str, position: int | None, *, limit: int
    ) -> list[DeadLetter]:
        """Return dead letters of a consumer after a position, in its order; None: the first."""

    async def status(self) -> StoreStatus:
        """Return the present figures of the store and its consumers."""


class EventBus(StoredShard, Protocol):
    """One shard: its run state, events, state entries and callbacks; events go to named consumers.

    Every method may raise `BusUnavailableError`. A write that raises has stored nothing.
    """

    @property
    def lease_seconds(self) -> float:
        """How long a lease lasts without renewal; 0 where a lock holds the shard.

        After that time no former holder can publish any more what it was about to.
        """

    def may_publish(self) -> bool:
        """True while this process surely holds the shard: it may publish states, and poll.

        To be asked right before: it reads a clock that goes on while the process is stopped.
        """

    async def confirm(self) -> None:
        """Return once the store has confirmed that this process holds the shard.

        Raises:
            BusLostError: another daemon has it.
            BusUnavailableError: the store does not say.
        """

    async def watch(self) -> None:
        """Return when the bus is closed.

        Raises:
            BusUnavailableError: the shard was lost, or what is stored is damaged.
        """

    async def commit(
        self, change: Change, *, timeout_seconds: float, linger_seconds: float = 0.0
    ) -> tuple[Received, ...]:
        """Return once the change is durable, with an answer for each callback that arrived.

        With ``linger_seconds`` a store may let it wait so long for a transaction that another
        caller causes; the time-out begins only then.

        The same change again is a no-op. A callback that is a duplicate, as `receive` says, is not
        stored again; the rest of the change is stored.

        Raises:
            BusUnavailableError: not durable after ``timeout_seconds``; nothing of it was kept.
        """

    async def receive(
        self, callback: StoredCallback, *, inbox_bound: int, timeout_seconds: float
    ) -> Received:
        """Keep a callback; once this returns it survives ``kill -9``.

        A fingerprint is a duplicate while it waits, and then until `prune` forgets it after a day.
        """

    async def inbox(self, workspace: str, *, after: int = 0, limit: int) -> Arrivals:
        """Return waiting callbacks in the order of their arrival, from after ``after``.

        0 is the beginning, any other is the ``until`` of an answer before.
        """

    async def subscribe(self, consumer: str, *, start: Start) -> int:
        """Return the position of the consumer, creating it at ``start`` if it is new."""

    async def keep_only(self, consumers: Collection[str]) -> list[str]:
        """Drop every other consumer with its state, and return their names."""

    async def read(self, consumer: str, *, after: int, limit: int) -> Batch:
        """Return the events after ``after``, at most ``limit``; does not move the position.

        ``consumer`` is only the name under which a gap is counted.
        """

    async def wait(self, after: int, *, timeout_seconds: float) -> bool:
        """Return True once the log has events after ``after``, False after the time-out.

        A cancelled call leaves nothing behind.
        """

    async def advance(
        self, step: Step, *, timeout_seconds: float, linger_seconds: float = 0.0
    ) -> None:
        """Return once the consumer's step is durable. A position never moves back.

        With ``linger_seconds`` it causes no commit of its own for so long: it becomes durable
        with the next one that another caller causes. The time-out begins only then.
        """

    async def probe(self, *, timeout_seconds: float) -> None:
        """Return once a value that is never read is durable.

        It is so small that it may fit where nothing else does, so it never counts in
        `StoreStatus.write_failures`.
        """

    async def prune(self, retention: Retention, *, now: datetime) -> Pruned:
        """Apply retention once, in small steps that let other writes through.

        Events are removed by age or count, but those that a consumer has not read only past the
        hard cap; active runs are never forgotten.
        """

    async def close(self) -> None:
        """Finish what was accepted, then release the store. Further calls raise."""

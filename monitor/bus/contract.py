"""What every store of the monitor promises. `tests/bus` holds each backend to these words.

After a crash there is never state without its events. Events without state are allowed: the same
observation taken again makes the same ids, and an id that the log holds already is not added again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Protocol, TypeVar

import msgspec
import structlog
from msgspec import Struct

from monitor.model.errors import BusSchemaError
from monitor.model.events import Event
from monitor.model.runs import RunKey, RunKind, RunState, Status

log = structlog.get_logger()

T = TypeVar("T")


class StateEntry(Struct, frozen=True, kw_only=True, gc=False):
    """One small durable fact of a workspace: a watermark, a task's id, a pipeline's standing.

    ``value`` None deletes the note.
    """

    workspace: str
    topic: str
    key: str
    value: bytes | None


def understood(value: bytes, decoder: msgspec.json.Decoder[T], *, what: str) -> T:
    """Return what a note says.

    Raises:
        BusSchemaError: it was damaged, or another version wrote it. The message names ``what``.
    """
    try:
        return decoder.decode(value)
    except (msgspec.MsgspecError, ValueError, RecursionError) as exc:
        raise BusSchemaError(f"what is stored as {what} cannot be understood: {exc}") from exc


def legible(
    state_entries: Mapping[str, bytes], decoder: msgspec.json.Decoder[T], *, topic: str
) -> dict[str, T]:
    """Return what notes say that can be learned again; one that is damaged is left out, logged."""
    said: dict[str, T] = {}
    for key, value in state_entries.items():
        try:
            said[key] = understood(value, decoder, what=f"{topic} {key!r}")
        except BusSchemaError as exc:
            log.warning("a note is left out", reason=str(exc))
    return said


class Change(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """What belongs together and is stored together or not at all.

    ``settled`` are ids of stored callbacks that this change has dealt with.
    """

    runs: tuple[RunState, ...] = ()
    events: tuple[Event, ...] = ()
    state_entries: tuple[StateEntry, ...] = ()
    settled: tuple[int, ...] = ()


class StoredCallback(Struct, frozen=True, kw_only=True, gc=False):
    """What one accepted callback said. The body itself is not kept: it may hold anything.

    ``fingerprint`` is equal for callbacks that say the same; ``id`` is the store's, 0 before.
    """

    id: int = 0
    workspace: str
    kind: RunKind
    run_id: str
    native_status: str | None
    flow_id: str | None = None
    task_key: str | None = None
    received_at: datetime
    fingerprint: str


class Received(StrEnum):
    """What became of a callback that was offered to the inbox."""

    STORED = "stored"
    DUPLICATE = "duplicate"
    FULL = "full"  # the bound of this workspace's inbox is reached; nothing was stored


class Start(StrEnum):
    """Where a consumer that the store has not seen before begins."""

    OLDEST = "oldest"
    NEWEST = "newest"


class Recorded(Struct, frozen=True, gc=False):
    """An event and its place in the log. Positions grow and are never used again."""

    position: int
    event: Event


class Gap(Struct, frozen=True, kw_only=True, gc=False):
    """Retention cut ``lost`` events that this consumer had not read; reading goes on behind."""

    until: int  # the last position that is gone
    lost: int


class Batch(Struct, frozen=True, kw_only=True, gc=False):
    """A stretch of the log, oldest first. Empty without a gap means "nothing new"."""

    events: tuple[Recorded, ...] = ()
    gap: Gap | None = None


class DeadLetter(Struct, frozen=True, kw_only=True, gc=False):
    """An event that a receiver refused for good, kept for the operator."""

    position: int
    event: Event
    reason: str
    refused_at: datetime


class Step(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """A consumer's progress: all of it becomes durable together, or none of it.

    ``state`` maps a key of the consumer's own to its new value; None deletes the key.
    """

    consumer: str
    position: int | None = None  # None leaves it where it is
    state: dict[str, bytes | None] = {}
    events: tuple[Event, ...] = ()  # appended by this consumer
    dead_letters: tuple[DeadLetter, ...] = ()


class ConsumerStatus(Struct, frozen=True, kw_only=True, gc=False):
    """How far a consumer is behind. ``oldest_at`` is when its oldest unread event was recorded."""

    consumer: str
    position: int
    backlog: int
    oldest_at: datetime | None
    dead_letters: int
    lost: int  # events that retention took from it, ever


class StoreStatus(Struct, frozen=True, kw_only=True, gc=False):
    """The store as a whole."""

    newest_position: int
    oldest_position: int  # of the events still held; newest + 1 when none is
    consumers: tuple[ConsumerStatus, ...]
    inbox: dict[str, int]  # workspace -> callbacks waiting
    store_bytes: int


class Retention(Struct, frozen=True, kw_only=True):
    """How long things are kept. Beyond the hard cap, events go although somebody needs them."""

    events_seconds: float = 30 * 86_400.0
    events_count: int = 1_000_000
    events_hard_cap: int = 2_000_000
    runs_seconds: float = 30 * 86_400.0  # finished runs, counted from their end
    callbacks_seconds: float = 86_400.0  # callbacks that no run has confirmed


class Pruned(Struct, frozen=True, kw_only=True):
    """What one round of retention removed."""

    events: int
    runs: int
    callbacks: tuple[StoredCallback, ...]  # never confirmed in time


class EventBus(Protocol):
    """Keeps run state, events, notes and callbacks; carries events to named consumers.

    Every method may raise `BusUnavailableError`. A write that raises has stored nothing.
    """

    async def commit(self, change: Change, *, timeout_seconds: float) -> None:
        """Return once the change is durable. The same change again is a no-op.

        Raises:
            BusUnavailableError: not durable after ``timeout_seconds``; nothing of it was kept.
        """

    async def runs(self, keys: Collection[RunKey]) -> dict[RunKey, RunState]:
        """Return the stored states of those runs; an unknown or forgotten run is absent."""

    async def active_runs(self, workspace: str) -> list[RunState]:
        """Return all stored runs of the workspace that have not ended, oldest first."""

    async def recent_runs(
        self,
        *,
        workspace: str | None = None,
        kind: RunKind | None = None,
        status: Status | None = None,
        limit: int,
    ) -> list[RunState]:
        """Return at most ``limit`` stored runs, newest creation first."""

    async def children(self, key: RunKey) -> list[RunState]:
        """Return the stored runs whose parent is ``key``: of a flow run or a plan run."""

    async def state_entries(self, workspace: str, topic: str) -> dict[str, bytes]:
        """Return the notes of one topic, by key."""

    async def receive(
        self, callback: StoredCallback, *, inbox_bound: int, timeout_seconds: float
    ) -> Received:
        """Keep a callback; once this returns it survives ``kill -9``.

        A fingerprint that is waiting, or was settled within the last day, is a duplicate.
        """

    async def inbox(self, workspace: str, *, after: int = 0, limit: int) -> list[StoredCallback]:
        """Return waiting callbacks in the order of their arrival, from the id behind ``after``."""

    async def subscribe(self, consumer: str, *, start: Start) -> int:
        """Return the position of the consumer, creating it at ``start`` if it is new."""

    async def keep_only(self, consumers: Collection[str]) -> list[str]:
        """Drop every other consumer with its state, and return their names."""

    async def read(self, consumer: str, *, after: int, limit: int) -> Batch:
        """Return the events behind ``after``, at most ``limit``; does not move the position.

        ``consumer`` is only the name under which a gap is counted.
        """

    async def events(self, *, after: int, limit: int) -> list[Recorded]:
        """Return events behind ``after`` for somebody who only looks; no gap is counted."""

    async def events_by_id(self, ids: Collection[str]) -> dict[str, Recorded]:
        """Return those of the events that the log still holds, by id."""

    async def events_since(self, recorded_at: datetime) -> int:
        """Return the position in front of the first event recorded at or after that instant."""

    async def wait(self, after: int, *, timeout_seconds: float) -> bool:
        """Return True as soon as the log reaches beyond ``after``, False after the time-out."""

    async def advance(self, step: Step, *, timeout_seconds: float) -> None:
        """Return once the consumer's step is durable. A position never moves back."""

    async def consumer_state(self, consumer: str) -> dict[str, bytes]:
        """Return all that the consumer's steps have left in its state."""

    async def dead_letters(self, consumer: str, *, limit: int) -> list[DeadLetter]:
        """Return the newest dead letters of a consumer."""

    async def status(self) -> StoreStatus:
        """Return how the store and its consumers stand now."""

    async def prune(self, retention: Retention, *, now: datetime) -> Pruned:
        """Apply retention once, in small steps that let other writes through.

        Events leave by age or count, but not in front of a consumer's position unless the hard
        cap is passed; active runs are never forgotten.
        """

    async def close(self) -> None:
        """Finish what was accepted, then release the store. Further calls raise."""

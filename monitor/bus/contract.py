"""What every store of the monitor promises. `tests/bus` holds each backend to these words.

After a crash there is never state without its events. Events without state are allowed: the same
observation taken again makes the same ids, and an id that the log holds already is not added again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Protocol, TypeVar

import msgspec
import structlog
from msgspec import Meta, Struct

from monitor.model.alerts import PipelineOfKind
from monitor.model.errors import BusSchemaError
from monitor.model.events import Event
from monitor.model.runs import RunKey, RunKind, RunState, Status
from monitor.model.settings import StartSetting

log = structlog.get_logger()

T = TypeVar("T")


class StateEntry(Struct, frozen=True, kw_only=True, gc=False):
    """One small durable fact of a workspace: a watermark, a task's id, a pipeline's health.

    ``value`` None deletes the entry.
    """

    workspace: str
    topic: str
    key: str
    value: bytes | None


def decode_entry(value: bytes, decoder: msgspec.json.Decoder[T], *, what: str) -> T:
    """Return the decoded value of a state entry.

    Raises:
        BusSchemaError: it is damaged, or another version wrote it. The message names ``what``.
    """
    try:
        return decoder.decode(value)
    except (msgspec.MsgspecError, ValueError, RecursionError) as exc:
        raise BusSchemaError(f"what is stored as {what} cannot be understood: {exc}") from exc


def decode_entries(
    state_entries: Mapping[str, bytes], decoder: msgspec.json.Decoder[T], *, topic: str
) -> dict[str, T]:
    """Return decoded state entries; a damaged one is skipped and logged.

    Only for entries that the monitor can learn again.
    """
    decoded: dict[str, T] = {}
    for key, value in state_entries.items():
        try:
            decoded[key] = decode_entry(value, decoder, what=f"{topic} {key!r}")
        except BusSchemaError as exc:
            log.warning("damaged state entry skipped", reason=str(exc))
    return decoded


class Change(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """What is stored together or not at all.

    ``processed`` are ids of stored callbacks that this change has processed, ``arrived`` are
    callbacks that it has processed and that were never in the inbox.
    """

    runs: tuple[RunState, ...] = ()
    events: tuple[Event, ...] = ()
    state_entries: tuple[StateEntry, ...] = ()
    processed: tuple[int, ...] = ()
    arrived: tuple[StoredCallback, ...] = ()


class StoredCallback(Struct, frozen=True, kw_only=True, gc=False):
    """What one accepted callback reported. The body itself is not kept: it may hold anything.

    ``fingerprint`` is equal for callbacks that report the same; ``id`` is the store's, 0 before.
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
    """What the inbox did with a callback."""

    STORED = "stored"
    DUPLICATE = "duplicate"
    FULL = "full"  # the bound of this workspace's inbox is reached; nothing was stored


class Start(StrEnum):
    """Where a consumer begins that is new to the store."""

    OLDEST = "oldest"
    NEWEST = "newest"


class Recorded(Struct, frozen=True, gc=False):
    """An event and its place in the log. Positions grow and are never used again."""

    position: int
    event: Event


class Gap(Struct, frozen=True, kw_only=True, gc=False):
    """Retention removed ``lost`` events that this consumer had not read; it goes on behind."""

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


class WriteFailures(Struct, frozen=True, kw_only=True, gc=False):
    """Writes that the store has refused, from the first to the last of one stretch of trouble.

    ``is_over``: something was stored after the last of them. ``since`` is of our wall clock,
    ``quiet_seconds`` since the last of them of a clock that nobody sets.
    """

    since: datetime
    quiet_seconds: float
    count: int
    reason: str  # of the last
    is_over: bool = False


class StoreStatus(Struct, frozen=True, kw_only=True, gc=False):
    """The store as a whole."""

    newest_position: int
    oldest_position: int  # of the events still stored; newest + 1 without any
    consumers: tuple[ConsumerStatus, ...]
    inbox: dict[str, int]  # workspace -> callbacks waiting
    store_bytes: int
    write_failures: WriteFailures | None = None  # the newest; None: none since the start


class Retention(Struct, frozen=True, kw_only=True):
    """Retention of events and runs."""

    events_seconds: Annotated[
        float,
        Meta(ge=60, le=3_650 * 86_400),
        StartSetting("Events older than this are deleted once every output has consumed them."),
    ] = 30 * 86_400.0
    events_count: Annotated[
        int,
        Meta(ge=1_000, le=1_000_000_000),
        StartSetting(
            "More events than this are deleted, oldest first, once every output has consumed them."
        ),
    ] = 1_000_000
    events_hard_cap: Annotated[
        int,
        Meta(ge=1_000, le=1_000_000_000),
        StartSetting(
            "More events than this are deleted even if an output still needs them; "
            "dataprep_monitor_events_lost_total counts that."
        ),
    ] = 2_000_000
    runs_seconds: Annotated[
        float,
        Meta(ge=86_400, le=3_650 * 86_400),
        StartSetting(
            "Retention of finished runs. An older run that changes again makes no events."
        ),
    ] = 30 * 86_400.0
    callbacks_seconds: float = 86_400.0  # callbacks that no run has confirmed

    def problems(self) -> list[str]:
        """Return one sentence ``key: problem`` for what does not fit together."""
        if self.events_hard_cap >= self.events_count:
            return []
        return [f"events_hard_cap: must not be below events_count, which is {self.events_count}"]


class Pruned(Struct, frozen=True, kw_only=True):
    """What one run of retention removed."""

    events: int
    runs: int
    callbacks: tuple[StoredCallback, ...]  # never confirmed in time


class EventBus(Protocol):
    """Stores run state, events, state entries and callbacks; carries events to named consumers.

    Every method may raise `BusUnavailableError`. A write that raises has stored nothing.
    """

    async def commit(self, change: Change, *, timeout_seconds: float) -> tuple[Received, ...]:
        """Return once the change is durable, with an answer for each callback that arrived.

        The same change again is a no-op. A callback that is a duplicate, as `receive` says, is not
        stored again; the rest of the change is stored.

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
        statuses: Collection[Status] = (),
        pipelines: Collection[PipelineOfKind] | None = None,
        since: datetime | None = None,
        before: RunKey | None = None,
        limit: int,
    ) -> list[RunState]:
        """Return at most ``limit`` stored runs, newest creation first.

        Of those statuses, all where none is named; of those pipelines only, where these are given;
        created at or after ``since``; behind the stored run ``before`` in that order. Behind a run
        that is not stored there is none.
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

    async def receive(
        self, callback: StoredCallback, *, inbox_bound: int, timeout_seconds: float
    ) -> Received:
        """Keep a callback; once this returns it survives ``kill -9``.

        A fingerprint that is waiting, or was processed within the last day, is a duplicate.
        """

    def is_waiting(self, key: RunKey) -> bool:
        """Return True while a callback of that run waits in the inbox."""

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
        """Return events behind ``after`` without a consumer; no gap is counted."""

    async def events_by_id(self, ids: Collection[str]) -> dict[str, Recorded]:
        """Return those of the events that are still in the log, by id."""

    async def events_since(self, recorded_at: datetime) -> int:
        """Return the position in front of the first event recorded at or after that instant."""

    async def wait(self, after: int, *, timeout_seconds: float) -> bool:
        """Return True once the log has events behind ``after``, False after the time-out.

        A cancelled call leaves nothing behind.
        """

    async def advance(
        self, step: Step, *, timeout_seconds: float, patience_seconds: float = 0.0
    ) -> None:
        """Return once the consumer's step is durable. A position never moves back.

        With ``patience_seconds`` it causes no commit of its own for so long: it becomes durable
        with the next one that somebody else causes. The time-out begins only then.
        """

    async def consumer_state(self, consumer: str) -> dict[str, bytes]:
        """Return the state that the consumer's steps have stored."""

    async def dead_letters(self, consumer: str, *, limit: int) -> list[DeadLetter]:
        """Return the newest dead letters of a consumer."""

    async def probe(self, *, timeout_seconds: float) -> None:
        """Return once something that nobody reads is durable.

        It is so small that it may fit where nothing else does, so it never counts in
        `StoreStatus.write_failures`.
        """

    async def status(self) -> StoreStatus:
        """Return the present figures of the store and its consumers."""

    async def prune(self, retention: Retention, *, now: datetime) -> Pruned:
        """Apply retention once, in small steps that let other writes through.

        Events are removed by age or count, but those that a consumer has not read only past the
        hard cap; active runs are never forgotten.
        """

    async def close(self) -> None:
        """Finish what was accepted, then release the store. Further calls raise."""

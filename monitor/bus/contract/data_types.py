"""The words of the bus contract: what is stored, what is read, and how a store is doing."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Annotated, TypeVar

import msgspec
import structlog
from msgspec import Meta, Struct

from monitor.model.errors import BusSchemaError
from monitor.model.events import Event
from monitor.model.runs import RunKind, RunState
from monitor.model.settings import StartSetting

log = structlog.get_logger()

T = TypeVar("T")


# Consumers whose names begin so read only what is old enough, on purpose: they are always behind.
WAITING_CONSUMERS = "misses/"

# Before every position that a store may have; one that was imported may have some below 0.
BEFORE_FIRST = -(2**63)


class StateEntry(Struct, frozen=True, kw_only=True, gc=False):
    """One small durable fact of a workspace: a watermark, a task's id, a pipeline's health.

    ``value`` None deletes the entry.
    """

    workspace: str
    topic: str
    key: str
    value: bytes | None

    def __repr__(self) -> str:  # a value may hold secrets
        size = "deleted" if self.value is None else f"{len(self.value)} bytes"
        return f"StateEntry({self.workspace!r}, {self.topic!r}, {self.key!r}, {size})"


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
    ``task_flow_id`` is the flow whose task sent it: it may only report runs of this one. None for
    a task with the secret of all callbacks.
    """

    id: int = 0
    workspace: str
    kind: RunKind
    run_id: str
    native_status: str | None
    flow_id: str | None = None
    task_key: str | None = None
    task_flow_id: str | None = None
    received_at: datetime
    fingerprint: str


class Received(StrEnum):
    """What the inbox did with a callback."""

    STORED = "stored"
    DUPLICATE = "duplicate"
    FULL = "full"  # the bound of this workspace's inbox is reached; nothing was stored


class Arrivals(Struct, frozen=True, kw_only=True, gc=False):
    """Waiting callbacks. ``until`` is where to go on: a number of this process, and not an id.

    Ids become visible out of their order where several daemons store callbacks.
    """

    callbacks: tuple[StoredCallback, ...] = ()
    until: int = 0


class Start(StrEnum):
    """Where a consumer begins that is new to the store."""

    OLDEST = "oldest"
    NEWEST = "newest"


class Recorded(Struct, frozen=True, gc=False, omit_defaults=True):
    """An event and its place in the log. Positions grow and are never used again in an epoch.

    A new ``epoch`` begins where a database has lost the end of the log.
    """

    position: int
    event: Event
    epoch: int = 0


class Gap(Struct, frozen=True, kw_only=True, gc=False):
    """Retention removed ``lost`` events that this consumer had not read; it goes on after them."""

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

    ``state`` maps a key of the consumer's own to its new value; None deletes the key. A dead letter
    replaces the one of its position; ``removed_letters`` are positions of others, which go.
    """

    consumer: str
    position: int | None = None  # None leaves it where it is
    state: dict[str, bytes | None] = {}
    events: tuple[Event, ...] = ()  # appended by this consumer
    dead_letters: tuple[DeadLetter, ...] = ()
    removed_letters: tuple[int, ...] = ()


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
    ``quiet_seconds`` since the last of them, by a clock that is never set.
    """

    since: datetime
    quiet_seconds: float
    count: int
    reason: str  # of the last
    is_over: bool = False


class LostEnd(Struct, frozen=True, kw_only=True, gc=False):
    """The newest ``count`` events that a store had acknowledged are not in it any more.

    None: perhaps some, because it goes on where that may be, unknown how far.
    """

    count: int | None
    since: datetime  # ours
    noticed: float  # on the monotonic clock


class StoreStatus(Struct, frozen=True, kw_only=True, gc=False):
    """The store as a whole."""

    newest_position: int
    oldest_position: int  # of the events still stored; newest + 1 without any
    consumers: tuple[ConsumerStatus, ...]
    inbox: dict[str, int]  # workspace -> callbacks waiting
    store_bytes: int
    write_failures: WriteFailures | None = None  # the newest; None: none since the start
    lost_end: LostEnd | None = None  # within the hour


class Retention(Struct, frozen=True, kw_only=True):
    """Retention of events, runs and the audit."""

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
    audit_seconds: Annotated[
        float,
        Meta(ge=86_400, le=3_650 * 86_400),
        StartSetting("Retention of the audit: who changed what; at most 100,000 lines are kept."),
    ] = 365 * 86_400.0
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

"""Rows of one write, encoded by its caller, not in the transaction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from msgspec import Struct

from monitor.bus.contract import Change, DeadLetter, Start, StateEntry, Step, StoredCallback
from monitor.bus.postgres import codec
from monitor.model.events import Event
from monitor.model.runs import RunState

# How long the repetition of a processed callback is still recognised.
PROCESSED_MEMORY = timedelta(days=1)

# Shard, workspace, kind, id, status, created and ended, parents, pipeline, body.
RunRow = tuple[int, str, str, str, str, int, int | None, str | None, str | None, str | None, bytes]


class NewEventRow(Struct, frozen=True, gc=False):
    """An event on its way into the log of its shard."""

    id: str
    recorded_at: int
    body: bytes
    event: Event


class CallbackRow(Struct, frozen=True, gc=False):
    """A callback on its way into an inbox that holds at most ``bound``, or past it."""

    shard: int
    workspace: str
    fingerprint: str
    received_at: int
    processed_at: int | None  # None: it is to wait
    body: bytes
    callback: StoredCallback
    bound: int

    @property
    def identity(self) -> tuple[str, str]:
        return (self.workspace, self.fingerprint)


class ShardRows(Struct, kw_only=True, gc=False):
    """What is stored together or not at all, of one shard."""

    runs: Sequence[RunRow] = ()
    events: Sequence[NewEventRow] = ()
    state_entries: tuple[StateEntry, ...] = ()
    processed: tuple[int, ...] = ()
    processed_at: int = 0
    callbacks: Sequence[CallbackRow] = ()
    step: Step | None = None  # its events are in ``events``
    dead_letters: Sequence[tuple[int, bytes]] = ()
    subscription: tuple[str, Start] | None = None

    @property
    def size(self) -> int:
        """About how many rows of tables it is."""
        return (
            len(self.runs)
            + len(self.events)
            + len(self.state_entries)
            + len(self.processed)
            + len(self.callbacks)
            + len(self.dead_letters)
            + (_size(self.step) if self.step is not None else 0)
        )


def rows_of_change(change: Change, *, shard: int, now: datetime) -> ShardRows:
    return ShardRows(
        runs=[_run_row(run, shard) for run in change.runs],
        events=event_rows(change.events),
        state_entries=change.state_entries,
        processed=change.processed,
        processed_at=codec.microseconds(now) if change.processed else 0,
        callbacks=[
            callback_row(callback, shard=shard, processed_at=now) for callback in change.arrived
        ],
    )


def rows_of_step(step: Step) -> ShardRows:
    return ShardRows(
        step=step, events=event_rows(step.events), dead_letters=_letter_rows(step.dead_letters)
    )


def callback_row(
    callback: StoredCallback,
    *,
    shard: int,
    bound: int = 0,
    processed_at: datetime | None = None,
) -> CallbackRow:
    return CallbackRow(
        shard,
        codec.text(callback.workspace),
        codec.text(callback.fingerprint),
        codec.microseconds(callback.received_at),
        None if processed_at is None else codec.microseconds(processed_at),
        codec.encode(callback) if processed_at is None else b"",
        callback,
        bound,
    )


def event_rows(events: Iterable[Event]) -> list[NewEventRow]:
    return [
        NewEventRow(
            codec.text(event.id), codec.microseconds(event.recorded_at), codec.encode(event), event
        )
        for event in events
    ]


def _size(step: Step) -> int:
    return 1 + len(step.state) + len(step.removed_letters)


def _letter_rows(letters: Iterable[DeadLetter]) -> list[tuple[int, bytes]]:
    return [(letter.position, codec.encode(letter)) for letter in letters]


def _run_row(run: RunState, shard: int) -> RunRow:
    key, parents, pipeline = run.key, run.parents, run.pipeline
    begun_at = run.created_at or run.started_at or run.finished_at or run.confirmed_at
    ended_at = None
    if run.status.is_terminal:
        ended_at = codec.microseconds(run.finished_at or run.updated_at or run.confirmed_at)
    return (
        shard,
        codec.text(key.workspace),
        key.kind,
        codec.text(key.id),
        run.status,
        codec.microseconds(begun_at),
        ended_at,
        None if parents.flow_run is None else codec.text(parents.flow_run),
        None if parents.plan_run is None else codec.text(parents.plan_run),
        None if pipeline is None or pipeline.id is None else codec.text(pipeline.id),
        codec.encode(run),
    )

"""Counts what happened: from an event to the rows of counters that it changes. Pure.

What an event adds follows from the event alone, with one exception: a run whose end only a
callback has reported, or a job group whose records are still to be read, has no duration yet. It
is remembered in a bounded row until that is known. Jobs and waits in the queue are counted by what
was read first of a run, also where the workspace changes its end later.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TypeVar

import msgspec
from msgspec import Struct

from monitor.model.events import STATUS_EVENTS, Event, EventType, RunEvent
from monitor.model.runs import Pipeline, RunKey, RunKind, Source, Status, Trigger, status_of
from monitor.outputs.metrics.counter_rows import (
    DURATION_BOUNDS,
    OTHER,
    OTHER_JOB_TYPE,
    QUEUE_BOUNDS,
    UNKNOWN,
    AwaitedDurations,
    CounterRow,
    Identity,
    JobCounts,
    QueueCounts,
    RunCounts,
    RunExemplar,
    identity_of,
)

_JOB_TYPES_BOUND = 100  # the workspace's own words; a dozen are known
_WAITING_BOUND = 1_000
_RUN_ID_BOUND = 100  # characters; an exemplar may have 128 in all

# What the workspace, and so a callback, can name as the end of a run.
_NAMED_ENDS = (Status.SUCCEEDED, Status.FAILED, Status.CANCELED)
_RESULTS = {kind: status for status, kind in STATUS_EVENTS.items() if status.is_terminal}

Word = TypeVar("Word", Trigger, Status)


class CountingLimits(Struct, frozen=True, kw_only=True):
    """How many pipelines have series of their own, and when an idle one gives up its place."""

    places: int
    forget_seconds: float


class PendingCounts:
    """What events add to a table of rows, which itself stays as it is.

    ``changed`` holds the new rows by key, None for a row to be deleted; ``seen`` the exemplars by
    row key and series.
    """

    def __init__(self, rows: Mapping[str, CounterRow], *, limits: CountingLimits) -> None:
        self.changed: dict[str, CounterRow | None] = {}
        self.seen: dict[str, dict[str, RunExemplar]] = {}
        self._rows = rows
        self._limits = limits
        self._owners: dict[str, datetime] | None = None  # rows with a place -> last event
        self._idlest: str | None = None  # of the owners, as far as known

    def take(self, event: Event) -> None:
        """Count one event. Each event of the log is taken once; the order is the log's."""
        if not isinstance(event, RunEvent):
            return
        if event.type is EventType.RUN_STARTED:
            self._start(event)
        elif event.type is EventType.RUN_DETAILED:
            self._detail(event)
        elif event.type is EventType.RUN_CONFIRMED:
            self._count_awaited(event)
        elif event.type is EventType.RUN_CORRECTED:
            self._correct(event)
        elif event.type in _RESULTS:
            self._end(event, _RESULTS[event.type])

    def shrink(self) -> None:
        """Merge the rows that have no place; those idle longest go first."""
        owners = self._find_owners()
        surplus = len(owners) - self._limits.places
        for key in sorted(owners, key=lambda owner: owners[owner])[: max(0, surplus)]:
            row = self._get(key)
            if isinstance(row, RunCounts):
                other = Identity(row.identity.workspace, row.identity.kind, OTHER)
                self._put(_added(self._counts(other, row.touched_at), row))
                self._drop(key)

    def _start(self, event: RunEvent) -> None:
        row = self._counts_of(event)
        self._put(msgspec.structs.replace(row, started=_plus(row.started, event.run.trigger)))
        self._remember_exemplar(row.key, f"started:{event.run.trigger}", event, 1.0)

    def _end(self, event: RunEvent, result: Status) -> None:
        row = self._counts_of(event)
        self._put(msgspec.structs.replace(row, ended=_plus(row.ended, result)))
        self._remember_exemplar(row.key, f"ended:{result}", event, 1.0)
        is_job_group = event.run.key.kind is RunKind.JOB_GROUP
        if event.observed_by is Source.PARTS:
            self._open_corrections(event, result)
        if event.run.unconfirmed_end is not None:
            self._open_corrections(event, result)
            self._await_duration(event.run.key)
            return
        if event.before is not None and event.before.is_terminal:
            self._count_awaited(event)  # the true end of a run whose claimed end was counted
            return
        if event.run.duration_seconds is not None:
            self._add_duration(event, event.run.duration_seconds)
        elif is_job_group and not event.run.detailed:
            self._await_duration(event.run.key)
        if not is_job_group:
            self._add_wait(event)

    def _open_corrections(self, event: RunEvent, claim: Status) -> None:
        row = self._counts_of(event)
        fresh = {true: 0 for true in _NAMED_ENDS if true is not claim}
        counted = {**fresh, **row.corrected.get(claim, {})}
        self._put(msgspec.structs.replace(row, corrected={**row.corrected, claim: counted}))

    def _correct(self, event: RunEvent) -> None:
        claim, true = event.before, event.run.status
        if claim is None:
            return
        row = self._counts_of(event)
        counted = _plus(row.corrected.get(claim, {}), true)
        self._put(msgspec.structs.replace(row, corrected={**row.corrected, claim: counted}))

    def _await_duration(self, key: RunKey) -> None:
        self._put(AwaitedDurations(runs=(*self._waiting(), key)[-_WAITING_BOUND:]))

    def _count_awaited(self, event: RunEvent) -> None:
        """Count the duration of a run that was waiting for it, once the workspace has ended it."""
        run, waiting = event.run, self._waiting()
        if run.unconfirmed_end is not None or run.key not in waiting:
            return
        is_job_group = run.key.kind is RunKind.JOB_GROUP
        if run.duration_seconds is None and is_job_group and not run.detailed:
            return  # its records are still to be read
        self._put(AwaitedDurations(runs=tuple(key for key in waiting if key != run.key)))
        if run.duration_seconds is not None:
            self._add_duration(event, run.duration_seconds)
        if not is_job_group:
            self._add_wait(event)

    def _detail(self, event: RunEvent) -> None:
        self._count_awaited(event)
        if event.run.was_detailed:
            return
        if event.run.key.kind is RunKind.JOB_GROUP:
            # Only its job records show when a job group really started.
            self._add_wait(event)
        for count in event.run.jobs.counts if event.run.jobs is not None else ():
            result = _result_of(count.status)
            if result is not None and count.count > 0:
                row = self._jobs_of(event.workspace, count.job_type)
                ended = _plus(row.ended, result, count.count)
                self._put(msgspec.structs.replace(row, ended=ended))
                self._remember_exemplar(row.key, f"ended:{result}", event, 1.0)

    def _add_duration(self, event: RunEvent, seconds: float) -> None:
        row = self._counts_of(event)
        place = bisect_left(DURATION_BOUNDS, seconds)
        self._put(msgspec.structs.replace(row, durations=row.durations.plus(place, seconds)))
        self._remember_exemplar(row.key, f"duration:{place}", event, seconds)

    def _add_wait(self, event: RunEvent) -> None:
        run = event.run
        if run.created_at is None or run.started_at is None or "started_at" in run.approximate:
            return
        seconds = max(0.0, (run.started_at - run.created_at).total_seconds())
        fresh = QueueCounts(workspace=run.key.workspace, kind=run.key.kind)
        stored = self._get(fresh.key)
        row = stored if isinstance(stored, QueueCounts) else fresh
        place = bisect_left(QUEUE_BOUNDS, seconds)
        self._put(msgspec.structs.replace(row, waits=row.waits.plus(place, seconds)))
        self._remember_exemplar(row.key, f"queue:{place}", event, seconds)

    def _counts_of(self, event: RunEvent) -> RunCounts:
        identity = identity_of(event.run)
        is_new = self._get(identity.key) is None
        if is_new and identity.pipeline != UNKNOWN and not self._has_place(event.recorded_at):
            identity = Identity(identity.workspace, identity.kind, OTHER)
        pipeline = event.run.pipeline if identity.pipeline != OTHER else None
        return self._counts(identity, event.recorded_at, pipeline)

    def _counts(
        self, identity: Identity, at: datetime, pipeline: Pipeline | None = None
    ) -> RunCounts:
        stored = self._get(identity.key)
        row = (
            stored if isinstance(stored, RunCounts) else RunCounts(identity=identity, touched_at=at)
        )
        name = (pipeline.name if pipeline is not None else None) or row.name
        return msgspec.structs.replace(row, name=name, touched_at=max(at, row.touched_at))

    def _has_place(self, now: datetime) -> bool:
        """True if one more pipeline may have a row, which may cost a forgotten one its place."""
        owners = self._find_owners()
        if len(owners) < self._limits.places:
            return True
        if self._idlest is None:
            self._idlest = min(owners, key=lambda owner: owners[owner], default=None)
        idlest = self._idlest
        forgotten_before = now - timedelta(seconds=self._limits.forget_seconds)
        if idlest is None or owners[idlest] >= forgotten_before:
            return False
        self._drop(idlest)
        return True

    def _find_owners(self) -> dict[str, datetime]:
        if self._owners is None:
            rows = {**self._rows, **self.changed}
            self._owners = {
                key: row.touched_at
                for key, row in rows.items()
                if isinstance(row, RunCounts) and row.needs_place
            }
        return self._owners

    def _jobs_of(self, workspace: str, job_type: str) -> JobCounts:
        fresh = JobCounts(workspace=workspace, job_type=job_type)
        stored = self._get(fresh.key)
        if isinstance(stored, JobCounts):
            return stored
        rows = {**self._rows, **self.changed}.values()
        if sum(isinstance(row, JobCounts) for row in rows) < _JOB_TYPES_BOUND:
            return fresh
        other = JobCounts(workspace=workspace, job_type=OTHER_JOB_TYPE)
        stored = self._get(other.key)
        return stored if isinstance(stored, JobCounts) else other

    def _waiting(self) -> tuple[RunKey, ...]:
        stored = self._get(AwaitedDurations().key)
        return stored.runs if isinstance(stored, AwaitedDurations) else ()

    def _get(self, key: str) -> CounterRow | None:
        return self.changed[key] if key in self.changed else self._rows.get(key)

    def _put(self, row: CounterRow) -> None:
        self.changed[row.key] = row
        if self._owners is not None and isinstance(row, RunCounts) and row.needs_place:
            self._owners[row.key] = row.touched_at
            if row.key == self._idlest:
                self._idlest = None

    def _drop(self, key: str) -> None:
        self.changed[key] = None
        self.seen.pop(key, None)
        if self._owners is not None:
            self._owners.pop(key, None)
            self._idlest = None

    def _remember_exemplar(self, key: str, series: str, event: RunEvent, value: float) -> None:
        run_id = event.run.key.id
        if len(run_id) <= _RUN_ID_BOUND:
            at = (event.occurred_at or event.recorded_at).timestamp()
            self.seen.setdefault(key, {})[series] = RunExemplar(run_id, value, at)


def _plus(counts: dict[Word, int], what: Word, count: int = 1) -> dict[Word, int]:
    return {**counts, what: counts.get(what, 0) + count}


def _added(first: RunCounts, other: RunCounts) -> RunCounts:
    return msgspec.structs.replace(
        first,
        started={t: first.started.get(t, 0) + other.started.get(t, 0) for t in Trigger},
        ended={s: first.ended.get(s, 0) + other.ended.get(s, 0) for s in _RESULTS.values()},
        corrected={
            claim: _summed(first.corrected.get(claim, {}), other.corrected.get(claim, {}))
            for claim in {**first.corrected, **other.corrected}
        },
        durations=msgspec.structs.replace(
            first.durations,
            counts=tuple(
                map(sum, zip(first.durations.counts, other.durations.counts, strict=True))
            ),
            sum=first.durations.sum + other.durations.sum,
        ),
    )


def _summed(first: dict[Status, int], other: dict[Status, int]) -> dict[Status, int]:
    return {true: first.get(true, 0) + other.get(true, 0) for true in {**first, **other}}


def _result_of(word: str) -> Status | None:
    """Return how a job ended, from our word or the workspace's; None while it has not."""
    status = Status(word) if word in list(Status) else status_of(word)
    return status if status is not None and status.is_terminal else None

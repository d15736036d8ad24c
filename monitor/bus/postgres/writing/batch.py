"""Writes of many callers as the rows of one statement, and what they change in memory.

The positions of events are counted here: only this process has the fence, so what it knows as the
newest position is what the shard's row has, or the fence returns nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from monitor.bus.contract import Received, Recorded, Start, Step, StoredCallback
from monitor.bus.postgres import codec
from monitor.bus.postgres.writing import statements
from monitor.bus.postgres.writing.leased_shard import ConsumerProgress, LeasedShard
from monitor.bus.postgres.writing.rows import CallbackRow, RunRow, ShardRows
from monitor.bus.postgres.writing.statements import Part
from monitor.bus.write_queue import WriteGroup, WriteJob
from monitor.model.errors import BusUnavailableError

StoredId = tuple[int, str]  # shard, event
Identity = tuple[str, str]  # workspace, fingerprint


class Given(Struct, frozen=True, gc=False):
    """What a job of `store_rows` is given."""

    shard: LeasedShard
    rows: ShardRows


class WriteBatch:
    """The writes of some jobs, as if one after the other.

    ``stored_ids`` are events that are known to be in the log; ``refused`` are arrivals for which
    there is no room, or that are duplicates.
    """

    def __init__(
        self,
        jobs: WriteGroup,
        *,
        daemon_id: str,
        stored_ids: Collection[StoredId] = (),
        refused: Mapping[Identity, Received] | None = None,
    ) -> None:
        self._daemon_id = daemon_id
        self._stored_ids = stored_ids
        self._refused = refused or {}
        self.shards: dict[int, LeasedShard] = {}
        self.jobs: WriteGroup = []
        self._events: dict[int, list[Recorded]] = {}
        self._processed: dict[int, list[int]] = {}
        self._event_rows: dict[StoredId, tuple[object, ...]] = {}
        self._runs: dict[tuple[str, str, str], RunRow] = {}
        self._entries: dict[tuple[str, str, str], tuple[int, bytes | None]] = {}
        self._processed_rows: list[tuple[int, int, int]] = []
        self._callbacks: dict[Identity, CallbackRow] = {}
        self._consumers: dict[tuple[int, str], ConsumerProgress] = {}
        self._positions: dict[tuple[int, str], int | None] = {}
        self._state: dict[tuple[int, str, str], bytes | None] = {}
        self._letters: dict[tuple[int, str, int], bytes | None] = {}
        for job in jobs:
            self._add(job)

    def _add(self, job: WriteJob[Any]) -> None:
        shard, rows = job.given.shard, job.given.rows
        step = rows.step
        if step is not None and step.consumer not in shard.consumers:
            job.error = BusUnavailableError(f"the consumer {step.consumer} has not subscribed")
            return
        self.jobs.append(job)
        number = shard.number
        self.shards[number] = shard
        self._add_events(shard, rows)
        for run in rows.runs:
            self._runs[run[1:4]] = run
        for entry in rows.state_entries:
            self._entries[entry.workspace, entry.topic, entry.key] = (number, entry.value)
        if rows.processed:
            self._processed.setdefault(number, []).extend(rows.processed)
            self._processed_rows += [(number, id_, rows.processed_at) for id_ in rows.processed]
        for callback in rows.callbacks:
            if callback.identity not in self._refused:
                self._callbacks.setdefault(callback.identity, callback)
        if step is not None:
            self._add_step(number, step, rows.dead_letters)
        if rows.subscription is not None:
            self._subscribe(shard, *rows.subscription)

    def _subscribe(self, shard: LeasedShard, consumer: str, start: Start) -> None:
        known = shard.consumers.get(consumer)
        if known is not None:
            new = msgspec.structs.replace(known, is_named=True)
        else:
            before_oldest = shard.oldest_position - 1
            new = ConsumerProgress(
                position=before_oldest if start is Start.OLDEST else shard.tail.newest,
                counted_until=before_oldest,
                dead_letters=0,
            )
        self._consumers.setdefault((shard.number, consumer), new)

    def _add_events(self, shard: LeasedShard, rows: ShardRows) -> None:
        if not rows.events:
            return
        new = self._events.setdefault(shard.number, [])
        for row in rows.events:
            identity = (shard.number, row.id)
            if identity in self._event_rows or identity in self._stored_ids:
                continue
            position = shard.tail.newest + len(new) + 1
            values = (shard.number, position, row.recorded_at, row.id, row.body, shard.log_epoch)
            self._event_rows[identity] = values
            new.append(Recorded(position, row.event, shard.log_epoch))

    def _add_step(self, number: int, step: Step, letters: Sequence[tuple[int, bytes]]) -> None:
        if step.position is not None:
            known = self._positions.get((number, step.consumer)) or 0
            self._positions[number, step.consumer] = max(known, step.position)
        for key, value in step.state.items():
            self._state[number, step.consumer, key] = value
        for position in step.removed_letters:
            self._letters[number, step.consumer, position] = None
        for position, body in letters:
            self._letters[number, step.consumer, position] = body

    def statement(self) -> tuple[str, list[Any]]:
        """Return the statement of all that is to be written, and its values."""
        used: list[Part] = []
        values: list[Any] = self.fence_values()
        for part, rows in self._parts():
            if rows:
                used.append(part)
                values += statements.columns_of(rows)
        return statements.fenced(tuple(used)), values

    def fence_values(self) -> list[Any]:
        shards = self.shards.values()
        return [
            [shard.number for shard in shards],
            [shard.lease.epoch for shard in shards],
            [shard.last_transaction for shard in shards],
            [shard.tail.newest + len(self._events.get(shard.number, ())) for shard in shards],
            next((shard.lease.holder for shard in shards), ""),
        ]

    def _parts(self) -> Iterator[tuple[Part, Sequence[Sequence[object]]]]:
        yield statements.EVENTS, tuple(self._event_rows.values())
        yield statements.RUNS, tuple(self._runs.values())
        yield from self._entry_parts()
        yield statements.PROCESSED, self._processed_rows
        arrived = [callback_values(row, self._daemon_id) for row in self._callbacks.values()]
        yield statements.ARRIVED, arrived
        yield from self._step_parts()

    def _entry_parts(self) -> Iterator[tuple[Part, Sequence[Sequence[object]]]]:
        stored, deleted = [], []
        for identity, (number, value) in self._entries.items():
            row = (number, *map(codec.text, identity))
            if value is None:
                deleted.append(row)
            else:
                stored.append((*row, value))
        yield statements.ENTRIES, stored
        yield statements.DELETED_ENTRIES, deleted

    def _step_parts(self) -> Iterator[tuple[Part, Sequence[Sequence[object]]]]:
        yield (
            statements.CONSUMERS,
            [
                (number, codec.text(name), progress.position, progress.counted_until)
                for (number, name), progress in self._consumers.items()
            ],
        )
        yield (
            statements.POSITIONS,
            [(number, codec.text(name), at) for (number, name), at in self._positions.items()],
        )
        stored, deleted = [], []
        for (number, name, key), value in self._state.items():
            row = (number, codec.text(name), codec.text(key))
            if value is None:
                deleted.append(row)
            else:
                stored.append((*row, value))
        yield statements.STATE, stored
        yield statements.DELETED_STATE, deleted
        yield from self._letter_parts()

    def _letter_parts(self) -> Iterator[tuple[Part, Sequence[Sequence[object]]]]:
        stored, removed = [], []
        for (number, name, position), body in self._letters.items():
            row = (number, codec.text(name), position)
            if body is None:
                removed.append(row)
            else:
                stored.append((*row, body))
        yield statements.DEAD_LETTERS, stored
        yield statements.REMOVED_LETTERS, removed

    @property
    def callbacks(self) -> list[CallbackRow]:
        return list(self._callbacks.values())

    @property
    def event_ids(self) -> list[StoredId]:
        return list(self._event_rows)

    def conclude(self, held: Collection[int], stored: Mapping[Identity, int]) -> None:
        """Bring memory up to date, and give each job of a held shard its result.

        ``stored`` has the ids of the callbacks that the statement has stored.
        """
        for number, shard in self.shards.items():
            if number not in held:
                continue
            shard.last_transaction += 1
            if events := self._events.get(number):
                shard.tail.append(events)
            shard.arrivals.forget(self._processed.get(number, ()))
        for identity, (number, value) in self._entries.items():
            if number in held:
                self.shards[number].first_entries.learn(*identity, value)
        self._conclude_callbacks(held, stored)
        self._conclude_steps(held)
        answered: set[Identity] = set()
        for job in self.jobs:
            if job.given.shard.number in held:
                job.result = tuple(
                    self._answer(row, stored, answered) for row in job.given.rows.callbacks
                )

    def _conclude_callbacks(self, held: Collection[int], stored: Mapping[Identity, int]) -> None:
        for identity, row in self._callbacks.items():
            if row.processed_at is None and identity in stored and row.shard in held:
                waiting = numbered(row, stored[identity])
                self.shards[row.shard].arrivals.add([waiting])

    def _conclude_steps(self, held: Collection[int]) -> None:
        for (number, name), new in self._consumers.items():
            if number in held:
                self.shards[number].consumers[name] = new
        for (number, name), position in self._positions.items():
            progress = self.shards[number].consumers[name]
            if number in held and position is not None:
                progress.position = max(progress.position, position)
        for (number, name, _), body in self._letters.items():
            if number in held:
                # Some may have been there before, or have been removed before.
                self.shards[number].consumers[name].letters_changed(1 if body is not None else 0)

    def _answer(
        self, row: CallbackRow, stored: Mapping[Identity, int], answered: set[Identity]
    ) -> Received:
        if (refusal := self._refused.get(row.identity)) is not None:
            return refusal
        if row.identity not in stored or row.identity in answered:
            return Received.DUPLICATE
        answered.add(row.identity)
        return Received.STORED


def callback_values(row: CallbackRow, daemon_id: str) -> tuple[object, ...]:
    return (
        row.shard,
        row.workspace,
        row.fingerprint,
        row.received_at,
        row.processed_at,
        row.body,
        daemon_id,
    )


def numbered(row: CallbackRow, id_: int) -> StoredCallback:
    """Return the callback as the store has it, with its id."""
    return msgspec.structs.replace(row.callback, id=id_)

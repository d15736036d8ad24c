"""Changes on their way into the store, many at once."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import chain, islice
from typing import NamedTuple

from monitor.bus.contract import Change, Received, StateEntry
from monitor.bus.sqlite import inbox, log, runs, state_entries
from monitor.bus.sqlite.connection import StoreConnection


class PreparedChange(NamedTuple):
    """A change as rows: encoding it is the caller's work and not the transaction's."""

    runs: list[runs.RunRow]
    events: list[log.EventRow]
    state_entries: tuple[StateEntry, ...]
    processed: tuple[int, ...]
    arrived: list[inbox.InboxRow]
    at: datetime


def prepare_change(change: Change, *, now: datetime) -> PreparedChange:
    return PreparedChange(
        runs.rows(change.runs),
        log.rows(change.events),
        change.state_entries,
        change.processed,
        [inbox.inbox_row(callback) for callback in change.arrived],
        now,
    )


def store(db: StoreConnection, changes: Sequence[PreparedChange]) -> list[tuple[Received, ...]]:
    """Store the changes as if one after the other."""
    runs.store(db, chain.from_iterable(change.runs for change in changes))
    log.append(db, chain.from_iterable(change.events for change in changes))
    state_entries.store(db, chain.from_iterable(change.state_entries for change in changes))
    processed = list(chain.from_iterable(change.processed for change in changes))
    now = max(change.at for change in changes)
    inbox.mark_processed(db, processed, now=now)
    arrived = list(chain.from_iterable(change.arrived for change in changes))
    answers = iter(inbox.store_processed(db, arrived, now=now))
    return [tuple(islice(answers, len(change.arrived))) for change in changes]

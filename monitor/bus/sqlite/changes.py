"""Changes on their way into the store, many at once."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import chain
from typing import NamedTuple

from monitor.bus.contract import Change, StateEntry
from monitor.bus.sqlite import inbox, log, runs, state_entries
from monitor.bus.sqlite.connection import StoreConnection


class Prepared(NamedTuple):
    """A change as rows: encoding it is the caller's work and not the transaction's."""

    runs: list[runs.RunRow]
    events: list[log.EventRow]
    state_entries: tuple[StateEntry, ...]
    settled: tuple[int, ...]
    at: datetime


def prepared(change: Change, *, now: datetime) -> Prepared:
    return Prepared(
        runs.rows(change.runs), log.rows(change.events), change.state_entries, change.settled, now
    )


def store(db: StoreConnection, changes: Sequence[Prepared]) -> list[None]:
    """Store the changes as if one after the other."""
    runs.store(db, chain.from_iterable(change.runs for change in changes))
    log.append(db, chain.from_iterable(change.events for change in changes))
    state_entries.store(db, chain.from_iterable(change.state_entries for change in changes))
    settled = list(chain.from_iterable(change.settled for change in changes))
    inbox.settle(db, settled, now=max(change.at for change in changes))
    return [None] * len(changes)

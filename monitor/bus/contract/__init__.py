"""The contract of every store. `tests/bus` holds each backend to these words.

After a crash there is never state without its events. Events without state are allowed: the same
observation taken again makes the same ids, and an id that the log holds already is not added again.
"""

from monitor.bus.contract.data_types import (
    BEFORE_FIRST,
    WAITING_CONSUMERS,
    Arrivals,
    Batch,
    Change,
    ConsumerStatus,
    DeadLetter,
    Gap,
    LostEnd,
    Pruned,
    Received,
    Recorded,
    Retention,
    Start,
    StateEntry,
    Step,
    StoredCallback,
    StoreStatus,
    WriteFailures,
    decode_entries,
    decode_entry,
)
from monitor.bus.contract.event_bus import EventBus, StoredRuns, StoredShard
from monitor.bus.contract.store_entries import StoreEntries
from monitor.bus.contract.stored_log import RecordedIn, StoredLog

__all__ = [
    "BEFORE_FIRST",
    "WAITING_CONSUMERS",
    "Arrivals",
    "Batch",
    "Change",
    "ConsumerStatus",
    "DeadLetter",
    "EventBus",
    "Gap",
    "LostEnd",
    "Pruned",
    "Received",
    "Recorded",
    "RecordedIn",
    "Retention",
    "Start",
    "StateEntry",
    "Step",
    "StoreEntries",
    "StoreStatus",
    "StoredCallback",
    "StoredLog",
    "StoredRuns",
    "StoredShard",
    "WriteFailures",
    "decode_entries",
    "decode_entry",
]

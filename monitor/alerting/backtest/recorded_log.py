"""The recorded events of a daemon, and how far everything was known when each was recorded."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable, Iterator
from datetime import UTC, datetime
from typing import BinaryIO

import msgspec
from msgspec import Struct

from monitor.bus.contract import Recorded
from monitor.model.events import STATUS_EVENTS, RunEvent
from monitor.model.runs import RunKey, RunKind

_SLICE = 500
# An event noticed later than this is a straggler; it says nothing of an outage.
_OUTAGE_SECONDS = 6 * 3_600.0
_TRANSITIONS = frozenset(STATUS_EVENTS.values())
_DECODER = msgspec.json.Decoder(Recorded)
_ENCODER = msgspec.json.Encoder()


class LogSlice(Struct, frozen=True, kw_only=True):
    """Consecutive events. What happened before ``known_until`` was known when each was recorded."""

    share: float  # of the log that is before it
    events: list[Recorded]
    known_until: list[datetime]


class RecordedLog:
    """Events in a file, one a line. In memory are only their times: 16 MB for a million."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._recorded = array("d")
        self._occurred = array("d")
        self.plan_runs: dict[RunKey, None] = {}

    def __len__(self) -> int:
        return len(self._recorded)

    def append(self, events: Iterable[Recorded]) -> None:
        """Add the next events in the order of the log."""
        for recorded in events:
            event = recorded.event
            # Events of alerts and workspaces are never noticed late, and what is added to an end
            # says nothing of when that was noticed.
            is_transition = isinstance(event, RunEvent) and event.type in _TRANSITIONS
            occurred_at = event.occurred_at if is_transition else None
            if isinstance(event, RunEvent) and event.run.key.kind is RunKind.PLAN_RUN:
                self.plan_runs[event.run.key] = None
            self._file.write(_ENCODER.encode(recorded) + b"\n")
            self._recorded.append(event.recorded_at.timestamp())
            self._occurred.append((occurred_at or event.recorded_at).timestamp())

    def slices(self) -> Iterator[LogSlice]:
        """Yield the log from its beginning."""
        known = self._known_until()
        self._file.seek(0)
        for first in range(0, len(self), _SLICE):
            stamps = known[first : first + _SLICE]
            yield LogSlice(
                share=first / len(self),
                events=[_DECODER.decode(self._file.readline()) for _ in stamps],
                known_until=[datetime.fromtimestamp(stamp, UTC) for stamp in stamps],
            )

    def run_events(self, ids: Collection[str]) -> dict[str, RunEvent]:
        """Return those of the events that it holds, by id; reads all of it where there are any."""
        found: dict[str, RunEvent] = {}
        self._file.seek(0)
        for line in self._file if ids else ():
            event = _DECODER.decode(line).event
            if isinstance(event, RunEvent) and event.id in ids:
                found[event.id] = event
        return found

    def _known_until(self) -> array[float]:
        """Return for each event until when everything was known when it was recorded.

        What had happened before and was noticed later, as in an outage, was not known then.
        """
        known = array("d", self._recorded)
        earliest = float("inf")
        for index in range(len(known) - 1, -1, -1):
            if self._recorded[index] - self._occurred[index] <= _OUTAGE_SECONDS:
                earliest = min(earliest, self._occurred[index])
            known[index] = min(known[index], earliest)
        return known

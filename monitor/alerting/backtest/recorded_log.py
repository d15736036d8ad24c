"""The recorded events of a daemon, in a file, and until when everything was known at their times.

What happened in an outage is noticed after it, and so is the row of a list that comes late. Only in
an outage was nothing judged, because nothing else was noticed in time either.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from datetime import UTC, datetime
from typing import BinaryIO

import msgspec
from msgspec import Struct

from monitor.bus.contract import Recorded
from monitor.model.events import STATUS_EVENTS, RunEvent
from monitor.model.runs import RunKey, RunKind, Source

# What polls notice so soon shows that the workspace was read completely.
_IN_TIME_SECONDS = 60.0
# An event noticed later than this says nothing of an outage.
_OUTAGE_SECONDS = 6 * 3_600.0
_TRANSITIONS = frozenset(STATUS_EVENTS.values())
_SLICE = 500
_DECODER = msgspec.json.Decoder(Recorded)
_ENCODER = msgspec.json.Encoder()


class KnownUntil:
    """Follows the transitions of runs in the order of a log: 16 bytes for each."""

    def __init__(self) -> None:
        self._recorded: defaultdict[str, array[float]] = defaultdict(lambda: array("d"))
        self._occurred: defaultdict[str, array[float]] = defaultdict(lambda: array("d"))
        self._in_time: dict[str, float] = {}  # when the last one was recorded that was in time
        self._earliest: dict[str, array[float]] = {}  # of an event and those after it

    def add(self, event: RunEvent) -> None:
        """Add the next event; what is added to an end says nothing of when that was noticed."""
        if event.type not in _TRANSITIONS or event.occurred_at is None:
            return
        workspace = event.workspace
        recorded, occurred = event.recorded_at.timestamp(), event.occurred_at.timestamp()
        late_seconds = recorded - occurred
        if late_seconds > _OUTAGE_SECONDS:
            return
        if late_seconds > _IN_TIME_SECONDS:
            occurred = max(occurred, self._in_time.get(workspace, occurred))
        elif event.observed_by is not Source.CALLBACK:
            self._in_time[workspace] = recorded
        self._recorded[workspace].append(recorded)
        self._occurred[workspace].append(occurred)
        self._earliest.pop(workspace, None)

    def at(self, workspace: str, now: datetime) -> datetime:
        """Return until when everything was known of a workspace ``now``."""
        recorded = self._recorded.get(workspace)
        if recorded is None:
            return now
        stamp = now.timestamp()
        index = bisect_left(recorded, stamp)
        if index == len(recorded):
            return now
        earliest = self._earliest_from(workspace)[index]
        return now if earliest >= stamp else datetime.fromtimestamp(earliest, UTC)

    def _earliest_from(self, workspace: str) -> array[float]:
        if workspace not in self._earliest:
            earliest = array("d", self._occurred[workspace])
            for index in range(len(earliest) - 2, -1, -1):
                earliest[index] = min(earliest[index], earliest[index + 1])
            self._earliest[workspace] = earliest
        return self._earliest[workspace]


class LogSlice(Struct, frozen=True, kw_only=True):
    """Consecutive events."""

    share: float  # of the log that is before it
    events: list[Recorded]


class RecordedLog:
    """Events in a file, one a line. In memory is only until when what was known."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._count = 0
        self.known_until = KnownUntil()
        self.plan_runs: dict[RunKey, None] = {}

    def __len__(self) -> int:
        return self._count

    def append(self, events: Iterable[Recorded]) -> None:
        """Add the next events in the order of the log."""
        for recorded in events:
            event = recorded.event
            if isinstance(event, RunEvent):
                self.known_until.add(event)
                if event.run.key.kind is RunKind.PLAN_RUN:
                    self.plan_runs[event.run.key] = None
            self._file.write(_ENCODER.encode(recorded) + b"\n")
            self._count += 1

    def slices(self) -> Iterator[LogSlice]:
        """Yield the log from its beginning."""
        self._file.seek(0)
        for first in range(0, len(self), _SLICE):
            count = min(_SLICE, len(self) - first)
            yield LogSlice(
                share=first / len(self),
                events=[_DECODER.decode(self._file.readline()) for _ in range(count)],
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

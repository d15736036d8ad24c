"""The recorded events of a daemon, in a file."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import BinaryIO

import msgspec
from msgspec import Struct

from monitor.alerting.backtest.known_until import KnownUntil
from monitor.bus.contract import Recorded
from monitor.model.events import RunEvent
from monitor.model.runs import RunKey, RunKind

_SLICE = 500
_DECODER = msgspec.json.Decoder(Recorded)
_ENCODER = msgspec.json.Encoder()


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

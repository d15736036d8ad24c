"""Adds successes to the stored baseline of a pipeline.

Nearly all of a row are sketches, which change once for twenty values. Until then they are taken
over as they stand, neither decoded nor encoded.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Raw, Struct

from monitor.alerting.engine.context import read_learned
from monitor.alerting.rules.baselines import VALUES_AT_ONCE, Baseline, Learned, learn
from monitor.model.events import RunEvent


class _StoredBaseline(Struct, frozen=True):
    newer: Raw | None = None
    older: Raw | None = None
    recent: tuple[float, ...] = ()

    def as_it_stands(self) -> Baseline:
        sketches: dict[str, Any] = {"newer": self.newer, "older": self.older}
        return Baseline(**sketches, recent=self.recent)


class _StoredRow(Struct, frozen=True):
    durations: _StoredBaseline | None = None
    gaps: _StoredBaseline | None = None
    succeeded_at: dict[str, datetime] = {}
    newest_at: datetime | None = None
    past: Raw | None = None


_ROW = msgspec.json.Decoder(_StoredRow)


def with_learned(stored: bytes | None, events: Sequence[RunEvent]) -> bytes | None:
    """Return the row with what the events teach; the same object where they teach nothing."""
    learned = known = _read(stored, len(events))
    for event in events:
        learned = learn(learned, event)
    if learned is None or learned is known:
        return stored
    return msgspec.json.encode(learned)


def _read(stored: bytes | None, values: int) -> Learned | None:
    """Return what is learned; where that many values leave its sketches alone, these encoded."""
    if stored is None:
        return None
    try:
        row = _ROW.decode(stored)
    except (msgspec.MsgspecError, ValueError):
        return read_learned(stored)  # it says why
    baselines = [baseline for baseline in (row.durations, row.gaps) if baseline is not None]
    if any(len(baseline.recent) + values >= VALUES_AT_ONCE for baseline in baselines):
        return read_learned(stored)
    # Read only where a first sketch takes it up, which these values do not make.
    past: Any = row.past
    return Learned(
        durations=None if row.durations is None else row.durations.as_it_stands(),
        gaps=None if row.gaps is None else row.gaps.as_it_stands(),
        succeeded_at=row.succeeded_at,
        newest_at=row.newest_at,
        past=past,
    )

"""Interning: equal values of many active runs are kept once; they are half of a run's weight.

Each row of the API, and each stored run, brings its own copies of the same few names.
"""

from __future__ import annotations

from datetime import datetime
from typing import TypeVar

import msgspec

from monitor.model.runs import RunKey, RunState

T = TypeVar("T")

# Values that are kept; past that all are forgotten, and interned again.
_KEPT = 50_000


class InternedValues:
    """Finds the one copy of pipelines, recipes and texts that many runs have."""

    def __init__(self) -> None:
        self._values: dict[object, object] = {}

    def of(self, run: RunState) -> RunState:
        """Return the run, equal, with interned values."""
        if len(self._values) > _KEPT:
            self._values.clear()
        key = run.key
        return msgspec.structs.replace(
            run,
            key=RunKey(self._interned(key.workspace), key.kind, key.id),
            native_status=self._interned(run.native_status),
            pipeline=self._interned(run.pipeline),
            recipe=self._interned(run.recipe),
            ran_for=self._interned(run.ran_for),
            owner=self._interned(run.owner),
            started_at=_same(run.started_at, run.created_at),
            updated_at=_same(run.updated_at, run.created_at),
        )

    def _interned(self, value: T) -> T:
        return self._values.setdefault(value, value)  # type: ignore[return-value]  # equal, so of its type


def _same(at: datetime | None, other: datetime | None) -> datetime | None:
    return other if at == other else at

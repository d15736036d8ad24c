"""Equal values of many active runs are kept once: they are half of what a run weighs.

Each row of the API, and each stored run, brings its own copies of the same few names.
"""

from __future__ import annotations

from datetime import datetime
from typing import TypeVar

import msgspec

from monitor.model.runs import RunKey, RunState

T = TypeVar("T")

# Values that are kept; past that all are forgotten, and shared anew by whoever comes next.
_KEPT = 50_000


class SharedValues:
    """Finds the one copy of pipelines, recipes and texts that many runs have."""

    def __init__(self) -> None:
        self._values: dict[object, object] = {}

    def of(self, run: RunState) -> RunState:
        """Return the run, equal, with shared values."""
        if len(self._values) > _KEPT:
            self._values.clear()
        key = run.key
        return msgspec.structs.replace(
            run,
            key=RunKey(self._shared(key.workspace), key.kind, key.id),
            native_status=self._shared(run.native_status),
            pipeline=self._shared(run.pipeline),
            recipe=self._shared(run.recipe),
            ran_for=self._shared(run.ran_for),
            owner=self._shared(run.owner),
            started_at=_same(run.started_at, run.created_at),
            updated_at=_same(run.updated_at, run.created_at),
        )

    def _shared(self, value: T) -> T:
        return self._values.setdefault(value, value)  # type: ignore[return-value]  # equal, so of its type


def _same(at: datetime | None, other: datetime | None) -> datetime | None:
    return other if at == other else at

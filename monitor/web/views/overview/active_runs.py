"""Which active runs are part of no other, and how many each pipeline has.

A busy workspace has thousands of them, and each callback ends one: what is followed is what has
changed, and what that is a part of.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left, insort
from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from monitor.model.live_state import ActiveRun
from monitor.model.runs import RunKey, RunKind
from monitor.model.slices import in_slices
from monitor.web.views.overview.changed_values import changed_values
from monitor.web.views.overview.pipeline_rows import PipelineKey

_RUNS_AT_ONCE = 50


class ActiveRootRun(NamedTuple):
    """An active run that is part of no other; ordered by its beginning."""

    begun_at: datetime
    key: RunKey
    active: ActiveRun


class _Place(NamedTuple):
    """What an active run adds."""

    active: ActiveRun | None = None
    is_root: bool = False
    pipeline: PipelineKey | None = None  # of which it is counted
    flow: PipelineKey | None = None  # of which it is a flow run


_NOWHERE = _Place()


class ActiveRuns:
    """What runs now, as `follow` was told last."""

    def __init__(self) -> None:
        self.roots: list[ActiveRootRun] = []  # oldest first
        self.of_pipeline: Counter[PipelineKey] = Counter()  # without parts of flow runs
        self.flow_runs: Counter[PipelineKey] = Counter()
        self._confirmations: list[datetime] = []  # of ``roots``, sorted
        self._seen: Sequence[ActiveRun] = ()
        self._is_whole = True  # ``_seen`` is what is known
        self._runs: dict[RunKey, ActiveRun] = {}
        self._parts: defaultdict[RunKey, set[RunKey]] = defaultdict(set)  # also of ended runs
        self._places: dict[RunKey, _Place] = {}
        self._moved: set[RunKey] = set()

    def confirmed_before(self, instant: datetime) -> int:
        """Return how many of ``roots`` nobody has seen since."""
        return bisect_left(self._confirmations, instant)

    async def follow(self, active_runs: Sequence[ActiveRun], touched: set[PipelineKey]) -> None:
        """Take over what has changed, and add the pipelines that it is about to ``touched``.

        A cancelled call leaves the rest to the next.
        """
        known = self._seen if self._is_whole else tuple(self._runs.values())
        gone, new = changed_values(known, active_runs)
        self._is_whole = False
        async for active in in_slices(gone):
            self._forget(active)
        async for active in in_slices(new):
            self._learn(active)
        for number, key in enumerate(list(self._moved), 1):
            self._moved.discard(key)
            self._place(key, touched)
            if number % _RUNS_AT_ONCE == 0:
                await asyncio.sleep(0)
        self._seen, self._is_whole = active_runs, True

    def _forget(self, active: ActiveRun) -> None:
        key = active.run.key
        del self._runs[key]
        for parent in _parents_of(active):
            self._parts[parent].discard(key)
            if not self._parts[parent]:
                del self._parts[parent]
        self._moved.update((key, *self._parts.get(key, ())))

    def _learn(self, active: ActiveRun) -> None:
        key = active.run.key
        self._runs[key] = active
        for parent in _parents_of(active):
            self._parts[parent].add(key)
        self._moved.update((key, *self._parts.get(key, ())))

    def _place(self, key: RunKey, touched: set[PipelineKey]) -> None:
        before, now = self._places.pop(key, _NOWHERE), self._place_of(key)
        if now.active is not None:
            self._places[key] = now
        if before.active is not now.active or before.is_root != now.is_root:
            if before.is_root and before.active is not None:
                del self.roots[bisect_left(self.roots, _order(before.active))]
                confirmed_at = before.active.confirmed_at
                del self._confirmations[bisect_left(self._confirmations, confirmed_at)]
            if now.is_root and now.active is not None:
                insort(self.roots, ActiveRootRun(*_order(now.active), now.active))
                insort(self._confirmations, now.active.confirmed_at)
        _count(self.of_pipeline, before.pipeline, now.pipeline, touched)
        _count(self.flow_runs, before.flow, now.flow, touched)

    def _place_of(self, key: RunKey) -> _Place:
        active = self._runs.get(key)
        if active is None:
            return _NOWHERE
        parents = [parent for parent in _parents_of(active) if parent in self._runs]
        pipeline = active.run.pipeline
        of = None if pipeline is None else (key.workspace, pipeline.kind, pipeline.id)
        is_in_flow_run = any(parent.kind is RunKind.FLOW_RUN for parent in parents)
        return _Place(
            active,
            is_root=not parents,
            pipeline=None if is_in_flow_run else of,
            flow=of if key.kind is RunKind.FLOW_RUN else None,
        )


def _count(
    counter: Counter[PipelineKey],
    before: PipelineKey | None,
    now: PipelineKey | None,
    touched: set[PipelineKey],
) -> None:
    if before == now:
        return
    for key, step in ((before, -1), (now, 1)):
        if key is not None:
            counter[key] += step
            if not counter[key]:
                del counter[key]
            touched.add(key)


def _order(active: ActiveRun) -> tuple[datetime, RunKey]:
    run = active.run
    return run.started_at or run.created_at or active.confirmed_at, run.key


def _parents_of(active: ActiveRun) -> list[RunKey]:
    key, parents = active.run.key, active.run.parents
    return [
        RunKey(key.workspace, kind, parent)
        for kind, parent in (
            (RunKind.FLOW_RUN, parents.flow_run),
            (RunKind.PLAN_RUN, parents.plan_run),
        )
        if parent is not None
    ]

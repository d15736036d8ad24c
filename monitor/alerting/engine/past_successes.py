"""Learns what is usual from successes that ended before they were followed, and made no events.

They are read from run memory as soon as all of a kind is known, and again, because a workspace
shows old flow runs only one by one: some times in the hour after that, then every hour until all
of the history is read, and once after that. What is read replaces what was read before, so no run
counts twice, over restarts neither; see `baselines.with_past`.
"""

from __future__ import annotations

from collections import deque
from datetime import datetime

from msgspec import Struct

from monitor.alerting.alerting_store import Store
from monitor.alerting.alerts.pending_step import LEARNED
from monitor.alerting.attribution.subjects import key_of, of_pipeline, of_run
from monitor.alerting.engine.evaluation_context import EvaluationContext
from monitor.alerting.engine.timeline import Timeline
from monitor.alerting.rules.baselines import Learned, is_grown, with_past
from monitor.model.live_state import HistoryRead
from monitor.model.runs import Pipeline, RunKey, RunKind
from monitor.model.slices import in_slices
from monitor.tracking.live_state import LiveStateView

_RUNS = 40  # of each pipeline, the newest ones
_READ_AT = (0.0, 60.0, 300.0, 1_200.0, 3_600.0)  # seconds since all of the kind was known first
_READ_EVERY_SECONDS = 3_600.0  # after these, while there is history to be read
_PIPELINES_OF_A_CYCLE = 100
_READ_AT_ONCE = 10  # of them: learning the past of one takes up to 0.2 ms

_KindOfRun = tuple[str, RunKind]  # workspace, kind


class _Readings(Struct, kw_only=True):
    """How often the pipelines of one kind of run were read, since when on our steady clock."""

    began: float
    count: int = 0
    has_read_all: bool = False  # once after all of the history was read

    def due_at(self) -> float:
        """Return when the next one is due while there is history to be read."""
        more = self.count - len(_READ_AT) + 1
        return self.began + (
            _READ_AT[self.count] if more <= 0 else _READ_AT[-1] + more * _READ_EVERY_SECONDS
        )


class PastSuccesses:
    """Reads pipelines whose baseline lacks runs, some with each cycle."""

    def __init__(self, *, bus: Store, view: LiveStateView, timeline: Timeline) -> None:
        self._bus = bus
        self._view = view
        self._timeline = timeline
        self._readings: dict[_KindOfRun, _Readings] = {}
        self._waiting: deque[tuple[str, RunKind, Pipeline]] = deque()

    def reset(self) -> None:
        """Start over, as after a restart."""
        self._readings.clear()
        self._waiting.clear()

    async def learn(self, context: EvaluationContext) -> None:
        """Learn from the past of some pipelines, and let them be evaluated.

        Raises:
            BusUnavailableError: the store does not answer; `reset` is due.
        """
        due = self._due(context)
        if due:
            await self._wait_for(due)
        count = min(_PIPELINES_OF_A_CYCLE, len(self._waiting))
        chosen = [self._waiting.popleft() for _ in range(count)]
        young = [each for each in chosen if self._is_young(context, *each)]
        for start in range(0, len(young), _READ_AT_ONCE):
            await self._read(context, young[start : start + _READ_AT_ONCE])

    def _due(self, context: EvaluationContext) -> set[_KindOfRun]:
        due: set[_KindOfRun] = set()
        for of in context.complete:
            readings = self._readings.setdefault(of, _Readings(began=context.monotonic))
            is_all = self._history(of[0]) is None
            is_last = is_all and not readings.has_read_all
            is_left = not is_all or readings.count < len(_READ_AT)
            if is_last or (is_left and context.monotonic >= readings.due_at()):
                readings.count += 1
                readings.has_read_all = is_all
                due.add(of)
        return due

    def _history(self, workspace: str) -> HistoryRead | None:
        """Return how far history is read; None where no more of it is."""
        status = self._view.workspace(workspace)
        history = None if status is None else status.history
        return None if history is None or history.is_over else history

    def _known_since(self, workspace: str) -> datetime | None:
        status = self._view.workspace(workspace)
        return None if status is None or status.history is None else status.history.reached

    async def _wait_for(self, due: set[_KindOfRun]) -> None:
        found = dict.fromkeys(self._waiting)
        async for health in in_slices(self._view.pipeline_health()):  # 10,000 and more
            if (health.workspace, health.run_kind) in due:
                found[health.workspace, health.run_kind, health.pipeline] = None
        self._waiting = deque(found)

    def _is_young(
        self, context: EvaluationContext, workspace: str, kind: RunKind, pipeline: Pipeline
    ) -> bool:
        if self._view.workspace(workspace) is None:
            return False
        key = key_of(of_run(RunKey(workspace, kind, ""), pipeline))
        learned = context.pending.decoded(LEARNED, key, Learned)
        return learned is None or not is_grown(learned)

    async def _read(
        self, context: EvaluationContext, chosen: list[tuple[str, RunKind, Pipeline]]
    ) -> None:
        of_pipelines = {
            (workspace, kind, pipeline.id): pipeline for workspace, kind, pipeline in chosen
        }
        runs = await self._bus.pipeline_runs(of_pipelines.keys(), limit=_RUNS)
        for of, pipeline in of_pipelines.items():
            workspace, kind, _ = of
            subject = of_run(RunKey(workspace, kind, ""), pipeline)
            before = context.pending.decoded(LEARNED, key_of(subject), Learned)
            known_since = self._known_since(workspace)
            learned = with_past(before, runs[of], known_since=known_since)
            if learned is not None and learned is not before:
                context.pending.put(LEARNED, key_of(subject), learned)
                self._timeline.touched[subject] = None
                self._timeline.touched[of_pipeline(workspace, pipeline)] = None

"""The runs of a pipeline over a stretch of time, and what they amount to. Pure."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime

from msgspec import Struct

from monitor.model.runs import Status
from monitor.web.views.runs.run_views import RunView

_TENTHS = 10
_FEWEST_FOR_TENTHS = 5


class RecipeHistory(Struct, frozen=True, kw_only=True):
    """The job groups of one recipe of a flow."""

    recipe_id: str
    recipe: str | None
    runs: int
    results: dict[str, int]
    success_ratio: float | None
    typical_seconds: float | None
    last_success_at: datetime | None
    newest: RunView


class HistoryFigures(Struct, frozen=True, kw_only=True):
    """What the runs of a history amount to.

    ``typical_seconds`` is the median of the successes, ``slow_seconds`` what one of ten exceeds.
    ``success_ratio`` is of those that succeeded, failed or were lost.
    """

    runs: int
    results: dict[str, int]
    success_ratio: float | None
    typical_seconds: float | None
    slow_seconds: float | None
    typical_queue_seconds: float | None
    longest_seconds: float | None
    failures_in_a_row: int


def figures_of(runs: Sequence[RunView]) -> HistoryFigures:
    """Return the figures of runs, newest first."""
    results = Counter(str(run.last_status) for run in runs)
    durations = _durations(runs)
    queues = [run.queue_seconds for run in runs if run.queue_seconds is not None]
    slow = None
    if len(durations) >= _FEWEST_FOR_TENTHS:
        slow = statistics.quantiles(durations, n=_TENTHS)[-1]
    return HistoryFigures(
        runs=len(runs),
        results=dict(results),
        success_ratio=_success_ratio(results),
        typical_seconds=statistics.median(durations) if durations else None,
        slow_seconds=slow,
        typical_queue_seconds=statistics.median(queues) if queues else None,
        longest_seconds=max(durations, default=None),
        failures_in_a_row=_failures_in_a_row(runs),
    )


def recipes_of(runs: Iterable[RunView]) -> tuple[RecipeHistory, ...]:
    """Return the recipes of job groups, newest first; those that failed last stand first."""
    groups: defaultdict[str, list[RunView]] = defaultdict(list)
    for run in runs:
        if run.recipe_id is not None:
            groups[run.recipe_id].append(run)
    rows = [_recipe(recipe_id, group) for recipe_id, group in groups.items()]
    return tuple(sorted(rows, key=lambda row: (row.newest.last_status != "failed", row.recipe_id)))


def _recipe(recipe_id: str, runs: Sequence[RunView]) -> RecipeHistory:
    results = Counter(str(run.last_status) for run in runs)
    durations = _durations(runs)
    succeeded = (run.finished_at for run in runs if run.last_status is Status.SUCCEEDED)
    return RecipeHistory(
        recipe_id=recipe_id,
        recipe=next((run.recipe for run in runs if run.recipe is not None), None),
        runs=len(runs),
        results=dict(results),
        success_ratio=_success_ratio(results),
        typical_seconds=statistics.median(durations) if durations else None,
        last_success_at=next(succeeded, None),
        newest=runs[0],
    )


def _durations(runs: Iterable[RunView]) -> list[float]:
    return [
        run.duration_seconds
        for run in runs
        if run.last_status is Status.SUCCEEDED and run.duration_seconds is not None
    ]


def _success_ratio(results: Counter[str]) -> float | None:
    judged = sum(results[word] for word in ("succeeded", "failed", "lost"))
    return results["succeeded"] / judged if judged else None


def _failures_in_a_row(runs: Sequence[RunView]) -> int:
    ended = [run.last_status for run in runs if run.last_status in ("succeeded", "failed")]
    return next(
        (number for number, word in enumerate(ended) if word is Status.SUCCEEDED), len(ended)
    )

"""Reads the ended runs that a report is about into their groups, a page at a time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime, timedelta

from monitor.alerting.attribution.subjects import key_of, of_run
from monitor.alerting.engine.engine import Engine
from monitor.alerting.reports.pipeline_filter import PipelineFilter
from monitor.alerting.reports.run_groups import PipelineId, RunGroups, Stretch, Usual
from monitor.alerting.rules.baselines import MINIMUM_RUNS, known_durations, quantile
from monitor.bus.contract import StoredRuns
from monitor.model.runs import Pipeline, RunKey, RunKind, RunState, Status
from monitor.model.slices import in_slices, pieces_of
from monitor.tracking.live_state import LiveStateView

# Runs are found by when they were created: so long may one take that ended in the stretch. Longer
# ones are found where they are among the newest ends of their pipeline.
_LONGEST_RUN = timedelta(days=2)
_PAGE = 500
_MOST_RUNS = 200_000  # of a workspace
_RUNS_AT_ONCE = 5  # in one step: what is usual of a pipeline takes up to 0.4 ms
_ENDED = tuple(status for status in Status if status.is_terminal)
# Slower than usual: by half, by a minute, and more than nineteen of twenty runs.
_SLOW_FACTOR, _SLOW_SECONDS, _SLOW_SHARE = 1.5, 60.0, 0.95


class EndedRunReader:
    """Reads the runs of one workspace for one report."""

    def __init__(
        self, workspace: str, *, bus: StoredRuns, view: LiveStateView, takes: PipelineFilter
    ) -> None:
        self._workspace = workspace
        self._bus = bus
        self._view = view
        self._filter = takes

    async def read(self, groups: RunGroups, stretch: Stretch, *, begin: datetime) -> list[str]:
        """Add all runs that ended from ``begin`` on, and what followed them up to now.

        ``begin`` is that of the stretch before where it is compared with that. Returns a sentence
        for each thing that could not be read.

        Raises:
            BusUnavailableError: the store does not answer.
        """
        since, before = begin - _LONGEST_RUN, None
        count, is_cut = 0, False
        while not is_cut:
            page = await self._bus.recent_runs(
                workspaces=[self._workspace],
                statuses=_ENDED,
                since=since,
                before=before,
                limit=_PAGE,
            )
            await self._add(groups, page)
            count += len(page)
            if len(page) < _PAGE:
                break
            before, is_cut = page[-1].key, count >= _MOST_RUNS
        for piece in pieces_of(await self._older_runs(since, stretch), size=_PAGE):
            await self._add(groups, (await self._bus.runs(piece)).values())
        missing = []
        if is_cut:
            missing.append(f"{self._workspace}: only its newest {count:,} runs were read")
        if groups.lost_failures:
            missing.append(f"{self._workspace}: {groups.lost_failures:,} more failures not listed")
        return missing

    async def _add(self, groups: RunGroups, runs: Iterable[RunState]) -> None:
        async for run in in_slices(runs, size=_RUNS_AT_ONCE):
            if self._filter.takes_run(run):
                groups.add(run)

    async def _older_runs(self, since: datetime, stretch: Stretch) -> list[RunKey]:
        """Return runs that began long before the stretch and ended in it."""
        found: dict[RunKey, None] = {}
        async for health in in_slices(self._view.pipeline_health()):
            if health.workspace != self._workspace:
                continue
            for end in health.ends:
                is_old = end.began_at is not None and end.began_at < since
                if is_old and stretch.holds(end.at):
                    found[RunKey(self._workspace, health.run_kind, end.run_id)] = None
        return list(found)


class UsualDurations:
    """How long runs of each pipeline of a workspace take, as rules have learned it."""

    def __init__(self, engine: Engine, workspace: str) -> None:
        self._engine = engine
        self._workspace = workspace
        self._known: defaultdict[RunKind, dict[PipelineId, Usual | None]] = defaultdict(dict)

    def of(self, run: RunState) -> Usual | None:
        """Return it; None where too few runs were seen."""
        if run.pipeline is None:
            return None
        known, pipeline_id = self._known[run.key.kind], PipelineId.of(run.pipeline)
        if pipeline_id not in known:
            known[pipeline_id] = self._learned(run.key.kind, run.pipeline)
        return known[pipeline_id]

    def _learned(self, kind: RunKind, pipeline: Pipeline) -> Usual | None:
        subject = of_run(RunKey(self._workspace, kind, ""), pipeline)
        baseline = known_durations(self._engine.learned(key_of(subject)))
        if baseline is None or baseline.count < MINIMUM_RUNS:
            return None
        median = quantile(baseline, 0.5)
        most = quantile(baseline, _SLOW_SHARE)
        slow_from = max(_SLOW_FACTOR * median, median + _SLOW_SECONDS, most)
        return Usual(seconds=median, slow_from=slow_from)

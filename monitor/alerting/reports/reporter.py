"""Computes the report of one shard on demand: from stored runs, alerts and the live state.

Stored runs are read in pages, and all that grows with them is done in slices.
"""

from __future__ import annotations

import asyncio

from monitor.alerting.engine.engine import Engine
from monitor.alerting.reports.alert_findings import unjudged
from monitor.alerting.reports.late_reader import LateReader
from monitor.alerting.reports.merging import merged_report
from monitor.alerting.reports.pipeline_filter import PipelineFilter
from monitor.alerting.reports.report_lines import WorkspaceLines
from monitor.alerting.reports.report_query import ReportQuery
from monitor.alerting.reports.run_groups import RunGroups, Stretch
from monitor.alerting.reports.run_reader import EndedRunReader, UsualDurations
from monitor.alerting.reports.unknowns import unknowns, unwatched
from monitor.bus.contract import Retention, StoredShard
from monitor.model.clock import Clock
from monitor.model.live_state import WorkspaceStatus
from monitor.model.reports import Deadlines, Report, ReportedDeadline, ReportedDelay, ReportedStart
from monitor.tracking.live_state import LiveStateView


class Reporter:
    """Answers for the workspaces of one shard."""

    def __init__(
        self,
        *,
        bus: StoredShard,
        view: LiveStateView,
        engine: Engine,
        clock: Clock,
        retention: Retention,
    ) -> None:
        self._bus = bus
        self._view = view
        self._engine = engine
        self._clock = clock
        self._retention = retention
        # One at a time: a report reads much, and is asked for seldom.
        self._computing = asyncio.Lock()

    async def report(self, query: ReportQuery) -> Report:
        """Return the report.

        Raises:
            BusUnavailableError: the store does not answer.
        """
        takes = PipelineFilter(query.match, self._view)
        async with self._computing:
            parts = [
                await self._of_workspace(status, query, takes)
                for status in self._view.workspaces()
                if takes.takes_workspace(status.workspace)
            ]
            return await merged_report(parts, query, made_at=self._clock.now())

    async def _of_workspace(
        self, status: WorkspaceStatus, query: ReportQuery, takes: PipelineFilter
    ) -> Report:
        stretch = Stretch(status.time_there(query.since), status.time_there(query.until))
        usual = UsualDurations(self._engine, status.workspace)
        groups = RunGroups(stretch, usual=usual.of, has_trends=query.has_trends)
        try:
            return await self._written(groups, status, query, takes, stretch)
        finally:
            await groups.free()

    async def _written(
        self,
        groups: RunGroups,
        status: WorkspaceStatus,
        query: ReportQuery,
        takes: PipelineFilter,
        stretch: Stretch,
    ) -> Report:
        name, now = status.workspace, self._clock.now()
        begin = stretch.before.since if query.has_trends else stretch.since
        reader = EndedRunReader(name, bus=self._bus, view=self._view, takes=takes)
        unread = await reader.read(groups, stretch, begin=begin)
        late = LateReader(status, engine=self._engine, view=self._view, takes=takes)
        found = await late.lines(stretch, now=now)
        lines = WorkspaceLines(self._view, name)
        return Report(
            since=query.since,
            until=query.until,
            made_at=now,
            verdict="",
            **await lines.of_failures(groups),
            did_not_start=tuple(line for line in found if isinstance(line, ReportedStart)),
            late=tuple(line for line in found if isinstance(line, ReportedDelay)),
            deadlines=Deadlines(
                met=await late.met_deadlines(self._bus, stretch),
                missed=tuple(line for line in found if isinstance(line, ReportedDeadline)),
            ),
            slower_than_usual=await lines.of_slow(groups),
            unwatched=unwatched(self._view, name, since=query.since, until=query.until, now=now),
            counts=lines.of_counts(groups),
            next_starts=tuple(await late.coming(now=status.time_there(now))),
            trends=await lines.of_trends(groups) if query.has_trends else (),
            worst=await lines.of_worst(groups) if query.has_trends else (),
            missing=(
                *unknowns(
                    self._view,
                    status,
                    since=query.since,
                    begin=begin,
                    now=now,
                    retention=self._retention,
                ),
                *unread,
                *lines.left_out(),
                *unjudged([rule.settings.rule for rule in self._engine.compiled.rules]),
            ),
        )

"""Reads what alerting knows of starts: those that did not come, those that were late, the next."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime, timedelta
from heapq import nsmallest

from monitor.alerting.engine.engine import Engine
from monitor.alerting.reports.alert_findings import KINDS, LateLine, late_line, overlaps
from monitor.alerting.reports.pipeline_filter import PipelineFilter
from monitor.alerting.reports.run_groups import Stretch
from monitor.alerting.rules.rule_settings import RuleKind
from monitor.bus.contract import StoredShard
from monitor.model.alerts import Alert, PastPlace, PastQuery, PipelineOfKind
from monitor.model.events import Event, EventType, WorkspaceEvent
from monitor.model.live_state import WorkspaceStatus
from monitor.model.reports import ComingStart, ReportedDeadline
from monitor.model.runs import Pipeline, PipelineKind, RunKind
from monitor.model.slices import in_slices
from monitor.model.triggers import CronTrigger, ScheduleTrigger
from monitor.schedules import BadTriggerError, next_after
from monitor.tracking.live_state import LiveStateView

MOST_COMING = 10
_PAGE = 500
_MOST_PAST = 5_000  # alerts of one kind of rule
_MOST_EVENTS = 200_000
_MET_BEFORE = timedelta(days=1)  # before its deadline, at most, an event says that it was met
_LINES_AT_ONCE = 10  # in one step: a text, and the next time of a schedule
_PipelineId = tuple[PipelineKind, str]


class LateReader:
    """Reads alerts and expected starts of one workspace for one report."""

    def __init__(
        self,
        status: WorkspaceStatus,
        *,
        engine: Engine,
        view: LiveStateView,
        takes: PipelineFilter,
    ) -> None:
        self._status = status
        self._engine = engine
        self._view = view
        self._filter = takes
        self._triggers: defaultdict[_PipelineId, list[ScheduleTrigger]] = defaultdict(list)
        self._expected = {
            rule.name: CronTrigger(
                expression=rule.settings.expect, timezone=rule.settings.expect_timezone
            )
            for rule in engine.compiled.rules
            if rule.settings.expect is not None
        }

    async def lines(self, stretch: Stretch, *, now: datetime) -> list[LateLine]:
        """Return what alerts say that were open in the stretch; ``now`` is ours."""
        alerts = await self._alerts(stretch)
        if alerts:
            await self._learn_triggers()
        lines: list[LateLine] = []
        async for alert in in_slices(alerts, size=_LINES_AT_ONCE):
            there = self._view.time_of(alert, now)
            line = late_line(alert, now=there, next_of=self._start_after)
            if line is not None:
                lines.append(line)
        return lines

    async def _alerts(self, stretch: Stretch) -> list[Alert]:
        """Return open and ended alerts of the stretch about what is late."""
        name = self._status.workspace
        found: list[Alert] = [
            alert
            async for alert in in_slices(self._engine.snapshot().alerts)
            if alert.workspace == name and alert.rule in KINDS and alert.ends_at is None
        ]
        for kind in KINDS:
            after: PastPlace | None = None
            for _ in range(_MOST_PAST // _PAGE):
                query = PastQuery(
                    workspace=name, rule_kind=kind, since=stretch.since, after=after, limit=_PAGE
                )
                page = await self._engine.past.find(query)
                found += page
                if len(page) < _PAGE:
                    break
                last = page[-1]
                after = PastPlace(last.ends_at or last.starts_at, last.fingerprint, last.starts_at)
        return [
            alert
            async for alert in in_slices(found)
            if overlaps(alert, stretch.since, stretch.until)
            and alert.pipeline is not None
            and self._filter.takes(name, alert.pipeline)
        ]

    async def _learn_triggers(self) -> None:
        async for schedule in in_slices(self._status.schedules):
            for pipeline in schedule.starts if schedule.is_enabled else ():
                self._triggers[pipeline.kind, pipeline.id] += schedule.triggers

    def _start_after(self, alert: Alert) -> datetime | None:
        """Return when the start after the one of an alert was expected; None: not known."""
        pipeline, expected = alert.pipeline, self._expected.get(alert.name)
        triggers: list[ScheduleTrigger] = []
        if expected is not None:
            triggers = [expected]
        elif pipeline is not None:
            triggers = self._triggers[pipeline.kind, pipeline.id]
        try:
            times = [next_after(trigger, alert.starts_at) for trigger in triggers]
        except BadTriggerError:
            return None
        return min((at for at in times if at is not None), default=None)

    async def met_deadlines(
        self, bus: StoredShard, stretch: Stretch
    ) -> tuple[ReportedDeadline, ...]:
        """Return the deadlines of the stretch that events say were met; none without a rule.

        Raises:
            BusUnavailableError: the store does not answer.
        """
        rules = self._engine.compiled.rules
        if all(rule.settings.rule is not RuleKind.DEADLINE_MISSED for rule in rules):
            return ()
        found: list[ReportedDeadline] = []
        position = await bus.events_since(stretch.since - _MET_BEFORE)
        for _ in range(_MOST_EVENTS // _PAGE):
            page = await bus.events(after=position, limit=_PAGE)
            found += [
                line
                async for recorded in in_slices(page)
                if (line := self._met(recorded.event, stretch)) is not None
            ]
            if len(page) < _PAGE:
                break
            position = page[-1].position
        return tuple(found)

    def _met(self, event: Event, stretch: Stretch) -> ReportedDeadline | None:
        name = self._status.workspace
        if (
            not isinstance(event, WorkspaceEvent)
            or event.type is not EventType.DEADLINE_MET
            or event.workspace != name
            or event.after is None
        ):
            return None
        deadline = datetime.fromisoformat(event.after)
        kind, _, pipeline_id = event.what.rpartition(":")[2].partition("/")
        pipeline = Pipeline(kind=PipelineKind(kind), id=pipeline_id)
        if not stretch.holds(deadline) or not self._filter.takes(name, pipeline):
            return None
        return ReportedDeadline(
            workspace=name,
            pipeline=self._view.label(name, pipeline),
            pipeline_kind=pipeline.kind,
            pipeline_id=pipeline.id,
            deadline=deadline,
            succeeded_at=event.occurred_at,
        )

    async def coming(self, *, now: datetime) -> list[ComingStart]:
        """Return the next starts; ``now`` is workspace time."""
        name, snapshot = self._status.workspace, self._engine.snapshot()
        coming: dict[_PipelineId, datetime] = {}
        async for key in in_slices(list(snapshot.expected)):
            at = snapshot.expected_start(key, now=now)
            if key[0] != name or at is None or at < now:
                continue
            pipeline = _pipeline_of(key)
            if self._filter.takes(name, pipeline):
                place = (pipeline.kind, pipeline.id)
                coming[place] = min(at, coming.get(place, at))
        soonest = nsmallest(MOST_COMING, coming.items(), key=lambda item: (item[1], item[0]))
        return [
            ComingStart(
                workspace=name,
                pipeline=self._view.label(name, Pipeline(kind=kind, id=pipeline_id)),
                pipeline_kind=kind,
                pipeline_id=pipeline_id,
                at=at,
            )
            for (kind, pipeline_id), at in soonest
        ]


def _pipeline_of(key: PipelineOfKind) -> Pipeline:
    kind = PipelineKind.PLAN if key[1] is RunKind.PLAN_RUN else PipelineKind.FLOW
    return Pipeline(kind=kind, id=key[2])

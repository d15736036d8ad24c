"""The schedules that the tokens can see: what each starts, and when, in words."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct

from monitor.model.live_state import SCHEDULES, ScheduleKnown, WorkspaceStatus
from monitor.model.runs import Pipeline
from monitor.model.shapes import filled
from monitor.model.slices import in_slices, sorted_in_slices
from monitor.model.triggers import ScheduleTrigger
from monitor.schedules import BadTriggerError, check, next_after
from monitor.web.http.cursors import sort_text
from monitor.web.http.request_parsing import refuse_unknown
from monitor.web.views.schedules.trigger_words import expression_of, trigger_words
from monitor.web.views.sources import ViewSources
from monitor.web.views.view import View

_AT_ONCE = 10  # schedules, of each of which the next start is computed


class SchedulesQuery(Struct, frozen=True, kw_only=True):
    """``pipeline`` is the id of a flow or plan, or a part of its name."""

    workspace: str | None = None
    pipeline: str | None = None


class TriggerInWords(Struct, frozen=True, kw_only=True):
    """One trigger. ``expression`` is its cron expression, where it has one."""

    words: str
    expression: str | None
    timezone: str
    problem: str | None  # why no time can be computed


class StartedPipeline(Struct, frozen=True, kw_only=True):
    """What a schedule starts."""

    kind: str
    id: str
    name: str
    is_deleted: bool


class ScheduleView(Struct, frozen=True, kw_only=True):
    """One schedule. Instants are the workspace's."""

    id: str
    name: str
    is_enabled: bool
    disable_reason: str | None
    owner: str | None
    owner_id: str | None
    triggers: tuple[ScheduleTrigger, ...]
    in_words: tuple[TriggerInWords, ...]  # of ``triggers``
    pipelines: tuple[Pipeline, ...]
    deleted: tuple[Pipeline, ...]
    starts: tuple[StartedPipeline, ...]  # ``pipelines`` with their present names
    next_start_at: datetime | None
    created_at: datetime | None
    updated_at: datetime | None


class SchedulesView(Struct, frozen=True, kw_only=True):
    """The schedules of one workspace that its token can see; no others are watched."""

    workspace: str
    of: str | None  # their owner
    read_at: datetime | None  # workspace time
    unwatched: str | None  # why changes of schedules are not observed now
    schedules: tuple[ScheduleView, ...]


class ScheduleList(Struct, frozen=True, kw_only=True):
    """The schedules, by workspace."""

    data: tuple[SchedulesView, ...]
    next: str | None = None


class ScheduleListReader:
    """Reads the schedules that live state holds."""

    def __init__(self, sources: ViewSources) -> None:
        self._sources = sources
        self.ordered = OrderedSchedules()

    async def read(self, query: SchedulesQuery) -> ScheduleList:
        statuses = workspaces_of(self._sources, query.workspace)
        return ScheduleList(data=tuple([await self._of(row, query.pipeline) for row in statuses]))

    async def _of(self, status: WorkspaceStatus, pipeline: str | None) -> SchedulesView:
        shown = [
            schedule
            async for schedule in in_slices(await self.ordered.of(status))
            if pipeline is None
            or any(self.is_meant(pipeline, status, started) for started in schedule.pipelines)
        ]
        now = status.time_there(self._sources.clock.now())
        return SchedulesView(
            workspace=status.workspace,
            of=status.schedules_of,
            read_at=status.schedules_read_at,
            unwatched=self._sources.live.why_unwatched(status.workspace, SCHEDULES),
            schedules=tuple(
                [
                    self.view(status, schedule, now=now)
                    async for schedule in in_slices(shown, size=_AT_ONCE)
                ]
            ),
        )

    def is_meant(self, text: str, status: WorkspaceStatus, pipeline: Pipeline) -> bool:
        """True where the text is the id of a pipeline, or a part of its name."""
        label = self._sources.live.label(status.workspace, pipeline)
        return text == pipeline.id or text.casefold() in label.casefold()

    def view(
        self, status: WorkspaceStatus, schedule: ScheduleKnown, *, now: datetime
    ) -> ScheduleView:
        """Return a schedule of a workspace; ``now`` is workspace time."""
        in_words = tuple(_in_words(trigger) for trigger in schedule.triggers)
        return filled(
            ScheduleView,
            schedule,
            owner=status.schedules_of,
            in_words=in_words,
            starts=tuple(
                StartedPipeline(
                    kind=pipeline.kind,
                    id=pipeline.id,
                    name=self._sources.live.label(status.workspace, pipeline),
                    is_deleted=pipeline in schedule.deleted,
                )
                for pipeline in schedule.pipelines
            ),
            next_start_at=_next_start(schedule, now) if schedule.is_enabled else None,
        )


def workspaces_of(sources: ViewSources, workspace: str | None) -> Sequence[WorkspaceStatus]:
    """Return the workspace of that name, or all of them.

    Raises:
        ProblemDetails: there is none of that name.
    """
    statuses = sources.live.workspaces()
    refuse_unknown(workspace, [status.workspace for status in statuses])
    return [status for status in statuses if workspace in (None, status.workspace)]


def order_of(schedule: ScheduleKnown) -> tuple[str, str]:
    """Return what schedules of a workspace are sorted by."""
    return sort_text(schedule.name), schedule.id


class OrderedSchedules:
    """The schedules of each workspace by name, sorted once for each time that they are read."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[tuple[ScheduleKnown, ...], list[ScheduleKnown]]] = {}

    async def of(self, status: WorkspaceStatus) -> list[ScheduleKnown]:
        kept = self._kept.get(status.workspace)
        if kept is None or kept[0] is not status.schedules:
            kept = status.schedules, await sorted_in_slices(status.schedules, key=order_of)
            self._kept[status.workspace] = kept
        return kept[1]


def _in_words(trigger: ScheduleTrigger) -> TriggerInWords:
    problem = None
    try:
        check(trigger)
    except BadTriggerError as exc:
        problem = str(exc)
    return TriggerInWords(
        words=trigger_words(trigger),
        expression=expression_of(trigger),
        timezone=trigger.timezone,
        problem=problem,
    )


def _next_start(schedule: ScheduleKnown, now: datetime) -> datetime | None:
    coming: list[datetime] = []
    for trigger in schedule.triggers:
        try:
            at = next_after(trigger, now)
        except BadTriggerError:
            continue  # its problem stands beside its words
        if at is not None:
            coming.append(at)
    return min(coming, default=None)


def schedules_view(sources: ViewSources) -> View:
    return View(
        name="schedules",
        summary="The schedules that the tokens can see, what they start and when.",
        api="/api/v1/schedules",
        query=SchedulesQuery,
        answer=ScheduleList,
        read=ScheduleListReader(sources).read,
    )

"""The schedules that the tokens can see: what each starts, and when, in words."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from monitor.model.live_state import SCHEDULES, ScheduleKnown, WorkspaceStatus
from monitor.model.public_shapes import filled
from monitor.model.runs import Pipeline
from monitor.model.slices import in_slices, sorted_in_slices
from monitor.model.triggers import ScheduleTrigger
from monitor.schedules import BadTriggerError, check, next_after
from monitor.web.http.request_parsing import sort_text
from monitor.web.views.schedules.trigger_words import expression_of, trigger_words
from monitor.web.views.view import ViewSources, view

_AT_ONCE = 10  # of thousands of schedules, whose next starts are computed


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


@view(
    "schedules",
    "/api/v1/schedules",
    "The schedules that the tokens can see, what they start and when.",
)
async def schedules_view(sources: ViewSources, query: SchedulesQuery) -> ScheduleList:
    statuses = sources.workspaces(query.workspace)
    return ScheduleList(data=tuple([await _of(sources, row, query.pipeline) for row in statuses]))


async def _of(sources: ViewSources, status: WorkspaceStatus, pipeline: str | None) -> SchedulesView:
    shown = [
        schedule
        async for schedule in in_slices(await ordered_schedules(status))  # thousands of a workspace
        if pipeline is None
        or any(is_meant(sources, pipeline, status, started) for started in schedule.pipelines)
    ]
    now = status.time_there(sources.clock.now())
    return SchedulesView(
        workspace=status.workspace,
        of=status.schedules_of,
        read_at=status.schedules_read_at,
        unwatched=sources.live.why_unwatched(status.workspace, SCHEDULES),
        schedules=tuple(
            [
                schedule_view(sources, status, schedule, now=now)
                async for schedule in in_slices(shown, size=_AT_ONCE)
            ]
        ),
    )


def is_meant(sources: ViewSources, text: str, status: WorkspaceStatus, pipeline: Pipeline) -> bool:
    """True where the text is the id of a pipeline, or a part of its name."""
    label = sources.live.label(status.workspace, pipeline)
    return text == pipeline.id or text.casefold() in label.casefold()


def schedule_view(
    sources: ViewSources, status: WorkspaceStatus, schedule: ScheduleKnown, *, now: datetime
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
                name=sources.live.label(status.workspace, pipeline),
                is_deleted=pipeline in schedule.deleted,
            )
            for pipeline in schedule.pipelines
        ),
        next_start_at=_next_start(schedule, now) if schedule.is_enabled else None,
    )


def order_of(schedule: ScheduleKnown) -> tuple[str, str]:
    """Return what schedules of a workspace are sorted by."""
    return sort_text(schedule.name), schedule.id


async def ordered_schedules(status: WorkspaceStatus) -> list[ScheduleKnown]:
    return await sorted_in_slices(status.schedules, key=order_of)  # thousands


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

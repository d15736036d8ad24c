"""When a pipeline should start next, by the schedules that the token's owner may see."""

from __future__ import annotations

from datetime import datetime, timedelta

from msgspec import Struct

from monitor.model.clock import Clock
from monitor.model.live_state import ScheduleKnown
from monitor.model.runs import Pipeline, PipelineKind
from monitor.model.triggers import ScheduleTrigger
from monitor.schedules import BadTriggerError, next_after
from monitor.tracking.live_state import LiveStateView

PipelineId = tuple[PipelineKind, str]


class _Starts(Struct):
    """The triggers that one reading of a workspace's schedules brought, and what they gave."""

    schedules: tuple[ScheduleKnown, ...]
    triggers: dict[PipelineId, list[ScheduleTrigger]]
    found: dict[PipelineId, datetime | None]


class ExpectedStarts:
    """Answers from memory: a start is computed anew when it has passed or a schedule was read."""

    def __init__(self, view: LiveStateView, *, clock: Clock) -> None:
        self._view = view
        self._clock = clock
        self._starts: dict[str, _Starts] = {}

    def next_start(self, workspace: str, pipeline: Pipeline) -> datetime | None:
        """Return the first start to come, workspace time; None where no schedule tells one."""
        status = self._view.workspace(workspace)
        if status is None:
            self._starts.pop(workspace, None)
            return None
        starts = self._starts.get(workspace)
        if starts is None or starts.schedules is not status.schedules:
            starts = self._starts[workspace] = _read(status.schedules)
        identity = pipeline.kind, pipeline.id
        if identity not in starts.triggers:
            return None
        now = self._clock.now() + timedelta(seconds=status.clock_skew_seconds or 0.0)
        if identity in starts.found:
            held = starts.found[identity]
            if held is None or held > now:
                return held
        found = _first(starts.triggers[identity], now)
        starts.found[identity] = found
        return found


def _read(schedules: tuple[ScheduleKnown, ...]) -> _Starts:
    triggers: dict[PipelineId, list[ScheduleTrigger]] = {}
    for schedule in schedules:
        if schedule.is_enabled:
            for pipeline in schedule.starts:
                triggers.setdefault((pipeline.kind, pipeline.id), []).extend(schedule.triggers)
    return _Starts(schedules=schedules, triggers=triggers, found={})


def _first(triggers: list[ScheduleTrigger], now: datetime) -> datetime | None:
    times = (_next(trigger, now) for trigger in triggers)
    return min((at for at in times if at is not None), default=None)


def _next(trigger: ScheduleTrigger, now: datetime) -> datetime | None:
    try:
        return next_after(trigger, now)
    except BadTriggerError:
        # The workspace took a schedule that we cannot read; the others still tell.
        return None

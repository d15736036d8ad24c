"""Between which times the starts of a pipeline are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta

from monitor.model.alerts import PipelineOfKind
from monitor.model.live_state import ScheduleKnown, WorkspaceStatus
from monitor.model.runs import RunState
from monitor.web.views.schedules.comparison import Known
from monitor.web.views.view import ViewSources

MOST_RUNS = 2_500  # of one pipeline and kind that are read: every five minutes of a week
_USUAL_GRACE = timedelta(minutes=10)  # where no rule awaits starts of the pipeline


def starts_known(
    sources: ViewSources,
    status: WorkspaceStatus,
    schedule: ScheduleKnown,
    runs: Mapping[PipelineOfKind, Sequence[RunState]],
    *,
    limit: int,
) -> Known:
    """Return between which times starts by a schedule are known.

    ``runs`` are the newest ``limit`` of each kind of the pipeline, newest first.
    """
    live, name = sources.live, status.workspace
    now = status.time_there(sources.clock.now())
    since = {"the schedule was changed later": schedule.updated_at}
    since["the workspace was not followed yet"] = status.followed_since
    kept = timedelta(seconds=sources.daemon().retention.runs_seconds)
    since["runs of that time are forgotten"] = now - kept
    for found in runs.values():
        if len(found) == limit:
            why = f"only the newest {limit:,} runs are compared"
            since[why] = found[-1].created_at
    latest = max((at, why) for why, at in since.items() if at is not None)
    complete = live.complete()
    until = [complete.get((name, kind)) for _, kind, _ in runs]
    whys = [live.why_unwatched(name, kind) for _, kind, _ in runs]
    snapshot = sources.alerting.snapshot()
    graces = [
        timedelta(seconds=later.grace_seconds)
        for key in runs
        if (later := snapshot.after_grace.get(key))
    ]
    return Known(
        now=now,
        since=latest[0],
        before_reason=latest[1],
        until=min((at for at in until if at is not None), default=None),
        unwatched=next((why for why in whys if why is not None), None),
        grace=max(graces, default=_USUAL_GRACE),
    )

"""One run: its states and who reported them, its parents, and its parts down to the jobs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from monitor.alerting.explain.explanation import Explanation
from monitor.model.alerts import AlertState
from monitor.model.events import STATUS_EVENTS, EventType, RunEvent, end_event_id, run_event_ids
from monitor.model.public_shapes import filled
from monitor.model.runs import JobRecord, RunKey, RunKind, RunState, Source, Status
from monitor.model.slices import in_slices
from monitor.web.http.problem_details import ProblemDetails
from monitor.web.views.runs.run_views import RunView, run_view, run_views
from monitor.web.views.view import ViewSources, view

_MOST_PARTS = 500
_MOST_FLOW_RUNS = 100  # of a plan run, whose parts are read
_EVENTS = (*STATUS_EVENTS.values(), EventType.RUN_CONFIRMED, EventType.RUN_CORRECTED)
_ENDS = frozenset(status.value for status in Status if status.is_terminal)
_END_OF = {event: status for status, event in STATUS_EVENTS.items() if status.is_terminal}
_SHOWN = 120  # characters of a run that is not known


class RunQuery(Struct, frozen=True, kw_only=True):
    """Which run."""

    workspace: str
    kind: RunKind
    id: str


class ReportedState(Struct, frozen=True, kw_only=True):
    """A state that a run has reached, when, and who reported it.

    ``at``, ``not_before`` and ``not_after`` are the workspace's time, the latter two where only
    the reads around an end are known. ``recorded_at`` is ours, ``observed_by`` the source: both
    are None where the log holds no event of it.
    """

    state: str
    at: datetime | None
    is_approximate: bool = False
    not_before: datetime | None = None
    not_after: datetime | None = None
    observed_by: Source | None = None
    recorded_at: datetime | None = None
    event_id: str | None = None


class RunPart(Struct, frozen=True, kw_only=True):
    """A run, or a job, inside a run; ``depth`` counts from 0, the run itself.

    ``kind`` is that of a run, or ``job``; a job's ``status`` may be a word that we do not know.
    """

    depth: int
    kind: str
    id: str
    name: str | None
    status: str
    created_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    duration_seconds: float | None
    approximate: tuple[str, ...] = ()
    reason: str | None = None


class AlertAbout(Struct, frozen=True, kw_only=True):
    """An open alert about a run, or about what it is part of."""

    fingerprint: str
    name: str


class RunDetails(Struct, frozen=True, kw_only=True):
    """A run. ``children`` are the runs right inside, ``parents`` those around, outermost first.

    ``parts`` are the run itself and all that is inside, in the order of a tree; ``parts_hidden``
    counts those beyond the first.
    """

    run: RunView
    children: tuple[RunView, ...]
    parents: tuple[RunView, ...]
    transitions: tuple[ReportedState, ...]
    parts: tuple[RunPart, ...]
    parts_hidden: int
    alerts: tuple[AlertAbout, ...]


@view("run", "/api/v1/runs/{workspace}/{kind}/{id}", "A run, its states, and what is inside it.")
async def run_details_view(sources: ViewSources, query: RunQuery) -> RunDetails:
    key = RunKey(query.workspace, query.kind, query.id)
    stored = (await sources.runs.runs([key])).get(key)
    if stored is None:
        sources.refuse_unknown(key.workspace, status=404)
        raise ProblemDetails(404, f"run {str(key)[:_SHOWN]} is not known, or was forgotten")
    active = sources.live.active_run(key)
    run = stored if active is None else active.run
    children = await sources.runs.children(key)
    tree = await _tree(sources, run, children)
    # A plan run of a hundred flow runs has thousands of parts.
    found = [
        part async for depth, inner in in_slices(tree) for part in _with_jobs(sources, depth, inner)
    ]
    parts = found[:_MOST_PARTS]
    return RunDetails(
        run=run_view(sources, run),
        children=await run_views(sources, children),
        parents=await _parents(sources, run),
        transitions=await _transitions(sources, run),
        parts=tuple(parts),
        parts_hidden=len(found) - len(parts),
        alerts=await _alerts(sources, run),
    )


async def _alerts(sources: ViewSources, run: RunState) -> tuple[AlertAbout, ...]:
    around = {run.key.id, run.parents.flow_run, run.parents.plan_run}
    return tuple(
        [
            AlertAbout(fingerprint=alert.fingerprint, name=alert.name)
            async for alert in in_slices(sources.alerting.snapshot().alerts)  # thousands
            if alert.state is not AlertState.RESOLVED
            and alert.run is not None
            and alert.run.workspace == run.key.workspace
            and alert.run.id in around
        ]
    )


@view(
    "run_explanation",
    "/api/v1/runs/{workspace}/{kind}/{id}/explanation",
    "Why people were notified of a run, or why not.",
)
async def run_explanation_view(sources: ViewSources, query: RunQuery) -> Explanation:
    key = RunKey(query.workspace, query.kind, query.id)
    explanation = await sources.alerting.explain_run(key)
    if explanation is None:
        raise ProblemDetails(404, f"run {str(key)[:_SHOWN]} is not known, or was forgotten")
    return sources.as_read(explanation)


async def _parents(sources: ViewSources, run: RunState) -> tuple[RunView, ...]:
    around = (
        (RunKind.PLAN_RUN, run.parents.plan_run),
        (RunKind.FLOW_RUN, run.parents.flow_run),
    )
    keys = [RunKey(run.key.workspace, kind, key) for kind, key in around if key is not None]
    stored = await sources.runs.runs(keys)
    return await run_views(sources, (stored[key] for key in keys if key in stored))


async def _transitions(sources: ViewSources, run: RunState) -> tuple[ReportedState, ...]:
    ids = run_event_ids(run.key, _EVENTS, corrections=run.corrections)
    recorded = (await sources.runs.events_by_id(ids)).values()
    events = [
        found.event
        for found in sorted(recorded, key=lambda each: each.position)
        if isinstance(found.event, RunEvent)
    ]
    return tuple(transitions_of(run, events))


async def _tree(
    sources: ViewSources, run: RunState, children: Sequence[RunState]
) -> list[tuple[int, RunState]]:
    """Return the run and all inside it in the order of a tree, each with its depth."""
    inside: dict[RunKey, list[RunState]] = {run.key: list(children)}
    flow_runs = [child for child in children if child.key.kind is RunKind.FLOW_RUN]
    for flow_run in flow_runs[:_MOST_FLOW_RUNS]:
        inside[flow_run.key] = await sources.runs.children(flow_run.key)
    # The parts of a flow run name the plan run around it too: each is shown at its nearest.
    nested = {part.key for flow_run in flow_runs for part in inside.get(flow_run.key, ())}
    rows, seen = [(0, run)], {run.key}
    for child in children:
        if child.key in nested | seen:
            continue
        seen.add(child.key)
        rows.append((1, child))
        for part in inside.get(child.key, ()):
            if part.key not in seen:
                seen.add(part.key)
                rows.append((2, part))
    return rows


def _with_jobs(sources: ViewSources, depth: int, run: RunState) -> list[RunPart]:
    """Return a run, and the jobs of a job group."""
    active = sources.live.active_run(run.key)
    run = run if active is None else active.run
    row = run_view(sources, run)
    part = filled(RunPart, row, depth=depth, name=row.recipe or row.pipeline)
    jobs = run.jobs.records if run.jobs is not None else ()
    is_current = run.detailed or not run.status.is_terminal
    return [part, *(_job(depth + 1, job, is_current=is_current) for job in jobs)]


def _job(depth: int, job: JobRecord, *, is_current: bool) -> RunPart:
    """``is_current`` False: it was read before the end of its run, which it may have reached."""
    seconds = None
    if job.started_at is not None and job.ended_at is not None:
        seconds = max(0.0, (job.ended_at - job.started_at).total_seconds())
    return RunPart(
        depth=depth,
        kind="job",
        id=job.id,
        name=job.job_type,
        status=job.status if is_current or job.status in _ENDS else "unknown",
        created_at=None,
        started_at=job.started_at,
        finished_at=job.ended_at,
        duration_seconds=seconds,
        approximate=job.approximate,
    )


def transitions_of(run: RunState, events: Sequence[RunEvent]) -> list[ReportedState]:
    """Return the states that a run has reached, in their order, with the events of them.

    ``events`` are in the order of the log.
    """
    by_id = {event.id: event for event in events}
    of_type = {event.type: event for event in events}
    started = of_type.get(EventType.RUN_STARTED)
    rows = [
        _transition(
            run, Status.PENDING, of_type.get(EventType.RUN_QUEUED), run.created_at, "created_at"
        )
    ]
    if run.started_at is not None or started is not None:
        rows.append(_transition(run, Status.RUNNING, started, run.started_at, "started_at"))
    last = by_id.get(end_event_id(run)) if run.status.is_terminal else None
    rows += [  # which a callback or the workspace reported, and the workspace then corrected
        _transition(run, _END_OF[event.type], event, event.occurred_at)
        for event in events
        if event.type in _END_OF and event is not last
    ]
    if run.status.is_terminal:
        row = _transition(run, run.status, last, run.finished_at, "finished_at")
        if run.finished_at is None:
            row = replace(row, not_before=run.unfinished_at, not_after=run.end_seen_at)
        rows.append(row)
    rows += [
        ReportedState(
            state=event.type.removeprefix("run."),
            at=None,
            observed_by=event.observed_by,
            recorded_at=event.recorded_at,
            event_id=event.id,
        )
        for event_type in (EventType.RUN_CONFIRMED, EventType.RUN_CORRECTED)
        for event in events
        if event.type is event_type
    ]
    return rows


def _transition(
    run: RunState,
    status: Status,
    event: RunEvent | None,
    at: datetime | None,
    name: str = "",
) -> ReportedState:
    state = {Status.PENDING: "queued", Status.RUNNING: "started"}.get(status, status.value)
    is_end = status.is_terminal and status is run.status
    return ReportedState(
        state=state,
        at=at,
        is_approximate=name in run.approximate,
        observed_by=event.observed_by if event else run.ended_by if is_end else None,
        recorded_at=event.recorded_at if event else None,
        event_id=event.id if event else None,
    )


def run_page_title(query: RunQuery) -> str:
    return f"{query.kind.replace('_', ' ').capitalize()} {query.id}"

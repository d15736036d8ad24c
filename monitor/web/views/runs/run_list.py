"""Runs, newest first, with filters; and which pipelines fail most."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct

from monitor.model.alerts import PipelineOfKind
from monitor.model.runs import RUN_KINDS, PipelineKind, RunKey, RunKind, RunState, Status
from monitor.model.slices import in_slices
from monitor.web.http.instants import since_of, until_of
from monitor.web.http.problem_details import ProblemDetails
from monitor.web.http.request_parsing import cursor_after, read_cursor
from monitor.web.views.runs.run_views import RunView, run_view, run_views, without_parts
from monitor.web.views.view import ViewSources, view

_PIPELINES = 500  # whose names fit a text
LIST = "runs by creation"
PIPELINE = "The id of flows or plans, or a part of their names in any case."
SINCE = "Created since: an ISO 8601 instant, or how long ago, such as 24h or 7d."
UNTIL = "Created before, in the same forms."
_STATUS = "One status; active are those that are pending or running."
_ACTIVE = (Status.PENDING, Status.RUNNING)

PipelineIdentity = tuple[str, PipelineKind, str]  # workspace, kind, id

_READ = 1_000  # runs
_SHOWN = 10  # pipelines
_USUAL = timedelta(days=7)


class RunFilter(StrEnum):
    """A status, or all of those that runs have before they end."""

    ACTIVE = "active"
    PENDING = "pending"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELED = "canceled"
    LOST = "lost"

    @property
    def statuses(self) -> tuple[Status, ...]:
        return _ACTIVE if self is RunFilter.ACTIVE else (Status(self.value),)


class RunsQuery(Struct, frozen=True, kw_only=True):
    """Which runs."""

    workspace: str | None = None
    kind: RunKind | None = None
    status: Annotated[RunFilter, Meta(description=_STATUS)] | None = None
    pipeline: Annotated[str, Meta(description=PIPELINE)] | None = None
    since: Annotated[str, Meta(description=SINCE)] | None = None
    until: Annotated[str, Meta(description=UNTIL)] | None = None
    cursor: str | None = None
    limit: Annotated[int, Meta(ge=1, le=1_000)] = 100


class RunsAnswer(Struct, frozen=True, kw_only=True):
    """Runs, newest creation first. ``fitting`` counts the pipelines whose names fit.

    Where more than ``searched`` fit, only the runs of so many of them are there. Both are None
    where no pipeline is asked for.
    """

    data: tuple[RunView, ...]
    next: str | None
    fitting: int | None
    searched: int | None


@view("runs", "/api/v1/runs", "Runs, newest first.")
async def runs_view(sources: ViewSources, query: RunsQuery) -> RunsAnswer:
    now = sources.clock.now()
    since = since_of(query.since, now=now)
    fitting = await matching_pipelines(sources, query.workspace, query.pipeline)
    searched = None if fitting is None else fitting[:_PIPELINES]
    runs = await sources.runs.recent_runs(
        workspaces=None if query.workspace is None else [query.workspace],
        kind=query.kind,
        statuses=() if query.status is None else query.status.statuses,
        pipelines=None if searched is None else runs_of(searched),
        since=since,
        until=until_of(query.until, since=since, now=now),
        before=await place_of(sources, LIST, query.cursor),
        limit=query.limit + 1,
    )
    shown = runs[: query.limit]
    if not shown:
        sources.refuse_unknown(query.workspace)
    return RunsAnswer(
        data=await run_views(sources, shown),
        next=cursor_of(LIST, shown[-1]) if len(runs) > len(shown) else None,
        fitting=None if fitting is None else len(fitting),
        searched=None if searched is None else len(searched),
    )


async def matching_pipelines(
    sources: ViewSources, workspace: str | None, text: str | None
) -> list[PipelineIdentity] | None:
    """Return the pipelines that have that id, or the text in their names; None without a text.

    Those that the workspace lists no longer are found by their id, as long as runs are stored.
    """
    if text is None:
        return None
    folded = text.casefold()
    fitting = {
        (pipeline.workspace, pipeline.kind, pipeline.id): None
        async for pipeline in in_slices(sources.live.pipelines())  # ten thousand
        if workspace in (None, pipeline.workspace)
        and (text == pipeline.id or folded in pipeline.label.casefold())
    }
    workspaces = sources.workspace_names
    with_id: list[PipelineIdentity] = [
        (name, kind, text)
        for name in (workspaces if workspace is None else [workspace])
        for kind in PipelineKind
    ]
    stored = await sources.runs.pipeline_runs(runs_of(with_id), limit=1)
    unlisted = [key for key in with_id if any(stored.get(kind) for kind in runs_of([key]))]
    return list(dict.fromkeys([*unlisted, *fitting]))


def runs_of(pipelines: Sequence[PipelineIdentity]) -> list[PipelineOfKind]:
    """Return what the runs of pipelines are found by."""
    return [
        (workspace, run_kind, pipeline_id)
        for workspace, kind, pipeline_id in pipelines
        for run_kind in RUN_KINDS[kind]
    ]


def cursor_of(list_name: str, run: RunState) -> str:
    return cursor_after(list_name, (run.key.workspace, run.key.kind, run.key.id))


async def place_of(sources: ViewSources, list_name: str, cursor: str | None) -> RunKey | None:
    """Return the run after which a list goes on.

    Raises:
        ProblemDetails: the cursor is none of this list, or retention has removed its run.
    """
    place = read_cursor(list_name, cursor, tuple[str, RunKind, str])
    if place is None:
        return None
    key = RunKey(*place)
    if key not in await sources.runs.runs([key]):
        raise ProblemDetails(
            400, "cursor: the run after which it goes on is no longer stored; leave it out"
        )
    return key


class FailuresQuery(Struct, frozen=True, kw_only=True):
    """Pipelines and time, as in the list of runs; seven days by default."""

    workspace: str | None = None
    pipeline: Annotated[str, Meta(description=PIPELINE)] | None = None
    since: Annotated[str, Meta(description=SINCE)] | None = None
    until: Annotated[str, Meta(description=UNTIL)] | None = None


class FailingPipeline(Struct, frozen=True, kw_only=True):
    """A pipeline, how many runs of it have failed, and the newest of them."""

    workspace: str
    kind: PipelineKind
    id: str
    pipeline: str
    failed: int
    newest: RunView


class FailuresAnswer(Struct, frozen=True, kw_only=True):
    """The pipelines with the most failed runs first. A flow run and its parts count as one.

    ``of_unknown`` of the failed runs are of pipelines that are not known, and in no row.
    ``is_complete`` is false where only the newest failures were counted.
    """

    data: tuple[FailingPipeline, ...]
    next: str | None
    since: datetime
    failed: int  # runs
    of_unknown: int  # of them
    pipelines: int  # known, with failures
    is_complete: bool


@view("failures", "/api/v1/failures", "The pipelines that have failed most.")
async def failures_view(sources: ViewSources, query: FailuresQuery) -> FailuresAnswer:
    now = sources.clock.now()
    since = since_of(query.since, now=now)
    until = until_of(query.until, since=since, now=now)
    since = since or (until or now) - _USUAL
    fitting = await matching_pipelines(sources, query.workspace, query.pipeline)
    runs = await sources.runs.recent_runs(
        workspaces=None if query.workspace is None else [query.workspace],
        statuses=[Status.FAILED],
        pipelines=None if fitting is None else runs_of(fitting[:_READ]),
        since=since,
        until=until,
        limit=_READ,
    )
    failures: defaultdict[PipelineIdentity, list[RunState]] = defaultdict(list)
    of_unknown = 0
    for run in await without_parts(sources.runs, runs):
        if run.pipeline is None:
            of_unknown += 1
        else:
            identity = (run.key.workspace, run.pipeline.kind, run.pipeline.id)
            failures[identity].append(run)
    # Of equal counts the pipeline that failed last stands first, as the runs do.
    worst = sorted(failures.items(), key=lambda item: -len(item[1]))[:_SHOWN]
    return FailuresAnswer(
        data=tuple(
            FailingPipeline(
                workspace=workspace,
                kind=kind,
                id=pipeline_id,
                pipeline=newest.pipeline,
                failed=len(failed),
                newest=newest,
            )
            for (workspace, kind, pipeline_id), failed in worst
            for newest in (run_view(sources, failed[0]),)
        ),
        next=None,
        since=since,
        failed=sum(map(len, failures.values())) + of_unknown,
        of_unknown=of_unknown,
        pipelines=len(failures),
        is_complete=len(runs) < _READ,
    )

"""The pipelines that have failed most."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime, timedelta
from typing import Annotated

from msgspec import Meta, Struct

from monitor.model.runs import PipelineKind, RunState, Status
from monitor.web.views.runs.run_list import (
    PIPELINE,
    SINCE,
    PipelineIdentity,
    matching_pipelines,
    runs_of,
    since_of,
)
from monitor.web.views.runs.run_views import RunView, run_view, without_parts
from monitor.web.views.sources import ViewSources
from monitor.web.views.view import view

_READ = 1_000  # runs
_SHOWN = 10  # pipelines
_USUAL = timedelta(days=7)


class FailuresQuery(Struct, frozen=True, kw_only=True):
    """Of which pipelines, as in the list of runs; of the last seven days where nothing is said."""

    workspace: str | None = None
    pipeline: Annotated[str, Meta(description=PIPELINE)] | None = None
    since: Annotated[str, Meta(description=SINCE)] | None = None


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
    since = since_of(query.since, now=now) or now - _USUAL
    fitting = await matching_pipelines(sources, query.workspace, query.pipeline)
    runs = await sources.runs.recent_runs(
        workspace=query.workspace,
        statuses=[Status.FAILED],
        pipelines=None if fitting is None else runs_of(fitting[:_READ]),
        since=since,
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

"""The runs of one pipeline in a stretch of time, page by page."""

from __future__ import annotations

from msgspec import Struct

from monitor.model.runs import RUN_KINDS, Pipeline, RunKey, RunState
from monitor.web.views.pipelines.pipeline_details import refuse_unknown_pipeline
from monitor.web.views.pipelines.pipeline_query import PipelineRunsQuery
from monitor.web.views.runs.run_list import cursor_of, place_of
from monitor.web.views.runs.run_views import RunView, run_views, without_parts
from monitor.web.views.sources import ViewSources
from monitor.web.views.view import view

_LIST = "runs of a pipeline by creation"
_READS = 10  # of a page whose runs have many parts


class PipelineRuns(Struct, frozen=True, kw_only=True):
    """Runs of a pipeline, newest creation first, without those inside another one."""

    data: tuple[RunView, ...]
    next: str | None


@view(
    "pipeline_runs",
    "/api/v1/pipelines/{workspace}/{kind}/{id}/runs",
    "The runs of a flow or plan, newest first.",
)
async def pipeline_runs_view(sources: ViewSources, query: PipelineRunsQuery) -> PipelineRuns:
    before = await place_of(sources, _LIST, query.cursor)
    shown, last = await _page(sources, query, before)
    if not shown and query.cursor is None:
        pipeline = Pipeline(kind=query.kind, id=query.id)
        if not await _has_runs(sources, query):
            refuse_unknown_pipeline(sources, query.workspace, pipeline)
    return PipelineRuns(
        data=await run_views(sources, shown),
        next=None if last is None else cursor_of(_LIST, last),
    )


async def _page(
    sources: ViewSources, query: PipelineRunsQuery, before: RunKey | None
) -> tuple[list[RunState], RunState | None]:
    """Return the runs of a page, and the run after which another one goes on if it does."""
    shown: list[RunState] = []
    since = sources.clock.now() - query.range.length
    size = 2 * query.limit
    for _ in range(_READS):
        runs = await sources.runs.recent_runs(
            pipelines=[(query.workspace, kind, query.id) for kind in RUN_KINDS[query.kind]],
            since=since,
            before=before,
            limit=size,
        )
        for run in await without_parts(sources.runs, runs):
            if len(shown) == query.limit:
                return shown, shown[-1]
            shown.append(run)
        if len(runs) < size:
            return shown, None
        before = runs[-1].key
    return shown, runs[-1]


async def _has_runs(sources: ViewSources, query: PipelineRunsQuery) -> bool:
    identities = [(query.workspace, kind, query.id) for kind in RUN_KINDS[query.kind]]
    return bool(await sources.runs.recent_runs(pipelines=identities, limit=1))

"""The runs of one pipeline in a stretch of time, page by page."""

from __future__ import annotations

from msgspec import Struct

from monitor.model.runs import Pipeline, RunKey, RunState
from monitor.web.views.pipelines.pipeline_details import refuse_unknown_pipeline
from monitor.web.views.pipelines.pipeline_query import PipelineRunsQuery
from monitor.web.views.runs.run_list import cursor_of, place_of
from monitor.web.views.runs.run_rows import KINDS_OF, RunRows, without_parts
from monitor.web.views.sources import ViewSources
from monitor.web.views.view import View
from monitor.web.views.view_models import RunView

_LIST = "runs of a pipeline by creation"
_READS = 10  # of a page whose runs have many parts


class PipelineRuns(Struct, frozen=True, kw_only=True):
    """Runs of a pipeline, newest creation first, without those inside another one."""

    data: tuple[RunView, ...]
    next: str | None


class PipelineRunsReader:
    """Reads the runs of a pipeline by index."""

    def __init__(self, sources: ViewSources) -> None:
        self._sources = sources
        self._rows = RunRows(sources)

    async def read(self, query: PipelineRunsQuery) -> PipelineRuns:
        before = await place_of(self._sources, _LIST, query.cursor)
        shown, last = await self._page(query, before)
        if not shown and query.cursor is None:
            pipeline = Pipeline(kind=query.kind, id=query.id)
            if not await self._has_runs(query):
                refuse_unknown_pipeline(self._sources, query.workspace, pipeline)
        return PipelineRuns(
            data=await self._rows.rows(shown),
            next=None if last is None else cursor_of(_LIST, last),
        )

    async def _page(
        self, query: PipelineRunsQuery, before: RunKey | None
    ) -> tuple[list[RunState], RunState | None]:
        """Return the runs of a page, and the run behind which another one goes on if it does."""
        shown: list[RunState] = []
        since = self._sources.clock.now() - query.range.length
        size = 2 * query.limit
        for _ in range(_READS):
            runs = await self._sources.runs.recent_runs(
                pipelines=[(query.workspace, kind, query.id) for kind in KINDS_OF[query.kind]],
                since=since,
                before=before,
                limit=size,
            )
            for run in await without_parts(self._sources.runs, runs):
                if len(shown) == query.limit:
                    return shown, shown[-1]
                shown.append(run)
            if len(runs) < size:
                return shown, None
            before = runs[-1].key
        return shown, runs[-1]

    async def _has_runs(self, query: PipelineRunsQuery) -> bool:
        identities = [(query.workspace, kind, query.id) for kind in KINDS_OF[query.kind]]
        return bool(await self._sources.runs.recent_runs(pipelines=identities, limit=1))


def pipeline_runs_view(sources: ViewSources) -> View:
    return View(
        name="pipeline_runs",
        summary="The runs of a flow or plan, newest first.",
        api="/api/v1/pipelines/{workspace}/{kind}/{id}/runs",
        query=PipelineRunsQuery,
        answer=PipelineRuns,
        read=PipelineRunsReader(sources).read,
    )

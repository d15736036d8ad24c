"""The deadlines of pipelines, as rules of the configuration have them."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from monitor.model.alerts import PipelineDeadlines
from monitor.model.runs import Pipeline, PipelineKind, RunKind
from monitor.model.slices import in_slices
from monitor.web.views.schedules.schedule_list import is_meant
from monitor.web.views.view import ViewSources

_SHOWN = 100


class DeadlineOfPipeline(Struct, frozen=True, kw_only=True):
    """A flow or plan with deadlines: the next one, and one that is missed and not made up for."""

    workspace: str
    kind: PipelineKind
    id: str
    name: str
    next_at: datetime | None  # this and the next: workspace time
    missed_at: datetime | None
    met: int
    missed: int


async def deadline_list(
    sources: ViewSources, *, workspace: str | None, text: str | None
) -> tuple[DeadlineOfPipeline, ...]:
    """Return the pipelines that are meant, missed ones first, then by the next deadline."""
    statuses = {status.workspace: status for status in sources.workspaces(workspace)}
    found: list[DeadlineOfPipeline] = []
    deadlines = sources.alerting.snapshot().deadlines
    async for (name, run_kind, pipeline_id), known in in_slices(list(deadlines.items())):
        kind = PipelineKind.PLAN if run_kind is RunKind.PLAN_RUN else PipelineKind.FLOW
        pipeline, status = Pipeline(kind=kind, id=pipeline_id), statuses.get(name)
        if status is not None and (text is None or is_meant(sources, text, status, pipeline)):
            found.append(_of_pipeline(sources, name, pipeline, known))
    return tuple(sorted(found, key=_order)[:_SHOWN])


def _of_pipeline(
    sources: ViewSources, workspace: str, pipeline: Pipeline, known: PipelineDeadlines
) -> DeadlineOfPipeline:
    return DeadlineOfPipeline(
        workspace=workspace,
        kind=pipeline.kind,
        id=pipeline.id,
        name=sources.live.label(workspace, pipeline),
        next_at=known.next_at,
        missed_at=known.missed_at,
        met=known.met,
        missed=known.missed,
    )


def _order(row: DeadlineOfPipeline) -> tuple[bool, bool, float, str, str]:
    due = 0.0 if row.next_at is None else row.next_at.timestamp()
    return row.missed_at is None, row.next_at is None, due, row.workspace, row.id

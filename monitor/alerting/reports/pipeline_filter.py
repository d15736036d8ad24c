"""Selects the pipelines and runs that a report is about, by the names that they have now."""

from __future__ import annotations

from collections.abc import Iterable

from monitor.alerting.reports.settings import ReportMatch
from monitor.model.globs import Globs, parse_globs
from monitor.model.runs import Pipeline, RunState
from monitor.tracking.live_state import LiveStateView


class PipelineFilter:
    """Made for one report: what it once found of a pipeline stays so."""

    def __init__(self, match: ReportMatch, view: LiveStateView) -> None:
        self._view = view
        self._globs: dict[str, Globs] = {
            name: parse_globs(globs)
            for name in match.__struct_fields__
            if (globs := getattr(match, name))
        }
        self._known: dict[tuple[str, Pipeline, str | None], bool] = {}

    def takes_workspace(self, name: str) -> bool:
        return self._fits("workspace", (name,))

    def takes(self, workspace: str, pipeline: Pipeline, *, owner: str | None = None) -> bool:
        """True where a pipeline of a workspace that is taken fits; ``owner`` is of a run."""
        key = (workspace, pipeline, owner)
        if key not in self._known:
            folder, own = self._view.place(workspace, pipeline)
            words = (self._view.label(workspace, pipeline), pipeline.id)
            self._known[key] = self._all_fit(words, folder=folder, owner=own or owner)
        return self._known[key]

    def takes_run(self, run: RunState) -> bool:
        """True where a run of a workspace that is taken fits."""
        if run.pipeline is None:
            words = (self._view.label(run.key.workspace, None),)
            return self._all_fit(words, folder=None, owner=run.owner)
        return self.takes(run.key.workspace, run.pipeline, owner=run.owner)

    def _all_fit(self, names: Iterable[str], *, folder: str | None, owner: str | None) -> bool:
        return (
            self._fits("pipeline", names)
            and self._fits("folder", (folder or "",))
            and self._fits("owner", (owner or "",))
        )

    def _fits(self, name: str, words: Iterable[str]) -> bool:
        globs = self._globs.get(name)
        return globs is None or globs.match(words)

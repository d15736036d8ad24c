"""Where the monitor cannot see: workspaces that are unreachable, degraded or blind, and why."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from monitor.alerting.explain.never_shown import why_limited
from monitor.model.live_state import Reachability, WorkspaceStatus
from monitor.model.runs import PipelineKind, RunKind
from monitor.model.shapes import filled
from monitor.web.http.request_parsing import refuse_unknown
from monitor.web.views.overview.overview import Overview
from monitor.web.views.overview.pipeline_rows import PipelineCondition
from monitor.web.views.overview.recent_overview import RecentOverview
from monitor.web.views.overview.unseen import why_unseen
from monitor.web.views.sources import ViewSources
from monitor.web.views.view import View
from monitor.web.views.watching import unwatched

_WORDS_OF: dict[str, str] = {
    RunKind.JOB_GROUP: "job groups",
    RunKind.FLOW_RUN: "flow runs",
    RunKind.PLAN_RUN: "plan runs",
}
_WORST_FIRST = {
    Reachability.UNREACHABLE: 0,
    Reachability.UNKNOWN: 1,
    Reachability.DEGRADED: 2,
    Reachability.REACHABLE: 3,
}


class TroubleQuery(Struct, frozen=True, kw_only=True):
    """Of one workspace, or of all."""

    workspace: str | None = None


class WorkspaceTrouble(Struct, frozen=True, kw_only=True):
    """A workspace that cannot be seen wholly. Instants are ours."""

    workspace: str
    reachability: Reachability
    since: datetime | None
    known_at: datetime | None  # when it last answered
    reason: str
    unseen: tuple[str, ...]  # of what nothing new is seen
    unknown: int  # pipelines whose state nobody knows therefore


class RuleInTrouble(Struct, frozen=True, kw_only=True):
    """A rule whose evaluation fails: its alerts stand still."""

    rule: str
    reason: str


class TroubleList(Struct, frozen=True, kw_only=True):
    """Nothing in ``data`` and ``rules``: everything is seen and judged."""

    data: tuple[WorkspaceTrouble, ...]
    next: None
    rules: tuple[RuleInTrouble, ...]


class TroubleReader:
    """Reads live state and the snapshot of alerting."""

    def __init__(self, sources: ViewSources, recent: RecentOverview) -> None:
        self._sources = sources
        self._recent = recent

    async def read(self, query: TroubleQuery) -> TroubleList:
        overview = await self._recent.get()
        statuses = self._sources.live.workspaces()
        if query.workspace is not None:
            refuse_unknown(query.workspace, [status.workspace for status in statuses])
        found = [
            trouble
            for status in statuses
            if query.workspace in (None, status.workspace)
            and (trouble := self._trouble(status, overview)) is not None
        ]
        found.sort(key=lambda trouble: (_WORST_FIRST[trouble.reachability], trouble.workspace))
        failing = self._sources.alerting.snapshot().failing_rules
        rules = tuple(RuleInTrouble(rule=rule, reason=reason) for rule, reason in failing.items())
        return TroubleList(data=tuple(found), next=None, rules=rules)

    def _trouble(self, status: WorkspaceStatus, overview: Overview) -> WorkspaceTrouble | None:
        name = status.workspace
        unknown = overview.count(PipelineCondition.UNKNOWN, name)
        found = unwatched(self._sources.live, status)
        unseen = tuple(_WORDS_OF.get(known.what, known.what) for known in found)
        is_well = status.reachability is Reachability.REACHABLE and why_limited(status) is None
        is_seen = why_unseen(self._sources.live, overview, status) is None
        if is_well and is_seen and not unknown:
            return None
        reasons = (
            status.reason,
            *(known.reason for known in found),
            *(overview.blind.get((name, kind)) for kind in PipelineKind),
            *(unshared.reason for unshared in status.unshared.values()),
            "it has not answered yet",
        )
        reason = next(reason for reason in reasons if reason)
        return filled(WorkspaceTrouble, status, reason=reason, unseen=unseen, unknown=unknown)


def trouble_view(sources: ViewSources, recent: RecentOverview) -> View:
    return View(
        name="trouble",
        summary="Workspaces that are unreachable, degraded or blind.",
        api="/api/v1/trouble",
        query=TroubleQuery,
        answer=TroubleList,
        read=TroubleReader(sources, recent).read,
    )

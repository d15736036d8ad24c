"""Workspaces that are unreachable, degraded or unwatched, and why."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from monitor.alerting.explain.never_shown import why_limited
from monitor.model.live_state import Reachability, WorkspaceStatus
from monitor.model.runs import PipelineKind, RunKind
from monitor.model.shapes import filled
from monitor.web.views.overview.overview import Overview
from monitor.web.views.overview.pipeline_state import PipelineCondition
from monitor.web.views.overview.recent_overview import RecentOverview
from monitor.web.views.overview.unseen import why_unseen
from monitor.web.views.sources import ViewSources
from monitor.web.views.view import view
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


@view("trouble", "/api/v1/trouble", "Workspaces that are unreachable, degraded or blind.")
async def trouble_view(sources: ViewSources, query: TroubleQuery) -> TroubleList:
    overview = await sources.shared(RecentOverview).get()
    found = [
        trouble
        for status in sources.workspaces(query.workspace)
        if (trouble := _trouble(sources, status, overview)) is not None
    ]
    found.sort(key=lambda trouble: (_WORST_FIRST[trouble.reachability], trouble.workspace))
    failing = sources.alerting.snapshot().failing_rules
    rules = tuple(RuleInTrouble(rule=rule, reason=reason) for rule, reason in failing.items())
    return TroubleList(data=tuple(found), next=None, rules=rules)


def _trouble(
    sources: ViewSources, status: WorkspaceStatus, overview: Overview
) -> WorkspaceTrouble | None:
    name = status.workspace
    unknown = overview.count(PipelineCondition.UNKNOWN, name)
    found = unwatched(sources.live, status)
    unseen = tuple(_WORDS_OF.get(known.what, known.what) for known in found)
    is_well = status.reachability is Reachability.REACHABLE and why_limited(status) is None
    is_seen = why_unseen(sources.live, overview, status) is None
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

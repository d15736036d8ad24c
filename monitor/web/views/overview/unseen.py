"""Why a workspace is not seen wholly, in words: what the state of everything must not hide."""

from __future__ import annotations

from monitor.model.live_state import Reachability, WorkspaceStatus
from monitor.model.runs import PipelineKind
from monitor.tracking.live_state import WATCHED_BY, LiveStateView
from monitor.web.views.overview.pipeline_index import PipelineIndex
from monitor.web.views.overview.pipeline_states import PipelineCondition
from monitor.web.views.watching import why_blind

_WHY_CHARACTERS = 80


def why_unseen(live: LiveStateView, index: PipelineIndex, status: WorkspaceStatus) -> str | None:
    """Return such as "acme is unreachable", None where blindness hides nothing.

    Runs of plans that were never read hide nothing where no plan is known: an edition may have
    none. Runs of flows hide flows that nobody knows of: every edition has them.
    """
    name = status.workspace
    if status.reachability is Reachability.UNREACHABLE:
        return f"{name} {status.how_unreachable}"
    if status.reachability is Reachability.UNKNOWN:
        return f"{name} has not answered yet"
    blind = index.blind()
    if (never := why_blind(status)) is not None:
        return f"{name}: {never[:_WHY_CHARACTERS]}"
    whys = [blind.get((name, PipelineKind.FLOW))]
    if index.count(PipelineCondition.UNKNOWN, name):
        whys.append(blind.get((name, PipelineKind.PLAN)))
    whys += [live.why_unwatched(name, what) for what in WATCHED_BY]
    whys.append(index.why_starved(name))
    why = next((why for why in whys if why is not None), None)
    return None if why is None else f"{name}: {why[:_WHY_CHARACTERS]}"

"""The health of a flow or plan as such, from that of what ran it. Pure.

A flow is run by flow runs and by job groups that run alone; each of these is a run of it, and the
newest end is the last one, by when they ended. A job group inside a flow run is a part of that run
and no run of its own, save while nothing is known of the flow run but its job groups.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from monitor.model.ends import RunEnd, newest_success, open_failures
from monitor.model.live_state import PipelineHealth
from monitor.model.runs import RunKind, Status

BAD = frozenset({Status.FAILED, Status.LOST})
_WORST_LAST = (Status.SUCCEEDED, Status.CANCELED, Status.LOST, Status.FAILED)


class OverallHealth(Struct, frozen=True, kw_only=True, gc=False):
    """How the newest runs of a flow or plan ended.

    It is failing while a part of it is: a recipe whose job groups run alone, or its runs as a
    whole. What another part does later clears nothing, nor does a canceled or lost run.
    """

    last: RunEnd | None = None  # the newest end
    last_kind: RunKind | None = None  # of the run that it is of
    last_started_at: datetime | None = None  # of any run
    last_success_at: datetime | None = None
    consecutive_failures: int = 0  # the most of any part
    is_failing: bool = False


class _Run(NamedTuple):
    end: RunEnd
    kind: RunKind


class _Part(NamedTuple):
    """What fails and recovers by itself."""

    last: RunEnd | None  # the last end that counts
    failures: int  # in a row


def overall_health(
    healths: Sequence[PipelineHealth], *, is_active: Callable[[str], bool]
) -> OverallHealth:
    """Return the health of one flow or plan.

    ``is_active`` says of a flow run, by its id, that it is known and has not ended.
    """
    recipes = [health for health in healths if health.run_kind is RunKind.JOB_GROUP]
    whole = next((health for health in healths if health.run_kind is not RunKind.JOB_GROUP), None)
    own = () if whole is None else whole.ends
    unread = _unread(recipes, own, is_active)
    parts = [_part_of_whole(whole, own, unread), *map(_part_of_recipe, recipes)]
    runs = [_Run(end, RunKind.JOB_GROUP) for end in unread]
    runs += [_Run(end, RunKind.JOB_GROUP) for health in recipes for end in _alone(health)]
    if whole is not None:
        runs += [_Run(end, whole.run_kind) for end in own]
    last = max(runs, key=lambda run: run.end.order, default=None)
    success = newest_success(run.end for run in runs)
    started = (health.last_started_at for health in healths)
    return OverallHealth(
        last=None if last is None else last.end,
        last_kind=None if last is None else last.kind,
        last_started_at=max((at for at in started if at is not None), default=None),
        last_success_at=None if success is None else success.at,
        consecutive_failures=max(part.failures for part in parts),
        is_failing=any(
            part.failures > 0 or (part.last is not None and part.last.status in BAD)
            for part in parts
        ),
    )


def newest_of(healths: Iterable[PipelineHealth]) -> PipelineHealth | None:
    """Return the health with the newest end; None where nothing has ended."""
    ended = (health for health in healths if health.ends)
    return max(ended, key=lambda health: health.ends[-1].order, default=None)


def _unread(
    recipes: Iterable[PipelineHealth], own: Sequence[RunEnd], is_active: Callable[[str], bool]
) -> list[RunEnd]:
    """Return an end for each flow run that is known by its job groups alone, in order.

    Only those after the newest known flow run: older ones change nothing, and may be forgotten.
    """
    groups: defaultdict[str, list[RunEnd]] = defaultdict(list)
    known = {end.run_id for end in own}
    for health in recipes:
        for end in health.ends:
            if end.flow_run is not None and end.flow_run not in known:
                groups[end.flow_run].append(end)
    ends = [_as_one(group) for flow_run, group in groups.items() if not is_active(flow_run)]
    newer = [end for end in ends if not own or end.order > own[-1].order]
    return sorted(newer, key=lambda end: end.order)


def _as_one(group: Sequence[RunEnd]) -> RunEnd:
    """Return the end of the flow run that these job groups are: the worst, at the newest."""
    if len(group) == 1:
        return group[0]
    newest = max(group, key=lambda end: end.order)
    worst = max(group, key=lambda end: (_WORST_LAST.index(end.status), end.order))
    return replace(worst, earliest=newest.earliest, latest=newest.latest, duration_seconds=None)


def _part_of_whole(
    whole: PipelineHealth | None, own: Sequence[RunEnd], unread: Sequence[RunEnd]
) -> _Part:
    """Return the part that flow runs or plan runs are, known ones and ``unread`` after them."""
    last = unread[-1] if unread else own[-1] if own else None
    before = (
        0 if whole is None or newest_success(unread) is not None else whole.consecutive_failures
    )
    return _Part(last, before + len(open_failures(unread)))


def _part_of_recipe(health: PipelineHealth) -> _Part:
    """Return the part that a recipe is: all its successes clear, what fails alone counts."""
    counted = [end for end in health.ends if end.flow_run is None or end.status is Status.SUCCEEDED]
    last = counted[-1] if counted else None
    if len(counted) == len(health.ends):
        return _Part(last, health.consecutive_failures)
    return _Part(last, len(open_failures(counted)))


def _alone(health: PipelineHealth) -> list[RunEnd]:
    return [end for end in health.ends if end.flow_run is None]

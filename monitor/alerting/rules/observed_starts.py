"""Assigns observed starts to expected times. Pure.

Each start belongs to the newest expected time before it; a wall time that comes twice has two
passes, and either counts. A start too many there, as after a jam, makes up for an older time at
which nothing started. The parts of one start, such as the job groups of a flow whose flow run is
unknown, count once.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from itertools import pairwise

from msgspec import Struct

from monitor.alerting.rules.expected_starts import ExpectedStart
from monitor.model.events import RunEvent
from monitor.model.runs import RunKind, RunState, Trigger

# One clock of the workspace may be a little behind another one of it. Of times that lie close to
# each other it is a share of what is between them, so that a late start is not the next one.
EARLY = timedelta(seconds=60)
_EARLY_SHARE = 0.1


class ObservedStart(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One start as the workspace stamped it. ``part`` is the recipe where no flow run is known."""

    key: str
    at: datetime
    event: str = ""  # the id of the event that reported it
    part: str = ""
    is_scheduled: bool = True  # by a schedule, as far as the workspace shows


def start_of(run: RunState, *, event: RunEvent | None = None) -> ObservedStart | None:
    """Return the start that a run stands for; None where a plan started it, or no time is known.

    A plan run names its schedule or has none. A job group that names nothing may have had one.
    """
    at = run.created_at or (event.occurred_at if event is not None else None)
    if at is None or run.trigger is Trigger.PLAN or run.parents.plan_run is not None:
        return None
    key, part = f"{run.key.kind}/{run.key.id}", ""
    is_scheduled = run.trigger is Trigger.SCHEDULE
    if run.key.kind is RunKind.JOB_GROUP:
        is_scheduled = run.trigger in (Trigger.SCHEDULE, Trigger.UNKNOWN)
        if run.parents.flow_run is not None:
            key = f"{RunKind.FLOW_RUN}/{run.parents.flow_run}"
        else:
            part = run.recipe.id if run.recipe is not None else "?"
    return ObservedStart(
        key=key,
        at=at,
        event=event.id if event is not None else "",
        part=part,
        is_scheduled=is_scheduled,
    )


def assigned(
    expected: Sequence[ExpectedStart], starts: Iterable[ObservedStart]
) -> dict[datetime, list[ObservedStart]]:
    """Return the starts assigned to each expected time; a time without any is absent.

    ``expected`` is ascending. A start before all of them belongs to none.
    """
    ats = [expected_start.at for expected_start in expected]
    times = {start.again_at: start.at for start in expected if start.again_at is not None}
    times |= {at: at for at in ats}
    passes = sorted(times)
    # How much before its time a start may be stamped.
    early = min([EARLY, *((later - at) * _EARLY_SHARE for at, later in pairwise(passes))])
    starts_at: dict[datetime, list[ObservedStart]] = {}
    taken: set[tuple[datetime, str]] = set()  # passes, and the parts that started then
    spare: list[ObservedStart] = []
    for start in sorted(starts, key=lambda start: (start.at, start.key)):
        index = bisect_right(passes, start.at + early) - 1
        if index < 0:
            continue
        if (passes[index], start.part) in taken:
            spare.append(start)
        else:
            taken.add((passes[index], start.part))
            starts_at.setdefault(times[passes[index]], []).append(start)
    for start in spare:
        empty = [at for at in ats if at <= start.at and at not in starts_at]
        if empty:
            starts_at[empty[-1]] = [start]
    return starts_at

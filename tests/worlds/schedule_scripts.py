"""Adds a flow that a schedule starts, now and then with a time at which nothing starts."""

from __future__ import annotations

from tests.worlds.draft import SCRIPT_SECONDS, Draft
from tests.worlds.flow_scripts import new_flow, new_group
from tests.worlds.script import Schedule

_PERIOD_SECONDS = 120.0
_FIRST_SECONDS = (30, 100)
_MISSED_SHARE = 0.3


def add_schedule(draft: Draft) -> None:
    """Add a flow, its schedule, and the job groups that it starts."""
    flow = new_flow(draft, recipes=1)
    first = float(draft.random.randint(*_FIRST_SECONDS))
    due: list[float] = []
    starts: dict[float, int] = {}
    while (at := first + len(due) * _PERIOD_SECONDS) < SCRIPT_SECONDS:
        due.append(at)
        if draft.happens(_MISSED_SHARE):
            continue
        created = round(at + draft.between(0.2, 3), 3)
        ended = round(created + draft.between(8, 40), 3)
        group = new_group(draft, flow, flow.parts[0], created, ended, draft.end())
        draft.job_groups.append(group)
        starts[at] = group.id
    draft.schedules.append(Schedule(id=draft.new_id(), flow=flow.id, due=tuple(due), starts=starts))

"""The truth of a world: where an end sorts that the workspace stamps with another clock."""

from __future__ import annotations

import msgspec

from tests.worlds.impairments import ClockSet
from tests.worlds.script import End, PlanRun, World
from tests.worlds.truth import own_ends


def test_an_end_of_a_plan_run_before_its_start_lies_between_reads() -> None:
    """A clock that is set back while a plan run goes on stamps no end that can be true."""
    plan_run = PlanRun(
        id=6,
        plan=7,
        snapshot=8,
        flow_runs=(),
        created=40,
        started=40,
        ended=60,
        end=End.FAILED,
        shown_from=40,
        end_shown_from=60,
        children_named_from={},
    )
    clock_set = ClockSet(at=50, seconds=-30)
    world = World(seed=0, ingredients=(), plan_runs=(plan_run,), workspace_clock_set=clock_set)
    (end,) = own_ends(world, [])
    assert end.earliest <= 30
    assert end.latest >= 60
    (believed,) = own_ends(msgspec.structs.replace(world, workspace_clock_set=None), [])
    assert (believed.earliest, believed.latest) == (60, 60)

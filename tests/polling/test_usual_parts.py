"""What a flow's runs usually consist of: by when they ran, however late each of them was read."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import permutations

from monitor.model.runs import (
    Pipeline,
    PipelineKind,
    Recipe,
    RunKey,
    RunKind,
    RunState,
    Source,
    Status,
)
from monitor.polling.flow_runs.derived_ends import UsualParts

AT = datetime(2026, 11, 23, 10, tzinfo=UTC)
FLOW = Pipeline(kind=PipelineKind.FLOW, id="11", name="orders")


def run_of(hour: int, recipes: str) -> list[RunState]:
    """Return the job groups of a flow run that ran then, one for each recipe."""
    return [
        RunState(
            key=RunKey("marketing", RunKind.JOB_GROUP, f"{hour}{recipe}"),
            status=Status.SUCCEEDED,
            created_at=AT + timedelta(hours=hour),
            pipeline=FLOW,
            recipe=Recipe(id=recipe, name=None),
            confirmed_at=AT,
            confirmed_by=Source.POLL,
        )
        for recipe in recipes
    ]


def test_the_newest_runs_count_in_whatever_order_they_are_read() -> None:
    """A flow that has gained a recipe is not complete without it, though older runs come last."""
    runs = [run_of(hour, recipes) for hour, recipes in enumerate(("A", "A", "AB", "AB", "AB"))]
    for order in permutations(runs):
        usual = UsualParts()
        for run in order:
            usual.learn(run)

        ids = [run.key.id for runs_of_hour in order for run in runs_of_hour]
        assert usual.are_all(run_of(9, "AB")), ids
        assert not usual.are_all(run_of(9, "A")), ids
        assert usual.will_be_more(run_of(9, "A")), ids

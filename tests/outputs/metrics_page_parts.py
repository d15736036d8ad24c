"""An inventory and an alerting snapshot, for pages that show all of both."""

from __future__ import annotations

from datetime import timedelta

from monitor.model.alerts import AlertingSnapshot, LearnedLimit, PipelineDeadlines, Severity
from monitor.model.inventory import ConnectionKnown, Figures, Inventory, OutputQuality, ValueCounts
from monitor.model.runs import Pipeline, RunKind
from tests.outputs.metrics_examples import NOON

UNTIL = NOON + timedelta(minutes=45)


def figures(**values: float) -> Figures:
    return Figures(values=values, until=UNTIL)


def connection(number: int, name: str, *, is_up: bool = True) -> ConnectionKnown:
    return ConnectionKnown(id=str(number), name=name, is_up=is_up, until=UNTIL)


def quality(pipeline: Pipeline, number: int, name: str | None, *counts: int) -> OutputQuality:
    """Return an output with its valid, mismatched and missing values."""
    valid, mismatched, missing = counts
    return OutputQuality(
        pipeline=pipeline,
        id=str(number),
        name=name,
        run_id="1",
        counts=ValueCounts(valid=valid, mismatched=mismatched, missing=missing),
    )


def full_inventory(pipeline: Pipeline) -> Inventory:
    """Return an inventory with something in each of its parts."""
    return Inventory(
        objects=figures(flow=3, plan=0),
        tokens=figures(abc=1_800_000_000.0),
        usage=figures(computeSeconds=12.5),
        connections=(connection(7, "warehouse", is_up=False),),
        outputs=(quality(pipeline, 45, "orders", 90, 6, 4),),
    )


def alerting(pipeline: Pipeline) -> AlertingSnapshot:
    """Return an alerting snapshot with a learned limit and an expected start of a plan."""
    learned = LearnedLimit(
        workspace="one", kind=RunKind.PLAN_RUN, pipeline=pipeline, seconds=900.0, runs=12
    )
    return AlertingSnapshot(
        rules=(("run_failed", Severity.CRITICAL),),
        limits=(learned,),
        cadences=(learned,),
        expected={("one", RunKind.PLAN_RUN, pipeline.id): NOON},
        deadlines={
            ("one", RunKind.PLAN_RUN, pipeline.id): PipelineDeadlines(
                next_at=NOON, missed_at=None, met=1, missed=0
            )
        },
    )

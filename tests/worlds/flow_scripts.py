"""Adds flows and their runs: job groups alone, recipes side by side, flow runs."""

from __future__ import annotations

from tests.worlds.draft import Draft
from tests.worlds.script import End, FlowRun, Ingredient, JobGroup, Pipeline

_RUNS = 6  # of one pipeline
_ERRORS = ("Column 'amount' is not a number", "The file s3://in/orders.csv was not found")


def new_flow(draft: Draft, *, recipes: int) -> Pipeline:
    """Add a flow with so many recipes."""
    flow_id = draft.new_id()
    parts = tuple(draft.new_id() for _ in range(recipes))
    flow = Pipeline(id=flow_id, name=f"Flow {flow_id}", parts=parts)
    draft.flows.append(flow)
    return flow


def add_job_groups_alone(draft: Draft) -> None:
    """Add a flow whose recipes run by themselves, several of them side by side."""
    flow = new_flow(draft, recipes=2 if draft.has(Ingredient.RECIPES) else 1)
    for recipe in flow.parts:
        for created, ended in draft.starts(most=_RUNS):
            draft.job_groups.append(new_group(draft, flow, recipe, created, ended, draft.end()))


def add_flow_runs(draft: Draft) -> None:
    """Add a flow that runs as a whole."""
    flow = new_flow(draft, recipes=draft.random.choice((1, 2, 2, 3)))
    for created, ended in draft.starts(most=_RUNS, shortest=12.0):
        add_flow_run(draft, flow, created, ended, draft.end())


def add_flow_run(
    draft: Draft,
    flow: Pipeline,
    created: float,
    ended: float,
    end: End,
    *,
    plan_run: int | None = None,
) -> FlowRun:
    """Add a run of a flow and its job groups, one for each recipe."""
    run_id = draft.new_id()
    spoiled = draft.random.choice(flow.parts)
    last = draft.random.choice(flow.parts)
    shown = draft.shown(created, ended)
    groups = []
    for recipe in flow.parts:
        group_ended = ended if recipe == last else draft.between(created + 4, ended)
        group_end = end if recipe == spoiled else End.COMPLETE
        group = new_group(
            draft,
            flow,
            recipe,
            created,
            group_ended,
            group_end,
            shown=(shown[0], max(group_ended, shown[1] if shown[1] > ended else group_ended)),
            flow_run=run_id,
            plan_run=plan_run,
        )
        groups.append(group)
    draft.job_groups += groups
    status_lag = draft.between(0, 3) if draft.happens(0.3) else 0.0
    run = FlowRun(
        id=run_id,
        flow=flow.id,
        job_groups=tuple(group.id for group in groups),
        created=created,
        ended=ended,
        end=end,
        end_shown_from=round(max(group.end_shown_from for group in groups) + status_lag, 3),
        plan_run=plan_run,
    )
    draft.flow_runs.append(run)
    return run


def new_group(
    draft: Draft,
    flow: Pipeline,
    recipe: int,
    created: float,
    ended: float,
    end: End,
    *,
    shown: tuple[float, float] | None = None,
    flow_run: int | None = None,
    plan_run: int | None = None,
) -> JobGroup:
    """Return a run of a recipe."""
    shown_from, end_shown_from = shown or draft.shown(created, ended)
    return JobGroup(
        id=draft.new_id(),
        flow=flow.id,
        recipe=recipe,
        created=created,
        started=round(created + min(2.0, (ended - created) / 4), 3),
        ended=ended,
        end=end,
        shown_from=max(shown_from, created),
        end_shown_from=max(end_shown_from, ended),
        times=draft.times(),
        error=draft.random.choice(_ERRORS) if end is End.FAILED else None,
        flow_run=flow_run,
        plan_run=plan_run,
    )

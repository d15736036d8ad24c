"""Adds plans and their runs, which contain flow runs."""

from __future__ import annotations

from tests.worlds.draft import Draft
from tests.worlds.flow_scripts import add_flow_run, new_flow
from tests.worlds.script import End, FlowRun, Ingredient, Pipeline, PlanRun

_RUNS = 4
_NAMED_LATE_SECONDS = (5.0, 40.0)


def add_plan(draft: Draft) -> None:
    """Add a plan of one or two flows, its runs, and runs of these flows outside of it."""
    flows = [new_flow(draft, recipes=1) for _ in range(draft.random.choice((1, 2)))]
    plan_id = draft.new_id()
    plan = Pipeline(id=plan_id, name=f"Plan {plan_id}", parts=tuple(flow.id for flow in flows))
    draft.plans.append(plan)
    snapshot = draft.new_id()
    for created, ended in draft.starts(most=_RUNS, shortest=20.0):
        if draft.happens(0.3):
            snapshot = draft.new_id()  # the plan was edited
        _add_plan_run(draft, plan, flows, snapshot, created, ended)
    if draft.happens(0.6):
        for created, ended in draft.starts(most=2, shortest=12.0):
            add_flow_run(draft, flows[0], created, ended, draft.end())


def _add_plan_run(
    draft: Draft,
    plan: Pipeline,
    flows: list[Pipeline],
    snapshot: int,
    created: float,
    ended: float,
) -> None:
    run_id, end = draft.new_id(), draft.end()
    started = round(created + 1, 3)
    children = _add_children(draft, flows, run_id, (started, ended), end)
    shown_from = created
    end_shown_from = max(ended, *(child.end_shown_from for child in children))
    draft.plan_runs.append(
        PlanRun(
            id=run_id,
            plan=plan.id,
            snapshot=snapshot,
            flow_runs=tuple(child.id for child in children),
            created=created,
            started=started,
            ended=ended,
            end=end,
            shown_from=shown_from,
            end_shown_from=end_shown_from,
            children_named_from={
                child.id: _named_from(draft, child, end_shown_from) for child in children
            },
            has_finish=not (draft.has(Ingredient.ABSENT_TIMES) and draft.happens(0.5)),
        )
    )


def _add_children(
    draft: Draft, flows: list[Pipeline], plan_run: int, span: tuple[float, float], end: End
) -> list[FlowRun]:
    """Add the flow runs of a plan run, one behind the other; a failure is the last of them."""
    begin, ended = span
    chosen = flows
    if end is not End.COMPLETE and len(flows) > 1 and draft.happens(0.4):
        chosen = flows[:1]  # the rest never started
    length = (ended - 0.5 - begin) / len(chosen)
    children = []
    for number, flow in enumerate(chosen):
        child_begin = round(begin + 0.3 + number * length, 3)
        child_ended = round(begin + (number + 1) * length, 3)
        is_last = number == len(chosen) - 1
        child_end = end if is_last else End.COMPLETE
        children.append(
            add_flow_run(draft, flow, child_begin, child_ended, child_end, plan_run=plan_run)
        )
    return children


def _named_from(draft: Draft, child: FlowRun, end_shown_from: float) -> float:
    if not draft.has(Ingredient.LATE_CHILDREN):
        return child.created
    if draft.happens(0.5):
        return end_shown_from
    return round(child.created + draft.between(*_NAMED_LATE_SECONDS), 3)

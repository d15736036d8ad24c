"""Adds what hides a part of the workspace: refused and short lists, page caps, another token."""

from __future__ import annotations

from tests.worlds.draft import Draft
from tests.worlds.flow_scripts import new_flow, new_group
from tests.worlds.impairments import (
    ClockSet,
    Hiding,
    ListName,
    QueryKind,
    Refusal,
    ShortList,
    Span,
    Withdrawal,
)
from tests.worlds.script import NEVER, Ingredient

_BEGIN_SECONDS = (40.0, 150.0)
_LENGTH_SECONDS = (150.0, 220.0)
_FOR_GOOD_SECONDS = (150.0, 260.0)
_FOR_GOOD_SHARE = 0.3
_REFUSALS = (Refusal.FORBIDDEN, Refusal.NO_ROUTE, Refusal.GONE)
_RUN_LISTS = (
    frozenset({ListName.JOB_GROUPS}),
    frozenset({ListName.PLAN_RUNS}),
    frozenset({ListName.JOB_GROUPS, ListName.PLAN_RUNS}),
)
_RUN_QUERIES = (
    frozenset({QueryKind.CHANGES}),
    frozenset({QueryKind.STATUS}),
    frozenset(QueryKind),
)
_CLOCK_SECONDS = (60.0, 250.0)
_VANISHED_RUNS = 4
# Other than the usual ones, and smaller than the lists of a world.
_PAGE_CAPS = (2, 3, 4, 6, 7, 9, 13)


def add_impairments(draft: Draft) -> None:
    """Add every ingredient by which the workspace hides something."""
    for ingredient, add in _IMPAIRMENTS.items():
        if draft.has(ingredient):
            draft.begin(ingredient)
            add(draft)


def _span(draft: Draft) -> Span:
    if draft.happens(_FOR_GOOD_SHARE):
        return Span(draft.between(*_FOR_GOOD_SECONDS), NEVER)
    return _bounded_span(draft)


def _bounded_span(draft: Draft) -> Span:
    begin = draft.between(*_BEGIN_SECONDS)
    return Span(begin, round(begin + draft.between(*_LENGTH_SECONDS), 3))


def _withdraw_runs(draft: Draft) -> None:
    lists, refusal = draft.random.choice(_RUN_LISTS), draft.random.choice(_REFUSALS)
    draft.withdrawals.append(Withdrawal(span=_span(draft), lists=lists, refusal=refusal))


def _withdraw_workspace(draft: Draft) -> None:
    refusal = draft.random.choice(_REFUSALS)
    draft.withdrawals.append(
        Withdrawal(span=_span(draft), lists=frozenset(ListName), refusal=refusal, with_objects=True)
    )


def _withdraw_schedules(draft: Draft) -> None:
    lists, refusal = frozenset({ListName.SCHEDULES}), draft.random.choice(_REFUSALS)
    draft.withdrawals.append(Withdrawal(span=_span(draft), lists=lists, refusal=refusal))


def _shorten_runs(draft: Draft) -> None:
    span, queries = _bounded_span(draft), draft.random.choice(_RUN_QUERIES)
    names = [ListName.JOB_GROUPS, *([ListName.PLAN_RUNS] if draft.plans else [])]
    for name in draft.random.sample(names, draft.random.randint(1, len(names))):
        _shorten(draft, name, span, queries)


def _shorten_pipelines(draft: Draft) -> None:
    span = _bounded_span(draft)
    names = [ListName.FLOWS, *([ListName.PLANS] if draft.plans else [])]
    for name in draft.random.sample(names, draft.random.randint(1, len(names))):
        _shorten(draft, name, span, frozenset(QueryKind))


def _shorten_schedules(draft: Draft) -> None:
    _shorten(draft, ListName.SCHEDULES, _bounded_span(draft), frozenset(QueryKind), share=0.0)


def _shorten(
    draft: Draft,
    name: ListName,
    span: Span,
    queries: frozenset[QueryKind],
    *,
    share: float | None = None,
) -> None:
    kept = draft.random.choice((0.0, 0.0, 0.5)) if share is None else share
    draft.short_lists.append(ShortList(span=span, list_name=name, queries=queries, share_kept=kept))


def _vanish(draft: Draft) -> None:
    """Hide everything while some runs are active that begin before and end after it."""
    span = _bounded_span(draft)
    flow = new_flow(draft, recipes=_VANISHED_RUNS)
    for recipe in flow.parts:
        created = round(span.begin - draft.between(25, 35), 3)
        ended = round(span.end + draft.between(5, 40), 3)
        draft.job_groups.append(
            new_group(
                draft,
                flow,
                recipe,
                created,
                ended,
                draft.end(),
                shown=(created, ended),
            )
        )
    draft.hidings.append(Hiding(span=span, flows=None, refusal=Refusal.NO_DATA))


def _cap_pages(draft: Draft) -> None:
    draft.page_cap = draft.random.choice(_PAGE_CAPS)


def _change_person(draft: Draft) -> None:
    draft.other_person_from = draft.between(*_FOR_GOOD_SECONDS)


def _take_rights(draft: Draft) -> None:
    """Hide the first flow, which is part of no plan."""
    flows = frozenset({draft.flows[0].id})
    draft.hidings.append(Hiding(span=_span(draft), flows=flows, refusal=Refusal.FORBIDDEN))


def _set_workspace_clock(draft: Draft) -> None:
    """Set it back, but not behind the beginning, or forward."""
    at = draft.between(*_CLOCK_SECONDS)
    seconds = draft.random.choice(
        (-draft.between(5, at - 25), draft.between(20, 300), draft.between(300, 3_600))
    )
    draft.workspace_clock_set = ClockSet(at=at, seconds=seconds)


# In their order; each by a chance of its own.
_IMPAIRMENTS = {
    Ingredient.WITHDRAWN_RUNS: _withdraw_runs,
    Ingredient.WITHDRAWN_WORKSPACE: _withdraw_workspace,
    Ingredient.WITHDRAWN_SCHEDULES: _withdraw_schedules,
    Ingredient.SHORT_RUNS: _shorten_runs,
    Ingredient.SHORT_PIPELINES: _shorten_pipelines,
    Ingredient.SHORT_SCHEDULES: _shorten_schedules,
    Ingredient.VANISHED: _vanish,
    Ingredient.PAGE_CAPS: _cap_pages,
    Ingredient.OTHER_PERSON: _change_person,
    Ingredient.FEWER_RIGHTS: _take_rights,
    Ingredient.WORKSPACE_CLOCK: _set_workspace_clock,
}

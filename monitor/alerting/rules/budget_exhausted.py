"""budget_exhausted: requests that a workspace or our own settings allow are used up."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from msgspec import Struct

from monitor.alerting.rules.contract import (
    MINUTE,
    OUTAGES,
    Facts,
    Firing,
    Ok,
    RuleAnswer,
    RuleDefinition,
    StateInput,
    SubjectKind,
    Unknown,
    WorkspaceFacts,
)
from monitor.alerting.rules.rule_settings import RuleKind, RuleSettings
from monitor.model.live_state import BudgetStatus, PollStatus
from monitor.model.poll_outcomes import STARVED_OUTCOMES, PollOutcome

# One failed attempt may be bad luck; the next one shows that nothing is left.
_STARVED_ATTEMPTS = 2
_ATTEMPTS_COUNTED = 1_000
_OWN = "own"  # the scope of our own budget
_POLLS_NAMED = 10


class StarvedPoll(NamedTuple):
    """A poll whose attempts fail for want of requests."""

    since: datetime
    last_attempt_at: datetime
    attempts: int


class BudgetShortage(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is short of requests: scopes and classes, each with since when, and polls."""

    scopes: dict[str, datetime] = {}
    classes: dict[str, datetime] = {}
    polls: dict[str, StarvedPoll] = {}

    def is_starved(self, poll: str) -> bool:
        return poll in self.polls and self.polls[poll].attempts >= _STARVED_ATTEMPTS


def evaluate(
    state: StateInput[WorkspaceFacts], memory: BudgetShortage | None, _: RuleSettings
) -> RuleAnswer[BudgetShortage]:
    now, facts = state.as_of, state.facts
    if now is None or not facts.polls:
        return RuleAnswer(Unknown("the workspace has not been asked yet"), memory)
    shortage = _shortage(memory or BudgetShortage(), facts, now)
    begun = [*shortage.scopes.values(), *shortage.classes.values()]
    begun += [poll.since for name, poll in shortage.polls.items() if shortage.is_starved(name)]
    kept = shortage if begun or shortage.polls else None
    if not begun:
        return RuleAnswer(Ok(at=now), kept)
    starved = [poll for poll in facts.polls if shortage.is_starved(poll.poll)]
    result = Firing(since=min(begun), as_of=now, facts=_facts(facts.status.budgets, starved))
    return RuleAnswer(result, kept)


def _facts(budgets: tuple[BudgetStatus, ...], starved: Sequence[PollStatus]) -> Facts:
    """Return what is used up, and what cannot be read for want of it."""
    is_theirs = any(poll.last_outcome is PollOutcome.THROTTLED for poll in starved)
    empty = [budget for budget in budgets if budget.remaining <= 0]
    # 429 may come without any header about a quota.
    probable = empty or [budget for budget in budgets if (budget.scope != _OWN) is is_theirs]
    least = min(probable, key=lambda budget: budget.remaining / max(1, budget.limit), default=None)
    names = sorted(poll.poll for poll in starved)[:_POLLS_NAMED]
    return {
        "scope": least.scope if least is not None else "workspace",
        "limit": float(least.limit) if least is not None else None,
        "polls": ", ".join(names) or None,
        "classes": ", ".join(_starved_classes(budgets)) or None,
    }


def _starved_classes(budgets: Sequence[BudgetStatus]) -> list[str]:
    return [label for budget in budgets for label in budget.starved]


def _shortage(before: BudgetShortage, facts: WorkspaceFacts, now: datetime) -> BudgetShortage:
    empty = [budget.scope for budget in facts.status.budgets if budget.remaining <= 0]
    polls: dict[str, StarvedPoll] = {}
    for poll in facts.polls:
        if poll.last_outcome in STARVED_OUTCOMES:
            attempt_at = poll.last_attempt_at
            since, newest_at, count = before.polls.get(poll.poll, (now, attempt_at, 1))
            attempts = min(count + (attempt_at != newest_at), _ATTEMPTS_COUNTED)
            polls[poll.poll] = StarvedPoll(since, attempt_at, attempts)
    return BudgetShortage(
        scopes={scope: before.scopes.get(scope, now) for scope in empty},
        classes={
            label: before.classes.get(label, now)
            for label in _starved_classes(facts.status.budgets)
        },
        polls=polls,
    )


DEFINITION = RuleDefinition(
    rule=RuleKind.BUDGET_EXHAUSTED,
    subject_kind=SubjectKind.WORKSPACE,
    memory=BudgetShortage,
    evaluate=evaluate,
    about="The requests that a workspace or our own settings allow are used up.",
    summary="Requests to {workspace} {run|ran} short",
    description=(
        "Requests that find no room in time: {classes}. Polls that fail for want of them: {polls}. "
        "The budget is {limit} requests ({scope})."
    ),
    template_fields=("scope", "limit", "polls", "classes"),
    for_seconds=10 * MINUTE,
    inhibited_by=OUTAGES,
    not_recorded="the event log does not hold budgets",
)

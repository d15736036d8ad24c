"""Rules about a workspace itself, its tokens, its callbacks and its requests.

All are judged by our own clock: what an outage hides is the workspace's clock too.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from msgspec import Struct

from monitor.alerting.rules.contract import (
    AnyRuleDefinition,
    Firing,
    Ok,
    RuleAnswer,
    RuleDefinition,
    StateInput,
    SubjectKind,
    Unknown,
)
from monitor.alerting.rules.facts import TokenFacts, WorkspaceFacts
from monitor.alerting.rules.instants import written
from monitor.alerting.settings.rules import RuleKind, RuleSettings
from monitor.model.live_state import BudgetStatus, PollStatus, Reachability, WorkspaceStatus

_NOT_KNOWN_YET: Unknown = Unknown(why="the workspace has not been asked yet")
# Where one of these fails, a kind of run goes on unseen, however well all else is answered.
_LISTS = frozenset({"changes", "plan_runs"})
# What passes by itself, is a matter of budgets or of our own store has other rules.
_TELLS_NOTHING = frozenset(
    {"unreachable", "unauthorized", "unreadable", "rejected", "no_such_object", "failed"}
)
# The others succeed without a request where there is nothing to ask for.
_ALWAYS_ASKING = frozenset({"connect", "changes", "plan_runs", "names", "schedules"})
# A token that expired so long ago, while the workspace still answers, is not the one in use.
_EXPIRED_SHOWN = timedelta(days=1)
# A minute holds what its callbacks add, so an hour's window is at most sixty steps.
_STEPS_PER_WINDOW = 60
# A run that ended in an outage is told, and its callback counted as missed, only behind it.
_AFTERMATH = 1 / 6  # of the window
_NOTED_EVERY = timedelta(minutes=1)
# One failed attempt may be bad luck; the next one shows that nothing is left.
_STARVED_ATTEMPTS = 2
_THROTTLED = "throttled"
_STARVED_OUTCOMES = frozenset({"budget", _THROTTLED})
_OWN = "own"  # the scope of our own budget
_POLLS_NAMED = 10


class ObservedSince(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """When it was first seen to be wrong, by our clock as no jump moves it."""

    since: datetime
    preexisting: bool = False  # nothing else has been seen since the rule was judged first


def evaluate_reachability(
    looked: StateInput[WorkspaceFacts], memory: ObservedSince | None, _: RuleSettings
) -> RuleAnswer[ObservedSince]:
    status = looked.facts.status
    if looked.as_of is None:
        return RuleAnswer(result=_NOT_KNOWN_YET, memory=memory)
    if status.reachability is Reachability.UNKNOWN:
        if looked.first_evaluated_at is None:
            memory = ObservedSince(since=looked.as_of, preexisting=True)
        return RuleAnswer(result=_NOT_KNOWN_YET, memory=memory)
    polls = looked.facts.polls
    is_blind = any(poll.poll in _LISTS and poll.last_outcome in _TELLS_NOTHING for poll in polls)
    is_cut_off = status.reachability is Reachability.UNREACHABLE
    if not (is_cut_off or is_blind or _is_refused(polls)):
        return RuleAnswer(result=Ok(at=looked.as_of))
    held = memory or ObservedSince(since=looked.as_of)
    wrong = Firing(
        since=held.since,
        as_of=looked.as_of,
        facts={"reason": status.reason},
        preexisting=held.preexisting,
    )
    return RuleAnswer(result=wrong, memory=held)


def _is_refused(polls: tuple[PollStatus, ...]) -> bool:
    """True where the token is refused, and nothing has been told to us since."""
    asking = [poll for poll in polls if poll.poll in _ALWAYS_ASKING]
    refused = [item.last_attempt_at for item in asking if item.last_outcome == "unauthorized"]
    answered = [item.last_success_at for item in asking if item.last_success_at is not None]
    return bool(refused) and all(at < max(refused) for at in answered)


def evaluate_token(
    looked: StateInput[TokenFacts], _: ObservedSince | None, rule: RuleSettings
) -> RuleAnswer[ObservedSince]:
    now, facts = looked.as_of, looked.facts
    if now is None or facts.until is None or facts.until < now:
        return RuleAnswer(result=Unknown(why="the tokens have not been read lately"))
    expires_at = facts.expires_at
    if expires_at is None or now >= expires_at + _EXPIRED_SHOWN:
        return RuleAnswer(result=Ok(at=now))
    since = expires_at - timedelta(seconds=rule.threshold or 0.0)
    if now < since:
        return RuleAnswer(result=Ok(at=now), again_at=since)
    wrong = Firing(
        since=since,
        as_of=now,
        facts={
            "token": looked.subject.thing,
            "expires_at": written(expires_at),
            "remaining_seconds": (expires_at - now).total_seconds(),
        },
    )
    return RuleAnswer(result=wrong)


class Misses(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How the count of missed callbacks grew: when, and by how many, oldest first."""

    total: int
    steps: tuple[tuple[datetime, int], ...] = ()
    silent_at: datetime | None = None  # when the workspace was last seen not to answer


def evaluate_misses(
    looked: StateInput[WorkspaceFacts], memory: Misses | None, rule: RuleSettings
) -> RuleAnswer[Misses]:
    now = looked.as_of
    if now is None:
        return RuleAnswer(result=_NOT_KNOWN_YET, memory=memory)
    held = _grown(memory, looked.facts.status, now, rule.window_seconds)
    missed = sum(count for _, count in held.steps)
    most = rule.threshold or 1.0
    if missed >= most:
        wrong = Firing(since=held.steps[0][0], as_of=now, facts={"missed": float(missed)})
        return RuleAnswer(result=wrong, memory=held)
    if missed > most / 2:
        return RuleAnswer(result=Unknown(why=f"{missed} were missed of late"), memory=held)
    return RuleAnswer(result=Ok(at=now), memory=held)


def _grown(
    held: Misses | None, status: WorkspaceStatus, now: datetime, window_seconds: float
) -> Misses:
    total = status.callbacks_missed
    if held is None:
        held = Misses(total=total)  # what was missed before the rule was there is not its matter
    # The count begins anew with each life of the daemon.
    more = total - held.total if total >= held.total else total
    silent_at = _silent_at(held, status, now, window_seconds)
    if silent_at is not None:
        more = 0  # what stayed away in an outage, ours or theirs, is explained
    since = now - timedelta(seconds=window_seconds)
    steps = tuple(step for step in held.steps if step[0] > since)
    if more:
        begins = now - timedelta(seconds=window_seconds / _STEPS_PER_WINDOW)
        if steps and steps[-1][0] > begins:
            steps = (*steps[:-1], (steps[-1][0], steps[-1][1] + more))
        else:
            steps = (*steps, (now, more))
    return Misses(total=total, steps=steps, silent_at=silent_at)


def _silent_at(
    held: Misses, status: WorkspaceStatus, now: datetime, window_seconds: float
) -> datetime | None:
    """Return since when callbacks may stay away because of an outage; None once that is over."""
    before = held.silent_at
    if status.reachability in (Reachability.UNKNOWN, Reachability.UNREACHABLE):
        # Noted now and then only, since each note is a write.
        is_noted = before is not None and now - before < _NOTED_EVERY
        return before if is_noted else now
    aftermath = timedelta(seconds=window_seconds * _AFTERMATH)
    return None if before is None or now - before >= aftermath else before


class BudgetShortage(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is short of requests: a scope, or a poll whose attempts fail for want of them.

    Each with when that was first seen; of a poll also its newest attempt and how many failed.
    """

    scopes: dict[str, datetime] = {}
    polls: dict[str, tuple[datetime, datetime, int]] = {}

    def failures(self, poll: str) -> int:
        return self.polls[poll][2] if poll in self.polls else 0


def evaluate_budget(
    looked: StateInput[WorkspaceFacts], memory: BudgetShortage | None, _: RuleSettings
) -> RuleAnswer[BudgetShortage]:
    now, facts = looked.as_of, looked.facts
    if now is None or not facts.polls:
        return RuleAnswer(result=_NOT_KNOWN_YET, memory=memory)
    held = _starved(memory or BudgetShortage(), facts, now)
    begun = [*held.scopes.values()]
    begun += [
        held.polls[poll][0] for poll in held.polls if held.failures(poll) >= _STARVED_ATTEMPTS
    ]
    kept = held if held.scopes or held.polls else None
    if not begun:
        return RuleAnswer(result=Ok(at=now), memory=kept)
    short = [poll for poll in facts.polls if held.failures(poll.poll) >= _STARVED_ATTEMPTS]
    wrong = Firing(since=min(begun), as_of=now, facts=_shortage(facts.status.budgets, short))
    return RuleAnswer(result=wrong, memory=kept)


def _shortage(
    budgets: tuple[BudgetStatus, ...], short: Sequence[PollStatus]
) -> dict[str, str | float | None]:
    """Return what is used up, and the polls that cannot ask for want of it."""
    is_theirs = any(poll_standing.last_outcome == _THROTTLED for poll_standing in short)
    empty = [budget for budget in budgets if budget.remaining <= 0]
    # 429 may come without any header that tells of a quota.
    meant = empty or [budget for budget in budgets if (budget.scope != _OWN) is is_theirs]
    least = min(meant, key=lambda item: item.remaining / max(1, item.limit), default=None)
    names = sorted(poll_standing.poll for poll_standing in short)[:_POLLS_NAMED]
    return {
        "scope": least.scope if least is not None else "workspace",
        "remaining": float(least.remaining) if least is not None else None,
        "limit": float(least.limit) if least is not None else None,
        "polls": ", ".join(names) or None,
    }


def _starved(held: BudgetShortage, facts: WorkspaceFacts, now: datetime) -> BudgetShortage:
    empty = [budget.scope for budget in facts.status.budgets if budget.remaining <= 0]
    polls: dict[str, tuple[datetime, datetime, int]] = {}
    for poll in facts.polls:
        if poll.last_outcome in _STARVED_OUTCOMES:
            first, newest, count = held.polls.get(poll.poll, (now, poll.last_attempt_at, 1))
            is_another = poll.last_attempt_at != newest
            polls[poll.poll] = (first, poll.last_attempt_at, min(count + is_another, 1_000))
    return BudgetShortage(scopes={name: held.scopes.get(name, now) for name in empty}, polls=polls)


# What nobody can see while the workspace does not answer, or what its silence brings about.
DOUBTFUL_IN_AN_OUTAGE = (
    RuleKind.RUN_OVERDUE,
    RuleKind.RUN_STUCK,
    RuleKind.QUEUE_SLOW,
    RuleKind.SCHEDULE_MISSED,
    RuleKind.NOT_FRESH,
    RuleKind.CALLBACKS_MISSED,
    RuleKind.BUDGET_EXHAUSTED,
)
# What was seen is told all the same; only that it is still so cannot be said again.
SEEN_BEFORE_IT = (
    RuleKind.RUN_FAILED,
    RuleKind.FAILING_REPEATEDLY,
    RuleKind.CANCELED,
    RuleKind.SCHEDULE_DISABLED,
)

RULE_DEFINITIONS: tuple[AnyRuleDefinition, ...] = (
    RuleDefinition(
        rule=RuleKind.WORKSPACE_UNREACHABLE,
        subject_kind=SubjectKind.WORKSPACE,
        memory=ObservedSince,
        evaluate=evaluate_reachability,
        template_fields=("reason",),
        inhibits=(*DOUBTFUL_IN_AN_OUTAGE, *SEEN_BEFORE_IT),
    ),
    RuleDefinition(
        rule=RuleKind.TOKEN_EXPIRING,
        subject_kind=SubjectKind.TOKEN,
        memory=ObservedSince,
        evaluate=evaluate_token,
        template_fields=("token", "expires_at", "remaining_seconds"),
    ),
    RuleDefinition(
        rule=RuleKind.CALLBACKS_MISSED,
        subject_kind=SubjectKind.WORKSPACE,
        memory=Misses,
        evaluate=evaluate_misses,
        template_fields=("missed",),
    ),
    RuleDefinition(
        rule=RuleKind.BUDGET_EXHAUSTED,
        subject_kind=SubjectKind.WORKSPACE,
        memory=BudgetShortage,
        evaluate=evaluate_budget,
        template_fields=("scope", "remaining", "limit", "polls"),
    ),
)

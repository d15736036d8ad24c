"""Rules about a workspace itself, its tokens, its callbacks and its requests.

All are judged by our own clock: what an outage hides is the workspace's clock too.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from msgspec import Struct

from monitor.alerting.conditions.instants import written
from monitor.alerting.facts import TokenFacts, WorkspaceFacts
from monitor.alerting.settings.rules import RuleKind, RuleSettings
from monitor.alerting.verdicts import (
    About,
    AnyCondition,
    Condition,
    Judged,
    Looked,
    Right,
    Unclear,
    Wrong,
)
from monitor.model.knowledge import (
    BudgetStanding,
    PollStanding,
    Reachability,
    WorkspaceStanding,
)

_NOT_KNOWN_YET: Unclear = Unclear(why="the workspace has not been asked yet")
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


class Since(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """When it was first seen to be wrong, by our clock as no jump moves it."""

    since: datetime
    was_there: bool = False  # nothing else has been seen since the rule was judged first


def look_unreachable(
    looked: Looked[WorkspaceFacts], memory: Since | None, _: RuleSettings
) -> Judged[Since]:
    standing = looked.facts.standing
    if looked.as_of is None:
        return Judged(verdict=_NOT_KNOWN_YET, memory=memory)
    if standing.reachability is Reachability.UNKNOWN:
        if looked.first_judged_at is None:
            memory = Since(since=looked.as_of, was_there=True)
        return Judged(verdict=_NOT_KNOWN_YET, memory=memory)
    polls = looked.facts.polls
    is_blind = any(one.poll in _LISTS and one.last_outcome in _TELLS_NOTHING for one in polls)
    is_cut_off = standing.reachability is Reachability.UNREACHABLE
    if not (is_cut_off or is_blind or _is_refused(polls)):
        return Judged(verdict=Right(at=looked.as_of))
    held = memory or Since(since=looked.as_of)
    wrong = Wrong(
        since=held.since,
        as_of=looked.as_of,
        facts={"reason": standing.reason},
        was_there=held.was_there,
    )
    return Judged(verdict=wrong, memory=held)


def _is_refused(polls: tuple[PollStanding, ...]) -> bool:
    """True where the token is refused, and nothing has been told to us since."""
    asking = [one for one in polls if one.poll in _ALWAYS_ASKING]
    refused = [one.last_attempt_at for one in asking if one.last_outcome == "unauthorized"]
    answered = [one.last_success_at for one in asking if one.last_success_at is not None]
    return bool(refused) and all(at < max(refused) for at in answered)


def look_token(looked: Looked[TokenFacts], _: Since | None, rule: RuleSettings) -> Judged[Since]:
    now, facts = looked.as_of, looked.facts
    if now is None or facts.until is None or facts.until < now:
        return Judged(verdict=Unclear(why="the tokens have not been read lately"))
    expires_at = facts.expires_at
    if expires_at is None or now >= expires_at + _EXPIRED_SHOWN:
        return Judged(verdict=Right(at=now))
    since = expires_at - timedelta(seconds=rule.threshold or 0.0)
    if now < since:
        return Judged(verdict=Right(at=now), again_at=since)
    wrong = Wrong(
        since=since,
        as_of=now,
        facts={
            "token": looked.subject.thing,
            "expires_at": written(expires_at),
            "remaining_seconds": (expires_at - now).total_seconds(),
        },
    )
    return Judged(verdict=wrong)


class Misses(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How the count of missed callbacks grew: when, and by how many, oldest first."""

    total: int
    steps: tuple[tuple[datetime, int], ...] = ()
    silent_at: datetime | None = None  # when the workspace was last seen not to answer


def look_misses(
    looked: Looked[WorkspaceFacts], memory: Misses | None, rule: RuleSettings
) -> Judged[Misses]:
    now = looked.as_of
    if now is None:
        return Judged(verdict=_NOT_KNOWN_YET, memory=memory)
    held = _grown(memory, looked.facts.standing, now, rule.window_seconds)
    missed = sum(count for _, count in held.steps)
    most = rule.threshold or 1.0
    if missed >= most:
        wrong = Wrong(since=held.steps[0][0], as_of=now, facts={"missed": float(missed)})
        return Judged(verdict=wrong, memory=held)
    if missed > most / 2:
        return Judged(verdict=Unclear(why=f"{missed} were missed of late"), memory=held)
    return Judged(verdict=Right(at=now), memory=held)


def _grown(
    held: Misses | None, standing: WorkspaceStanding, now: datetime, window_seconds: float
) -> Misses:
    total = standing.callbacks_missed
    if held is None:
        held = Misses(total=total)  # what was missed before the rule was there is not its matter
    # The count begins anew with each life of the daemon.
    more = total - held.total if total >= held.total else total
    silent_at = _silent_at(held, standing, now, window_seconds)
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
    held: Misses, standing: WorkspaceStanding, now: datetime, window_seconds: float
) -> datetime | None:
    """Return since when callbacks may stay away because of an outage; None once that is over."""
    before = held.silent_at
    if standing.reachability in (Reachability.UNKNOWN, Reachability.UNREACHABLE):
        # Noted now and then only, since each note is a write.
        is_noted = before is not None and now - before < _NOTED_EVERY
        return before if is_noted else now
    aftermath = timedelta(seconds=window_seconds * _AFTERMATH)
    return None if before is None or now - before >= aftermath else before


class Starved(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is short of requests: a scope, or a poll whose attempts fail for want of them.

    Each with when that was first seen; of a poll also its newest attempt and how many failed.
    """

    scopes: dict[str, datetime] = {}
    polls: dict[str, tuple[datetime, datetime, int]] = {}

    def failures(self, poll: str) -> int:
        return self.polls[poll][2] if poll in self.polls else 0


def look_budget(
    looked: Looked[WorkspaceFacts], memory: Starved | None, _: RuleSettings
) -> Judged[Starved]:
    now, facts = looked.as_of, looked.facts
    if now is None or not facts.polls:
        return Judged(verdict=_NOT_KNOWN_YET, memory=memory)
    held = _starved(memory or Starved(), facts, now)
    begun = [*held.scopes.values()]
    begun += [held.polls[one][0] for one in held.polls if held.failures(one) >= _STARVED_ATTEMPTS]
    kept = held if held.scopes or held.polls else None
    if not begun:
        return Judged(verdict=Right(at=now), memory=kept)
    short = [one for one in facts.polls if held.failures(one.poll) >= _STARVED_ATTEMPTS]
    wrong = Wrong(since=min(begun), as_of=now, facts=_shortage(facts.standing.budgets, short))
    return Judged(verdict=wrong, memory=kept)


def _shortage(
    budgets: tuple[BudgetStanding, ...], short: Sequence[PollStanding]
) -> dict[str, str | float | None]:
    """Return what is used up, and the polls that cannot ask for want of it."""
    is_theirs = any(one.last_outcome == _THROTTLED for one in short)
    empty = [one for one in budgets if one.remaining <= 0]
    # 429 may come without any header that tells of a quota.
    meant = empty or [one for one in budgets if (one.scope != _OWN) is is_theirs]
    least = min(meant, key=lambda one: one.remaining / max(1, one.limit), default=None)
    names = sorted(one.poll for one in short)[:_POLLS_NAMED]
    return {
        "scope": least.scope if least is not None else "workspace",
        "remaining": float(least.remaining) if least is not None else None,
        "limit": float(least.limit) if least is not None else None,
        "polls": ", ".join(names) or None,
    }


def _starved(held: Starved, facts: WorkspaceFacts, now: datetime) -> Starved:
    empty = [one.scope for one in facts.standing.budgets if one.remaining <= 0]
    polls: dict[str, tuple[datetime, datetime, int]] = {}
    for one in facts.polls:
        if one.last_outcome in _STARVED_OUTCOMES:
            first, newest, count = held.polls.get(one.poll, (now, one.last_attempt_at, 1))
            is_another = one.last_attempt_at != newest
            polls[one.poll] = (first, one.last_attempt_at, min(count + is_another, 1_000))
    return Starved(scopes={name: held.scopes.get(name, now) for name in empty}, polls=polls)


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

CONDITIONS: tuple[AnyCondition, ...] = (
    Condition(
        rule=RuleKind.WORKSPACE_UNREACHABLE,
        about=About.WORKSPACE,
        memory=Since,
        look=look_unreachable,
        template_fields=("reason",),
        explains=(*DOUBTFUL_IN_AN_OUTAGE, *SEEN_BEFORE_IT),
    ),
    Condition(
        rule=RuleKind.TOKEN_EXPIRING,
        about=About.TOKEN,
        memory=Since,
        look=look_token,
        template_fields=("token", "expires_at", "remaining_seconds"),
    ),
    Condition(
        rule=RuleKind.CALLBACKS_MISSED,
        about=About.WORKSPACE,
        memory=Misses,
        look=look_misses,
        template_fields=("missed",),
    ),
    Condition(
        rule=RuleKind.BUDGET_EXHAUSTED,
        about=About.WORKSPACE,
        memory=Starved,
        look=look_budget,
        template_fields=("scope", "remaining", "limit", "polls"),
    ),
)

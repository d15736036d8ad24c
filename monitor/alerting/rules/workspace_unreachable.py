"""workspace_unreachable: a workspace does not answer, refuses our token, or hides its runs.

Evaluated by our own clock: what an outage hides is the workspace's clock too.
"""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from monitor.alerting.rules.contract import (
    MINUTE,
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
from monitor.model.alerts import Severity
from monitor.model.live_state import PollStatus, Reachability

# Where one of these fails, a kind of run stays unseen, however well all else is answered.
_LISTS = frozenset({"changes", "plan_runs"})
# Other outcomes pass by themselves, or are evaluated by other rules: budgets, our own store.
_FAILED_OUTCOMES = frozenset(
    {"unreachable", "unauthorized", "unreadable", "rejected", "no_such_object", "failed"}
)
# The other polls succeed without a request where there is nothing to ask for.
_ALWAYS_ASKING = frozenset({"connect", "changes", "plan_runs", "names", "schedules"})


class UnreachableSince(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """When it was first seen, by our clock as no jump moves it."""

    since: datetime
    preexisting: bool = False  # nothing else was seen since the first evaluation


def evaluate(
    state: StateInput[WorkspaceFacts], memory: UnreachableSince | None, _: RuleSettings
) -> RuleAnswer[UnreachableSince]:
    status, polls, now = state.facts.status, state.facts.polls, state.as_of
    if now is None or status.reachability is Reachability.UNKNOWN:
        if now is not None and state.first_evaluated_at is None:
            memory = UnreachableSince(since=now, preexisting=True)
        return RuleAnswer(Unknown("the workspace has not been asked yet"), memory)
    is_blind = any(poll.poll in _LISTS and poll.last_outcome in _FAILED_OUTCOMES for poll in polls)
    is_cut_off = status.reachability is Reachability.UNREACHABLE
    if not (is_cut_off or is_blind or _is_refused(polls)):
        return RuleAnswer(Ok(at=now))
    memory = memory or UnreachableSince(since=now)
    result = Firing(
        since=memory.since,
        as_of=now,
        facts={"reason": status.reason},
        preexisting=memory.preexisting,
    )
    return RuleAnswer(result, memory)


def _is_refused(polls: tuple[PollStatus, ...]) -> bool:
    """True where the token is refused, and no poll was answered since."""
    asking = [poll for poll in polls if poll.poll in _ALWAYS_ASKING]
    refused = [poll.last_attempt_at for poll in asking if poll.last_outcome == "unauthorized"]
    answered = [poll.last_success_at for poll in asking if poll.last_success_at is not None]
    return bool(refused) and all(at < max(refused) for at in answered)


DEFINITION = RuleDefinition(
    rule=RuleKind.WORKSPACE_UNREACHABLE,
    subject_kind=SubjectKind.WORKSPACE,
    memory=UnreachableSince,
    evaluate=evaluate,
    about="A workspace does not answer, refuses our token, or a list of its runs fails.",
    severity=Severity.CRITICAL,
    summary="{workspace} cannot be asked",
    description="{reason}",
    template_fields=("reason",),
    for_seconds=2 * MINUTE,
    not_recorded="the event log does not hold how workspaces answered",
)

"""workspace_unreachable: a workspace does not answer, refuses our token, or hides its runs.

It hides them where a list fails, is refused though it was offered before, or lacks rows that must
be in it, or is overdue for want of requests. Schedules are unwatched in the same ways, and where
reading them is long overdue.
Where it hides no more than flows or plans by their lists, all runs are seen: see `HIDES_ONLY`.

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
from monitor.model.live_state import SCHEDULES, PollStatus, Reachability, WorkspaceStatus
from monitor.model.poll_outcomes import FAILED_OUTCOMES, STARVED_OUTCOMES, PollOutcome
from monitor.model.runs import RunKind
from monitor.tracking.live_state import RECOVERY, WATCHED_BY

# The fact that names what is hidden, where that keeps no run or schedule from being seen: then the
# alert explains nothing else, and inhibits nothing.
HIDES_ONLY = "hides_only"
_NAMED_ONLY = frozenset({"flows", "plans"})
# Where one of these fails, a kind of run stays unseen, however well all else is answered. In an
# outage of the whole workspace the others are not tried.
_LISTS = frozenset([*(WATCHED_BY[kind] for kind in RunKind), RECOVERY])
# The other polls succeed without a request where there is nothing to ask for.
_ALWAYS_POLLED = frozenset({"connect", "changes", "plan_runs", "names", "schedules"})


class UnreachableSince(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """When it was first seen, by our clock as no jump moves it."""

    since: datetime
    preexisting: bool = False  # nothing else was seen since the first evaluation


def evaluate(
    state: StateInput[WorkspaceFacts], memory: UnreachableSince | None, _: RuleSettings
) -> RuleAnswer[UnreachableSince]:
    status, polls, now = state.facts.status, state.facts.polls, state.as_of
    if now is None or status.is_remembered or status.reachability is Reachability.UNKNOWN:
        if now is not None and state.first_evaluated_at is None:
            memory = UnreachableSince(since=now, preexisting=True)
        return RuleAnswer(Unknown("the workspace has not been asked yet"), memory)
    unwatched = "; ".join(cause.reason for cause in status.unwatched_causes())
    is_blind = any(poll.poll in _LISTS and _fails(poll, state.facts.late) for poll in polls)
    is_cut_off = status.reachability is Reachability.UNREACHABLE
    late = _late_schedules(state.facts)
    is_unseen = is_cut_off or is_blind or bool(late) or _is_refused(polls)
    if not (is_unseen or unwatched):
        return RuleAnswer(Ok(at=now))
    memory = memory or UnreachableSince(since=now)
    result = Firing(
        since=memory.since,
        as_of=now,
        # The status names what is unwatched too, from the next poll on.
        facts={
            "reason": "; ".join(filter(None, (status.reason or unwatched, late))) or None,
            HIDES_ONLY: None if is_unseen else _hides_only(status),
        },
        preexisting=memory.preexisting,
    )
    return RuleAnswer(result, memory)


def _fails(poll: PollStatus, late: frozenset[str]) -> bool:
    """True where it fails, or has gone without requests until its success was overdue."""
    is_starved = poll.last_outcome in STARVED_OUTCOMES and poll.poll in late
    return is_starved or poll.last_outcome in FAILED_OUTCOMES


def _hides_only(status: WorkspaceStatus) -> str | None:
    """Return what is hidden where runs and schedules are not among it, else None."""
    hidden = {what for cause in status.unwatched_causes() for what in cause.unwatched}
    return " and ".join(sorted(hidden)) if hidden <= _NAMED_ONLY else None


def _late_schedules(facts: WorkspaceFacts) -> str | None:
    """Return since when the schedules are unwatched, None where they are read in time."""
    if SCHEDULES not in facts.late:
        return None
    poll = next(poll for poll in facts.polls if poll.poll == SCHEDULES)
    read = "never" if poll.last_success_at is None else f"{poll.last_success_at:%H:%M:%SZ}"
    return f"schedules are unwatched: last read {read} ({poll.last_outcome})"


def _is_refused(polls: tuple[PollStatus, ...]) -> bool:
    """True where the token is refused, and no poll was answered since."""
    polled = [poll for poll in polls if poll.poll in _ALWAYS_POLLED]
    refused = [
        poll.last_attempt_at for poll in polled if poll.last_outcome is PollOutcome.UNAUTHORIZED
    ]
    answered = [poll.last_success_at for poll in polled if poll.last_success_at is not None]
    return bool(refused) and all(at < max(refused) for at in answered)


DEFINITION = RuleDefinition(
    rule=RuleKind.WORKSPACE_UNREACHABLE,
    subject_kind=SubjectKind.WORKSPACE,
    memory=UnreachableSince,
    evaluate=evaluate,
    about="A workspace does not answer, or hides runs or schedules: refused, failing, incomplete.",
    severity=Severity.CRITICAL,
    summary="{workspace} {cannot|could not} be watched",
    description="{reason}",
    template_fields=("reason", HIDES_ONLY),
    # After the time-out of a read, in which any other answer ends it, and the wait for a poll this
    # stays below two minutes; the answer of the read's second try may still prevent it. Pauses of
    # a minute and less, one after the other, take as long again: a poll must be overdue first.
    for_seconds=0.75 * MINUTE,
    not_recorded="the event log does not hold how workspaces answered",
)

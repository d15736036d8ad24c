"""monitor_degraded: an output of this daemon lags or lost events, or its store is in trouble.

Each part is evaluated by itself: an output that lags is not a full store. A part of a shard with a
name ends with ``@`` and that name, because each shard has its own, wherever it is held. The daemon
that watches the cluster has a part for each daemon that is gone and each shard without a holder.
A clock that was set has a part for each daemon that has seen it, in one of its shards.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from msgspec import Struct

from monitor.alerting.rules.contract import (
    MINUTE,
    DaemonFacts,
    EvaluationResult,
    Firing,
    Ok,
    RuleAnswer,
    RuleDefinition,
    StateInput,
    SubjectKind,
    Unknown,
    seconds,
)
from monitor.alerting.rules.rule_settings import RuleKind, RuleSettings
from monitor.bus.contract import WAITING_CONSUMERS, ConsumerStatus, StoreStatus
from monitor.model.alerts import DaemonCondition, Severity
from monitor.model.words import duration, iso

STORE = "store"
BACKLOG = "backlog"
DEAD_LETTERS = "dead_letters"
LOST = "lost"
RETAINED = "retained"
GONE = "daemon"
UNHELD = "shard"
CLOCK = "clock"

# Of the hard cap, at which events are deleted although a consumer needs them.
_STORE_FULL, _STORE_OK = 0.9, 0.85
_LOSS_SHOWN = timedelta(hours=1)  # after the last one
# After the last write that the store refused: while it refuses all, no alert can be stored either.
_TROUBLE_SHOWN_SECONDS = 300.0


class Losses(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How many events an output did not publish, and when the newest of them were added."""

    count: int
    since: datetime | None = None
    grew_at: datetime | None = None


def parts(bus: StoreStatus, condition: DaemonCondition) -> tuple[str, ...]:
    """Return the parts of the daemon, each a subject of its own."""
    end = _end_of(condition)
    consumers = [
        consumer.consumer
        for consumer in bus.consumers
        if not consumer.consumer.startswith(WAITING_CONSUMERS)
    ]
    kinds = (BACKLOG, DEAD_LETTERS, LOST)
    own = (STORE, RETAINED, *(f"{kind}:{consumer}" for consumer in consumers for kind in kinds))
    troubles = condition.troubles or ()
    return (*(f"{part}{end}" for part in own), *(trouble.part for trouble in troubles))


def _end_of(condition: DaemonCondition) -> str:
    return f"@{condition.shard}" if condition.shard else ""


def evaluate(
    state: StateInput[DaemonFacts], memory: Losses | None, rule: RuleSettings
) -> RuleAnswer[Losses]:
    now, facts = state.as_of, state.facts
    if now is None:
        return RuleAnswer(Unknown("the daemon has just started"), memory)
    part = state.subject.thing.removesuffix(_end_of(facts.condition))
    kind, _, name = part.partition(":")
    if not name or kind in (GONE, UNHELD, CLOCK):
        return RuleAnswer(_whole(state, part, now))
    consumer = next((status for status in facts.bus.consumers if status.consumer == name), None)
    if consumer is None:
        return RuleAnswer(Ok(at=now))  # it is no longer configured
    if kind == BACKLOG:
        return RuleAnswer(_backlog(consumer, state.wall_now or now, now, rule.threshold))
    count = consumer.dead_letters
    reason = f"{name} refuses events for good; {count:,} are kept aside"
    if kind == LOST:
        count = consumer.lost
        reason = f"{count:,} events went from the full store before {name} had read them"
    # Without dead letters all were resent or dropped: nothing is left to be done.
    memory = Losses(count=0) if kind == DEAD_LETTERS and not count else _losses(memory, count, now)
    if memory.since is None:
        return RuleAnswer(Ok(at=now), memory)
    return RuleAnswer(_firing(memory.since, now, what=name, reason=reason), memory)


def _whole(state: StateInput[DaemonFacts], part: str, now: datetime) -> EvaluationResult:
    """Return the result of a part that is no output's."""
    if part == STORE:
        return _refusing(state, now) or _lost_end(state, now) or _store(state.facts, now)
    return _retained(state.facts, now) if part == RETAINED else _trouble(state, part, now)


def _refusing(state: StateInput[DaemonFacts], now: datetime) -> Firing | None:
    failures = state.facts.bus.write_failures
    if failures is None or (failures.is_over and failures.quiet_seconds >= _TROUBLE_SHOWN_SECONDS):
        return None
    reason = f"the store refused writes, the last because: {failures.reason}"
    return _firing(state.steady(failures.since), now, what=STORE, reason=reason)


def _lost_end(state: StateInput[DaemonFacts], now: datetime) -> Firing | None:
    lost = state.facts.bus.lost_end
    if lost is None:
        return None
    what = (
        "may have lost the newest events that it had acknowledged, by a fail-over or a restore"
        if lost.count is None
        else f"has lost the newest {lost.count:,} events that it had acknowledged"
    )
    reason = f"the store {what}; the log goes on in a new epoch of sequence"
    return _firing(state.steady(lost.since), now, what=STORE, reason=reason)


def _retained(facts: DaemonFacts, now: datetime) -> EvaluationResult:
    overwritten = facts.condition.overwritten
    if overwritten is None:
        return Ok(at=now)
    since = iso(overwritten.since)
    reason = f"another client overwrites {overwritten.topic} after each repair, since {since}"
    return _firing(min(overwritten.since, now), now, what="mqtt", reason=reason)


def _trouble(state: StateInput[DaemonFacts], part: str, now: datetime) -> EvaluationResult:
    condition = state.facts.condition
    troubles = condition.troubles
    if troubles is None:
        return Unknown("the cluster has not been read yet")
    end = _end_of(condition)
    trouble = next((found for found in troubles if found.part.removesuffix(end) == part), None)
    if trouble is None:
        return Ok(at=now)
    since = state.steady(trouble.since)
    return _firing(since, now, what=part.replace(":", " ", 1), reason=trouble.reason)


def _store(facts: DaemonFacts, now: datetime) -> EvaluationResult:
    stored = facts.bus.newest_position - facts.bus.oldest_position + 1
    cap = facts.retention.events_hard_cap
    if stored >= _STORE_FULL * cap:
        reason = f"the store is nearly full: beyond {cap:,} events they are lost unread"
        return _firing(now, now, what=STORE, reason=reason)
    if stored > _STORE_OK * cap:
        return Unknown("the store is between ok and full")
    return Ok(at=now)


def _backlog(
    consumer: ConsumerStatus, wall_now: datetime, now: datetime, most_seconds: float
) -> EvaluationResult:
    lag_seconds, name = 0.0, consumer.consumer
    if consumer.backlog and consumer.oldest_at is not None:
        # Both instants are of the wall clock, so a jump moves at most what waited through it.
        lag_seconds = (wall_now - consumer.oldest_at).total_seconds()
    if lag_seconds >= most_seconds:
        reason = f"{name} is more than {duration(most_seconds)} behind the newest event"
        since = now - timedelta(seconds=lag_seconds - most_seconds)
        return _firing(since, now, what=name, reason=reason)
    if lag_seconds > most_seconds / 2:
        return Unknown(f"{name} catches up or falls behind")
    return Ok(at=now)


def _losses(memory: Losses | None, count: int, now: datetime) -> Losses:
    # Those from before the first evaluation are not reported.
    memory = memory or Losses(count=count)
    if count > memory.count:
        return Losses(count=count, since=memory.since or now, grew_at=now)
    if memory.grew_at is not None and now - memory.grew_at >= _LOSS_SHOWN:
        return Losses(count=count)
    return Losses(count=count, since=memory.since, grew_at=memory.grew_at)


def _firing(since: datetime, now: datetime, *, what: str, reason: str) -> Firing:
    return Firing(since=since, as_of=now, facts={"what": what, "reason": reason})


DEFINITION = RuleDefinition(
    rule=RuleKind.MONITOR_DEGRADED,
    subject_kind=SubjectKind.DAEMON,
    memory=Losses,
    evaluate=evaluate,
    about=(
        "An output lags, gave events up, or finds its topics overwritten; or the store refuses "
        "writes, is near its cap or has lost, or may have, what it had acknowledged; or a clock "
        "was set by more than an hour; or, in a cluster, a daemon is gone or a shard has no holder."
    ),
    severity=Severity.CRITICAL,
    summary="The monitor itself {is|was} in trouble: {what}",
    description="{reason}",
    template_fields=("what", "reason"),
    threshold=seconds("seconds that an output may lag", 5 * MINUTE),
    for_seconds=MINUTE,
    not_recorded="the event log does not hold the state of the daemon",
)

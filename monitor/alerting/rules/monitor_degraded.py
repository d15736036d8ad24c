"""monitor_degraded: an output of this daemon lags or lost events, or its store is nearly full.

Each part is evaluated by itself: an output that lags is not a full store.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from msgspec import Struct

from monitor.alerting.rules.contract import (
    MINUTE,
    DaemonFacts,
    Facts,
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
from monitor.bus.contract import ConsumerStatus, StoreStatus
from monitor.model.alerts import Severity

STORE = "store"
BACKLOG = "backlog"
DEAD_LETTERS = "dead_letters"
LOST = "lost"

# They stay behind on purpose, until a callback that has not come counts as missed.
_WAITING_CONSUMERS = "misses/"
# Of the hard cap, at which events are deleted although a consumer needs them.
_STORE_FULL, _STORE_OK = 0.9, 0.85
_LOSS_SHOWN = timedelta(hours=1)  # after the last one


class Losses(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How many events an output did not publish, and when the newest of them were added."""

    count: int
    since: datetime | None = None
    grew_at: datetime | None = None


def parts(bus: StoreStatus) -> tuple[str, ...]:
    """Return the parts of the daemon, each a subject of its own."""
    consumers = [
        consumer.consumer
        for consumer in bus.consumers
        if not consumer.consumer.startswith(_WAITING_CONSUMERS)
    ]
    kinds = (BACKLOG, DEAD_LETTERS, LOST)
    return (STORE, *(f"{kind}:{consumer}" for consumer in consumers for kind in kinds))


def evaluate(
    state: StateInput[DaemonFacts], memory: Losses | None, rule: RuleSettings
) -> RuleAnswer[Losses]:
    now, facts = state.as_of, state.facts
    if now is None:
        return RuleAnswer(Unknown("the daemon has just started"), memory)
    kind, _, name = state.subject.thing.partition(":")
    if kind == STORE:
        return _evaluate_store(facts, now)
    consumer = next((status for status in facts.bus.consumers if status.consumer == name), None)
    if consumer is None:
        return RuleAnswer(Ok(at=now))  # it is no longer configured
    if kind == DEAD_LETTERS:
        count = consumer.dead_letters
        reason = f"{name} refuses events for good; {count:,} are kept aside"
        return _evaluate_losses(name, count, reason, memory, now)
    if kind == LOST:
        count = consumer.lost
        reason = f"{count:,} events went from the full store before {name} had read them"
        return _evaluate_losses(name, count, reason, memory, now)
    return _evaluate_backlog(consumer, facts.wall_now or now, now, rule.threshold)


def _evaluate_store(facts: DaemonFacts, now: datetime) -> RuleAnswer[Losses]:
    stored = facts.bus.newest_position - facts.bus.oldest_position + 1
    cap = facts.retention.events_hard_cap
    if stored >= _STORE_FULL * cap:
        reason = f"{stored:,} events are stored, and from {cap:,} on they are lost unread"
        return RuleAnswer(Firing(since=now, as_of=now, facts={"what": STORE, "reason": reason}))
    if stored > _STORE_OK * cap:
        return RuleAnswer(Unknown("the store is between ok and full"))
    return RuleAnswer(Ok(at=now))


def _evaluate_backlog(
    consumer: ConsumerStatus, wall_now: datetime, now: datetime, most_seconds: float
) -> RuleAnswer[Losses]:
    lag_seconds = 0.0
    if consumer.backlog and consumer.oldest_at is not None:
        # Both instants are of the wall clock, so a jump moves at most what waited through it.
        lag_seconds = (wall_now - consumer.oldest_at).total_seconds()
    if lag_seconds >= most_seconds:
        reason = (
            f"{consumer.backlog:,} events wait for {consumer.consumer}, "
            f"the oldest for {lag_seconds:.0f} s"
        )
        since = now - timedelta(seconds=lag_seconds - most_seconds)
        facts: Facts = {"what": consumer.consumer, "reason": reason}
        return RuleAnswer(Firing(since=since, as_of=now, facts=facts))
    if lag_seconds > most_seconds / 2:
        return RuleAnswer(Unknown(f"{consumer.consumer} catches up or falls behind"))
    return RuleAnswer(Ok(at=now))


def _evaluate_losses(
    name: str, count: int, reason: str, memory: Losses | None, now: datetime
) -> RuleAnswer[Losses]:
    if memory is None:
        # Those from before the first evaluation are not reported.
        return RuleAnswer(Ok(at=now), Losses(count=count))
    if count > memory.count:
        memory = Losses(count=count, since=memory.since or now, grew_at=now)
    elif count < memory.count:
        memory = Losses(count=count, since=memory.since, grew_at=memory.grew_at)
    if memory.since is None or memory.grew_at is None:
        return RuleAnswer(Ok(at=now), memory)
    if now - memory.grew_at >= _LOSS_SHOWN:
        return RuleAnswer(Ok(at=now), Losses(count=count))
    result = Firing(since=memory.since, as_of=now, facts={"what": name, "reason": reason})
    return RuleAnswer(result, memory)


DEFINITION = RuleDefinition(
    rule=RuleKind.MONITOR_DEGRADED,
    subject_kind=SubjectKind.DAEMON,
    memory=Losses,
    evaluate=evaluate,
    about="An output lags, gave events up, or the store is near its cap.",
    severity=Severity.CRITICAL,
    summary="The monitor itself is in trouble: {what}",
    description="{reason}",
    template_fields=("what", "reason"),
    threshold=seconds("seconds that an output may lag", 5 * MINUTE),
    for_seconds=MINUTE,
    not_recorded="the event log does not hold the state of the daemon",
)

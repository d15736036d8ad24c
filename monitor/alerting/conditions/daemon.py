"""Rules about this daemon. Its parts are judged apart: an output that lags is not a full store."""

from __future__ import annotations

from datetime import datetime, timedelta

from msgspec import Struct

from monitor.alerting.conditions.workspaces import DOUBTFUL_IN_AN_OUTAGE
from monitor.alerting.facts import DaemonFacts
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
from monitor.bus.contract import BusStanding, ConsumerStanding

STORE = "store"
BACKLOG = "backlog"
DEAD_LETTERS = "dead_letters"
LOST = "lost"

# They stay behind on purpose, until a callback that has not come counts as missed.
_WAITING_CONSUMERS = "misses/"
# Of the hard cap, at which events go although somebody needs them.
_STORE_FULL, _STORE_WELL = 0.9, 0.85
_LOSS_SHOWN = timedelta(hours=1)  # after the last one


class Losses(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How many events an output did not tell, and from when to when the newest of them came."""

    count: int
    since: datetime | None = None
    grew_at: datetime | None = None


def parts(bus: BusStanding) -> tuple[str, ...]:
    """Return the things that the rule is to be asked about, one subject each."""
    consumers = [
        one.consumer for one in bus.consumers if not one.consumer.startswith(_WAITING_CONSUMERS)
    ]
    kinds = (BACKLOG, DEAD_LETTERS, LOST)
    return (STORE, *(f"{kind}:{one}" for one in consumers for kind in kinds))


def look_daemon(
    looked: Looked[DaemonFacts], memory: Losses | None, rule: RuleSettings
) -> Judged[Losses]:
    now, facts = looked.as_of, looked.facts
    if now is None:
        return Judged(verdict=Unclear(why="the daemon has just started"), memory=memory)
    kind, _, name = looked.subject.thing.partition(":")
    if kind == STORE:
        return _look_store(facts, now)
    consumer = next((one for one in facts.bus.consumers if one.consumer == name), None)
    if consumer is None:
        return Judged(verdict=Right(at=now))  # it is no longer configured
    if kind == DEAD_LETTERS:
        count = consumer.dead_letters
        reason = f"{name} refuses events for good; {count:,} are kept aside"
        return _look_losses(name, count, reason, memory, now)
    if kind == LOST:
        count = consumer.lost
        reason = f"{count:,} events went from the full store before {name} had read them"
        return _look_losses(name, count, reason, memory, now)
    return _look_backlog(consumer, facts.wall_now or now, now, rule.threshold or 0.0)


def _look_store(facts: DaemonFacts, now: datetime) -> Judged[Losses]:
    held = facts.bus.newest_position - facts.bus.oldest_position + 1
    cap = facts.retention.events_hard_cap
    if held >= _STORE_FULL * cap:
        reason = f"{held:,} events are stored, and from {cap:,} on they are lost unread"
        return Judged(verdict=Wrong(since=now, as_of=now, facts={"what": STORE, "reason": reason}))
    if held > _STORE_WELL * cap:
        return Judged(verdict=Unclear(why="the store is between well and full"))
    return Judged(verdict=Right(at=now))


def _look_backlog(
    consumer: ConsumerStanding, wall_now: datetime, now: datetime, most_seconds: float
) -> Judged[Losses]:
    lag_seconds = 0.0
    if consumer.backlog and consumer.oldest_at is not None:
        # Both instants are of the wall clock, so a jump moves at most what waited through it.
        lag_seconds = (wall_now - consumer.oldest_at).total_seconds()
    if lag_seconds >= most_seconds:
        reason = (
            f"{consumer.backlog:,} events wait for {consumer.consumer}, "
            f"the oldest for {lag_seconds:.0f} s"
        )
        return Judged(
            verdict=Wrong(
                since=now - timedelta(seconds=lag_seconds - most_seconds),
                as_of=now,
                facts={"what": consumer.consumer, "reason": reason},
            )
        )
    if lag_seconds > most_seconds / 2:
        return Judged(verdict=Unclear(why=f"{consumer.consumer} catches up or falls behind"))
    return Judged(verdict=Right(at=now))


def _look_losses(
    name: str, count: int, reason: str, memory: Losses | None, now: datetime
) -> Judged[Losses]:
    if memory is None:
        # Those from before the rule was there have been looked at, or will not be.
        return Judged(verdict=Right(at=now), memory=Losses(count=count))
    if count > memory.count:
        memory = Losses(count=count, since=memory.since or now, grew_at=now)
    elif count < memory.count:
        memory = Losses(count=count, since=memory.since, grew_at=memory.grew_at)
    if memory.since is None or memory.grew_at is None:
        return Judged(verdict=Right(at=now), memory=memory)
    if now - memory.grew_at >= _LOSS_SHOWN:
        return Judged(verdict=Right(at=now), memory=Losses(count=count))
    wrong = Wrong(since=memory.since, as_of=now, facts={"what": name, "reason": reason})
    return Judged(verdict=wrong, memory=memory)


CONDITIONS: tuple[AnyCondition, ...] = (
    Condition(
        rule=RuleKind.MONITOR_DEGRADED,
        about=About.DAEMON,
        memory=Losses,
        look=look_daemon,
        template_fields=("what", "reason"),
        explains=DOUBTFUL_IN_AN_OUTAGE,
    ),
)

"""The rule about the daemon itself: what lags, what is refused for good, and a filling store."""

from __future__ import annotations

import pytest

from monitor.alerting.rules.contract import DaemonFacts
from monitor.alerting.rules.monitor_degraded import parts
from monitor.alerting.rules.rule_settings import RuleKind
from monitor.bus.contract import ConsumerStatus, Retention, StoreStatus, WriteFailures
from monitor.model.alerts import DaemonCondition, OverwrittenTopics, Trouble
from tests.alerting.rule_evaluation import EvaluatedRule, at

RETENTION = Retention(events_hard_cap=1_000)
MQTT_OF_SALES = "backlog:mqtt@sales"


def consumer(
    name: str = "mqtt",
    *,
    backlog: int = 0,
    oldest: float | None = None,
    dead_letters: int = 0,
    lost: int = 0,
) -> ConsumerStatus:
    """Return how far a consumer is; ``oldest`` is when its oldest unread event was recorded."""
    return ConsumerStatus(
        consumer=name,
        position=10,
        backlog=backlog,
        oldest_at=None if oldest is None else at(oldest),
        dead_letters=dead_letters,
        lost=lost,
    )


def facts(
    *consumers: ConsumerStatus,
    stored: int = 10,
    failures: WriteFailures | None = None,
    overwritten: OverwrittenTopics | None = None,
    shard: str = "",
    troubles: tuple[Trouble, ...] | None = (),
) -> DaemonFacts:
    """Return a store that holds so many events."""
    bus = StoreStatus(
        newest_position=500 + stored,
        oldest_position=501,
        consumers=consumers,
        inbox={},
        store_bytes=1,
        write_failures=failures,
    )
    return DaemonFacts(
        bus=bus,
        retention=RETENTION,
        condition=DaemonCondition(shard=shard, overwritten=overwritten, troubles=troubles),
    )


def part_rule(thing: str) -> EvaluatedRule:
    return EvaluatedRule(RuleKind.MONITOR_DEGRADED, thing=thing)


def test_an_output_that_lags_fires_until_it_has_caught_up() -> None:
    """Its start is when the oldest event had waited too long; the way down is not the end."""
    rule = part_rule("backlog:mqtt")
    words = [
        rule.evaluate(facts(consumer()), 0),
        rule.evaluate(facts(consumer(backlog=3, oldest=10)), 100),
        rule.evaluate(facts(consumer(backlog=9, oldest=10)), 309),
        rule.evaluate(facts(consumer(backlog=9, oldest=10)), 320),
    ]
    assert words == ["ok", "ok", "unknown", "firing"]
    assert rule.firing.since == at(310)
    assert rule.firing.facts == {
        "what": "mqtt",
        "reason": "mqtt is more than 5 min behind the newest event",
    }
    assert rule.evaluate(facts(consumer(backlog=9, oldest=200)), 400) == "unknown"
    assert rule.evaluate(facts(consumer(backlog=1, oldest=390)), 400) == "ok"


@pytest.mark.parametrize("jump", [-7_200.0, 7_200.0])
def test_a_jump_of_the_wall_clock_is_no_lag(jump: float) -> None:
    """Events are stamped by the wall clock, so their age is taken by it too."""
    rule = part_rule("backlog:mqtt")
    stamped = consumer(backlog=2, oldest=99 + jump)
    assert rule.evaluate(facts(stamped), 100, wall=100 + jump) == "ok"
    late = consumer(backlog=2, oldest=99 + jump)
    assert rule.evaluate(facts(late), 500, wall=500 + jump) == "firing"
    assert rule.firing.since == at(399)


def test_new_dead_letters_fire_for_an_hour() -> None:
    """Old ones do not fire again; each new one keeps it firing for another hour."""
    rule = part_rule("dead_letters:webhook")
    history = [(4, 0), (5, 60), (5, 3_000), (6, 3_500), (6, 7_000), (6, 7_100), (6, 7_200)]
    words = [
        rule.evaluate(facts(consumer("webhook", dead_letters=count)), seconds)
        for count, seconds in history
    ]
    assert words == ["ok", "firing", "firing", "firing", "firing", "ok", "ok"]
    assert rule.evaluate(facts(consumer("webhook", dead_letters=2)), 8_000) == "ok"
    assert rule.evaluate(facts(consumer("webhook", dead_letters=3)), 8_010) == "firing"
    assert rule.firing.since == at(8_010)
    assert rule.firing.facts["reason"] == "webhook refuses events for good; 3 are kept aside"


def test_dead_letters_that_are_gone_end_it() -> None:
    """It lasts while some are left, and one that is refused after that fires again."""
    rule = part_rule("dead_letters:webhook")
    history = [(0, 0), (5, 60), (2, 120), (0, 180), (0, 240), (1, 300)]
    words = [
        rule.evaluate(facts(consumer("webhook", dead_letters=count)), seconds)
        for count, seconds in history
    ]
    assert words == ["ok", "firing", "firing", "ok", "ok", "firing"]
    assert rule.firing.since == at(300)


def test_lost_events_fire_for_an_hour() -> None:
    """Events that the full store deleted fire for each output that had not read them."""
    rule = part_rule("lost:mqtt")
    history = [(0, 0), (70, 60), (70, 3_650), (70, 3_660)]
    words = [rule.evaluate(facts(consumer(lost=count)), seconds) for count, seconds in history]
    assert words == ["ok", "firing", "firing", "ok"]
    rule.evaluate(facts(consumer(lost=1_100)), 9_000)
    assert rule.firing.facts == {
        "what": "mqtt",
        "reason": "1,100 events went from the full store before mqtt had read them",
    }


def test_a_store_near_its_cap_fires() -> None:
    """From nine tenths of the hard cap on, and until it has clearly shrunk."""
    rule = part_rule("store")
    words = [
        rule.evaluate(facts(stored=stored), 60.0 * stored)
        for stored in (899, 900, 890, 851, 850, 0)
    ]
    assert words == ["unknown", "firing", "unknown", "unknown", "ok", "ok"]


def refused(since: float, *, quiet: float = 0, is_over: bool = False) -> WriteFailures:
    return WriteFailures(
        since=at(since), quiet_seconds=quiet, count=7, reason="disk is full", is_over=is_over
    )


def test_a_store_that_refuses_writes_fires() -> None:
    """From the first refusal on, and for five minutes after the last once it stores again."""
    rule = part_rule("store")
    words = [
        rule.evaluate(facts(), 90),
        rule.evaluate(facts(failures=refused(100)), 110),
        rule.evaluate(facts(failures=refused(100, quiet=900)), 1_000),
        rule.evaluate(facts(failures=refused(100, quiet=299, is_over=True)), 1_299),
    ]
    assert words == ["ok", "firing", "firing", "firing"]
    assert rule.firing.since == at(100)
    assert rule.firing.facts == {
        "what": "store",
        "reason": "the store refused writes, the last because: disk is full",
    }
    assert rule.evaluate(facts(failures=refused(100, quiet=300, is_over=True)), 1_300) == "ok"


def test_a_consumer_that_is_gone_lags_no_more() -> None:
    """An output that was removed from the configuration resolves its alerts."""
    assert part_rule("backlog:mqtt").evaluate(facts(consumer("webhook")), 0) == "ok"
    assert part_rule("dead_letters:mqtt").evaluate(facts(), 0) == "ok"


def test_every_part_is_named_once() -> None:
    """Each consumer has its parts, but for those that lag on purpose."""
    bus = facts(consumer("mqtt"), consumer("misses/marketing")).bus
    own = ("store", "retained")
    assert parts(bus, DaemonCondition()) == (
        *own,
        "backlog:mqtt",
        "dead_letters:mqtt",
        "lost:mqtt",
    )


def test_parts_of_a_shard_carry_its_name() -> None:
    """Each shard has an output mqtt: an alert about the one is none about the other."""
    late = facts(consumer("mqtt", backlog=1, oldest=0), shard="sales")
    assert parts(late.bus, late.condition)[:3] == ("store@sales", "retained@sales", MQTT_OF_SALES)
    assert part_rule(MQTT_OF_SALES).evaluate(late, 400) == "firing"
    assert part_rule("store@sales").evaluate(late, 400) == "ok"


def test_a_daemon_that_is_gone_and_a_shard_without_a_holder_fire_until_they_are_back() -> None:
    """Only those in trouble have a part; what is no trouble any more ends its alert."""
    troubles = (
        Trouble(part="daemon:north", since=at(100), reason="north is gone"),
        Trouble(part="shard:sales", since=at(130), reason="no daemon holds sales"),
        Trouble(part="clock:north", since=at(150), reason="set ahead"),
    )
    lacking = facts(shard="_cluster", troubles=troubles)
    shown = {trouble.part: trouble.since for trouble in troubles}
    assert parts(lacking.bus, lacking.condition)[-3:] == tuple(shown)
    for part, since in shown.items():
        rule = part_rule(part)
        assert rule.evaluate(lacking, 200) == "firing"
        assert rule.firing.since == since
        # By a daemon that has just taken over the watch, and has not looked yet.
        assert rule.evaluate(facts(shard="_cluster", troubles=None), 250) == "unknown"
        assert rule.evaluate(facts(shard="_cluster"), 300) == "ok"


def test_a_client_that_overwrites_retained_topics_fires_until_it_ends() -> None:
    """The reason names the topic, by which its writer can be found."""
    rule, topic = part_rule("retained"), "dataprep/v1/w/state"
    assert rule.evaluate(facts(), 0) == "ok"
    going_on = facts(overwritten=OverwrittenTopics(since=at(100), topic=topic))
    assert rule.evaluate(going_on, 120) == "firing"
    assert rule.firing.since == at(100)
    assert topic in str(rule.firing.facts["reason"])
    assert rule.evaluate(facts(), 900) == "ok"


def test_before_the_first_cycle_the_result_is_unknown() -> None:
    """Without an instant nothing is evaluated."""
    assert part_rule("store").evaluate(facts(stored=1_000), None) == "unknown"


def test_each_output_is_evaluated_by_itself() -> None:
    """Two outputs are two subjects: one that is well ends nothing of the other."""
    both = facts(consumer("mqtt", backlog=1, oldest=0), consumer("webhook"))
    assert part_rule("backlog:mqtt").evaluate(both, 400) == "firing"
    assert part_rule("backlog:webhook").evaluate(both, 400) == "ok"

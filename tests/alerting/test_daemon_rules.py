"""The rule about the daemon itself: what lags, what is refused for good, and a filling store."""

from __future__ import annotations

import pytest

from monitor.alerting.rules.facts import DaemonFacts
from monitor.alerting.rules.monitor_degraded import parts
from monitor.alerting.rules.rule_settings import RuleKind
from monitor.bus.contract import ConsumerStatus, Retention, StoreStatus
from tests.alerting.looking import Looking, at

RETENTION = Retention(events_hard_cap=1_000)


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


def facts(*consumers: ConsumerStatus, held: int = 10, wall: float | None = None) -> DaemonFacts:
    """Return a store that holds so many events; ``wall`` is what the wall clock shows."""
    bus = StoreStatus(
        newest_position=500 + held,
        oldest_position=501,
        consumers=consumers,
        inbox={},
        store_bytes=1,
    )
    return DaemonFacts(bus=bus, retention=RETENTION, wall_now=None if wall is None else at(wall))


def rules_for_state(thing: str) -> Looking:
    return Looking(RuleKind.MONITOR_DEGRADED, thing=thing)


def test_an_output_that_lags_is_wrong_until_it_has_caught_up() -> None:
    """Its start is when the oldest event had waited too long; the way down is not the end."""
    one = rules_for_state("backlog:mqtt")
    words = [
        one.evaluate(facts(consumer()), 0),
        one.evaluate(facts(consumer(backlog=3, oldest=10)), 100),
        one.evaluate(facts(consumer(backlog=9, oldest=10)), 309),
        one.evaluate(facts(consumer(backlog=9, oldest=10)), 320),
    ]
    assert words == ["right", "right", "unclear", "wrong"]
    assert one.wrong.since == at(310)
    assert one.wrong.facts == {
        "what": "mqtt",
        "reason": "9 events wait for mqtt, the oldest for 310 s",
    }
    assert one.evaluate(facts(consumer(backlog=9, oldest=200)), 400) == "unclear"
    assert one.evaluate(facts(consumer(backlog=1, oldest=390)), 400) == "right"


@pytest.mark.parametrize("jump", [-7_200.0, 7_200.0])
def test_a_jump_of_the_wall_clock_is_no_lag(jump: float) -> None:
    """Events are stamped by the wall clock, so their age is taken by it too."""
    one = rules_for_state("backlog:mqtt")
    stamped = consumer(backlog=2, oldest=99 + jump)
    assert one.evaluate(facts(stamped, wall=100 + jump), 100) == "right"
    late = consumer(backlog=2, oldest=99 + jump)
    assert one.evaluate(facts(late, wall=500 + jump), 500) == "wrong"
    assert one.wrong.since == at(399)


def test_new_dead_letters_are_wrong_for_an_hour() -> None:
    """Old ones are not told again; each new one keeps it up for another hour."""
    one = rules_for_state("dead_letters:webhook")
    story = [(4, 0), (5, 60), (5, 3_000), (6, 3_500), (6, 7_000), (6, 7_100), (6, 7_200)]
    words = [
        one.evaluate(facts(consumer("webhook", dead_letters=count)), seconds)
        for count, seconds in story
    ]
    assert words == ["right", "wrong", "wrong", "wrong", "wrong", "right", "right"]
    assert one.evaluate(facts(consumer("webhook", dead_letters=2)), 8_000) == "right"
    assert one.evaluate(facts(consumer("webhook", dead_letters=3)), 8_010) == "wrong"
    assert one.wrong.since == at(8_010)
    assert one.wrong.facts["reason"] == "webhook refuses events for good; 3 are kept aside"


def test_events_that_nobody_read_are_wrong_for_an_hour() -> None:
    """What the full store let go is told, for each output that had not read it."""
    one = rules_for_state("lost:mqtt")
    story = [(0, 0), (70, 60), (70, 3_650), (70, 3_660)]
    words = [one.evaluate(facts(consumer(lost=count)), seconds) for count, seconds in story]
    assert words == ["right", "wrong", "wrong", "right"]
    one.evaluate(facts(consumer(lost=1_100)), 9_000)
    assert one.wrong.facts == {
        "what": "mqtt",
        "reason": "1,100 events went from the full store before mqtt had read them",
    }


def test_a_store_near_its_cap_is_wrong() -> None:
    """From nine tenths of the hard cap on, and until it has clearly shrunk."""
    one = rules_for_state("store")
    words = [one.evaluate(facts(held=held), 60.0 * held) for held in (899, 900, 890, 851, 850, 0)]
    assert words == ["unclear", "wrong", "unclear", "unclear", "right", "right"]


def test_a_consumer_that_is_gone_lags_no_more() -> None:
    """An output that was taken out of the configuration ends what was told about it."""
    assert rules_for_state("backlog:mqtt").evaluate(facts(consumer("webhook")), 0) == "right"
    assert rules_for_state("dead_letters:mqtt").evaluate(facts(), 0) == "right"


def test_every_part_is_named_once() -> None:
    """Each consumer is asked about twice, but for those that stay behind on purpose."""
    bus = facts(consumer("mqtt"), consumer("misses/marketing")).bus
    assert parts(bus) == ("store", "backlog:mqtt", "dead_letters:mqtt", "lost:mqtt")


def test_before_the_first_round_nobody_can_tell() -> None:
    """Without an instant nothing is judged."""
    assert rules_for_state("store").evaluate(facts(held=1_000), None) == "unclear"


def test_each_output_is_judged_by_itself() -> None:
    """Two outputs are two subjects: one that is well ends nothing of the other."""
    both = facts(consumer("mqtt", backlog=1, oldest=0), consumer("webhook"))
    assert rules_for_state("backlog:mqtt").evaluate(both, 400) == "wrong"
    assert rules_for_state("backlog:webhook").evaluate(both, 400) == "right"

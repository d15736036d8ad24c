"""A schedule that was disabled fires; one that always was is meant to be so."""

from __future__ import annotations

import msgspec

from monitor.alerting.rules.contract import Ok, ScheduleFacts
from monitor.alerting.rules.rule_settings import RuleKind
from monitor.model.live_state import ScheduleKnown
from monitor.model.runs import Pipeline, PipelineKind
from monitor.model.triggers import OneTimeTrigger
from tests.alerting.rule_evaluation import EvaluatedRule, at
from tests.alerting.schedule_histories import HALF_PAST, schedule

ON = schedule(HALF_PAST)
OFF = msgspec.structs.replace(ON, is_enabled=False, disable_reason="its owner was deactivated")


def read(
    schedule_known: ScheduleKnown | None, seconds: float, *, written: float = -1e6
) -> ScheduleFacts:
    if schedule_known is not None:
        schedule_known = msgspec.structs.replace(schedule_known, updated_at=at(written))
    return ScheduleFacts(schedule=schedule_known, read_at=at(seconds))


def test_a_disabled_schedule_fires_until_it_is_enabled() -> None:
    """With its name and the reason; as of the writing that a reading brought."""
    rule = EvaluatedRule(RuleKind.SCHEDULE_DISABLED, thing="1")
    assert rule.evaluate(read(ON, 0), 5) == "ok"
    assert rule.evaluate(read(ON, 300), 305) == "none"
    assert rule.evaluate(read(OFF, 600, written=450), 605) == "firing"
    assert (rule.firing.since, rule.firing.as_of) == (at(450), at(600))
    assert rule.firing.facts == {"schedule": "s1", "reason": "its owner was deactivated"}
    assert rule.evaluate(read(OFF, 900, written=700), 905) == "firing"
    assert rule.firing.since == at(450)
    assert rule.evaluate(read(ON, 1_200, written=1_100), 1_205) == "ok"
    assert rule.last == Ok(at=at(1_100))
    assert rule.evaluate(read(ON, 1_500, written=1_100), 1_505) == "none"


def test_a_schedule_disabled_at_the_first_evaluation_is_intent() -> None:
    """It fires neither then nor ever, until it was enabled once."""
    rule = EvaluatedRule(RuleKind.SCHEDULE_DISABLED, thing="1")
    assert rule.evaluate(read(OFF, 0), 5) == "none"
    assert rule.evaluate(read(OFF, 300, written=200), 305) == "none"
    assert rule.evaluate(read(ON, 600, written=500), 605) == "ok"  # it never fired
    assert rule.evaluate(read(OFF, 900), 905) == "firing"
    assert rule.firing.since == at(900)  # it does not say when, so: when it was seen


def test_a_deleted_schedule_is_no_disabled_one() -> None:
    """The alert is over, and nothing is remembered of it."""
    rule = EvaluatedRule(RuleKind.SCHEDULE_DISABLED, thing="1")
    rule.evaluate(read(ON, 0), 5)
    assert rule.evaluate(read(OFF, 300), 305) == "firing"
    assert rule.evaluate(read(None, 600), 605) == "ok"
    assert rule.memory_bytes == b""
    assert rule.evaluate(read(None, 900), 905) == "none"


def test_a_schedule_whose_flow_was_deleted_is_no_disabled_one() -> None:
    """The workspace disables it with the flow; an alert from before is over for good."""
    orphan = msgspec.structs.replace(OFF, deleted=OFF.pipelines)
    rule = EvaluatedRule(RuleKind.SCHEDULE_DISABLED, thing="1")
    rule.evaluate(read(ON, 0), 5)
    assert rule.evaluate(read(orphan, 300), 305) == "ok"
    assert rule.memory_bytes == b""
    assert rule.evaluate(read(orphan, 600), 605) == "none"

    told = EvaluatedRule(RuleKind.SCHEDULE_DISABLED, thing="1")
    told.evaluate(read(ON, 0), 5)
    assert told.evaluate(read(OFF, 300), 305) == "firing"
    assert told.evaluate(read(orphan, 600), 605) == "ok"
    assert told.last == Ok(at=at(600), reason="pipeline removed")


def test_a_schedule_with_a_remaining_part_is_evaluated() -> None:
    """One of two flows was deleted: the other one does not run any more either."""
    both = (*ON.pipelines, Pipeline(kind=PipelineKind.FLOW, id="12"))
    half = msgspec.structs.replace(ON, pipelines=both, deleted=ON.pipelines)
    rule = EvaluatedRule(RuleKind.SCHEDULE_DISABLED, thing="1")
    rule.evaluate(read(half, 0), 5)
    off = msgspec.structs.replace(half, is_enabled=False)
    assert rule.evaluate(read(off, 300), 305) == "firing"


def test_a_schedule_after_its_last_start_is_disabled_without_an_alert() -> None:
    """A one-time schedule is done; the same one disabled before its time fires."""
    done = schedule(OneTimeTrigger(at=at(400)))
    off = msgspec.structs.replace(done, is_enabled=False)
    rule = EvaluatedRule(RuleKind.SCHEDULE_DISABLED, thing="1")
    rule.evaluate(read(done, 0), 5)
    assert rule.evaluate(read(off, 600, written=401), 605) == "none"
    early = EvaluatedRule(RuleKind.SCHEDULE_DISABLED, thing="1")
    early.evaluate(read(done, 0), 5)
    assert early.evaluate(read(off, 300, written=250), 305) == "firing"


def test_before_schedules_are_read_nothing_changes() -> None:
    """After a restart an alert stays as it is until the schedules were read again."""
    rule = EvaluatedRule(RuleKind.SCHEDULE_DISABLED, thing="1")
    assert rule.evaluate(ScheduleFacts(schedule=None, read_at=None), None) == "none"
    rule.evaluate(read(ON, 0), 5)
    rule.evaluate(read(OFF, 300), 305)
    assert rule.evaluate(ScheduleFacts(schedule=None, read_at=None), None) == "unknown"
    assert rule.evaluate(read(OFF, 900), 905) == "firing"

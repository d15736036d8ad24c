"""The rules of a pipeline's events are found once, and only those used last are kept."""

from __future__ import annotations

from monitor.alerting.attribution.subjects import of_run
from monitor.alerting.engine.event_routing import EventRuleLookup, EventRules
from monitor.alerting.engine.rule_set import RuleSet
from monitor.alerting.settings import AlertingSettings
from monitor.model.events import EventType
from monitor.model.runs import Pipeline, PipelineKind, Status
from monitor.tracking.live_state import LiveState
from tests.alerting.run_samples import key, state


def test_no_more_are_kept_than_the_bound() -> None:
    """A pipeline that had no event for longest is forgotten, and its rules are found again."""
    view = LiveState(["acme"]).view
    lookup = EventRuleLookup(RuleSet.of(AlertingSettings()), view, kept=2)
    run = state(1, Status.FAILED)

    def found(flow: int) -> EventRules:
        subject = of_run(key(1), Pipeline(kind=PipelineKind.FLOW, id=str(flow), name="orders"))
        return lookup.find(EventType.RUN_FAILED, subject, run)

    first, second = found(1), found(2)
    assert found(1) is first
    third = found(3)
    assert found(1) is first
    assert found(3) is third
    assert found(2) is not second

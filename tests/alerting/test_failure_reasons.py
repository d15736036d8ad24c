"""An alert about failures names one run, and the reason of that run."""

from __future__ import annotations

import msgspec
import pytest

from monitor.alerting.rules.contract import AnyRuleDefinition, Firing
from monitor.alerting.rules.failing_repeatedly import DEFINITION as FAILING_REPEATEDLY
from monitor.alerting.rules.run_failed import DEFINITION as RUN_FAILED
from monitor.model.events import EventType, RunEvent
from monitor.model.runs import RunKind, RunState, Status
from tests.alerting.rule_history import History
from tests.alerting.run_samples import at, rule, run_event, state


def _failed(number: int, error: str | None = None) -> RunState:
    return state(number, Status.FAILED, finished_at=at(60 * number), error=error)


def _detailed(number: int) -> RunEvent:
    run = msgspec.structs.replace(_failed(number, f"error {number}"), detailed=True)
    return run_event(run, EventType.RUN_DETAILED)


@pytest.mark.parametrize("definition", [RUN_FAILED, FAILING_REPEATEDLY])
def test_the_reason_of_an_older_failure_is_not_that_of_the_newest(
    definition: AnyRuleDefinition,
) -> None:
    """In whatever order failures and reasons are read, run and reason are of the newest one."""
    history = History(definition, msgspec.structs.replace(rule(definition.rule), threshold=1.0))
    events = [run_event(_failed(number)) for number in (1, 3, 2)]
    events += [_detailed(number) for number in (3, 1, 2)]
    fired = [answer for event in events if isinstance(answer := history.on_event(event), Firing)]
    assert [answer.run and answer.run.id for answer in fired] == [
        answer.facts["run"] for answer in fired
    ]
    shown = [(answer.facts["run"], answer.facts["error"]) for answer in fired]
    assert shown == [("1", None), ("3", None), ("3", None), ("3", "error 3")]


def test_the_reason_of_a_part_is_that_of_its_run_before_that_has_ended() -> None:
    """A part fails before the flow run around it, which often has no text of its own."""
    history = History(
        FAILING_REPEATEDLY,
        msgspec.structs.replace(rule(FAILING_REPEATEDLY.rule), threshold=2.0),
    )
    first = state(1, Status.FAILED, kind=RunKind.FLOW_RUN, finished_at=at(60), error="first")
    history.on_event(run_event(first))
    inside = state(9, Status.FAILED, finished_at=at(119), error="broken")
    second = state(2, Status.FAILED, kind=RunKind.FLOW_RUN, finished_at=at(120))
    history.on_event(run_event(inside), root_run=second.key)
    firing = history.on_event(run_event(second))
    assert isinstance(firing, Firing)
    assert (firing.facts["run"], firing.facts["error"]) == ("2", "broken")

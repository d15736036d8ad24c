"""A failure fires at once; the job records that explain it may come later."""

from __future__ import annotations

from monitor.alerting.rules.failing_repeatedly import DEFINITION as FAILING_REPEATEDLY
from monitor.alerting.rules.results import Firing
from monitor.alerting.rules.rule_settings import RuleKind
from monitor.alerting.rules.run_failed import DEFINITION as RUN_FAILED
from monitor.model.events import EventType
from monitor.model.runs import Parents, RunKind, Status
from tests.alerting.run_samples import END, event_input, key, rule, run_event, state

SETTINGS = rule(RuleKind.RUN_FAILED)


def test_a_late_error_explains_the_alert() -> None:
    """The same failure is evidence again, now with its message: no second one begins."""
    failed = run_event(state(1, Status.FAILED))
    detailed = run_event(
        state(1, Status.FAILED, error="column amount is no number"), EventType.RUN_DETAILED
    )
    assert RUN_FAILED.on_event is not None
    first = RUN_FAILED.on_event(event_input(failed), None, SETTINGS)
    later = RUN_FAILED.on_event(event_input(detailed), first.memory, SETTINGS)

    assert isinstance(first.result, Firing)
    assert first.result.facts["error"] is None
    assert isinstance(later.result, Firing)
    assert later.result.facts["error"] == "column amount is no number"
    assert later.result.evidence == first.result.evidence
    assert later.result.since == END


def test_an_error_inside_a_run_is_the_runs() -> None:
    """A flow run reports no error of its own: that of the job group that failed in it stays."""
    assert RUN_FAILED.on_event is not None
    outer = key(9, RunKind.FLOW_RUN)
    inner = state(1, Status.FAILED, error="no such table", parents=Parents(flow_run="9"))
    first = RUN_FAILED.on_event(event_input(run_event(inner), root_run=outer), None, SETTINGS)
    own = run_event(state(9, Status.FAILED, kind=RunKind.FLOW_RUN))
    beside = state(2, Status.SUCCEEDED, parents=Parents(flow_run="8"))
    eight = key(8, RunKind.FLOW_RUN)
    between = RUN_FAILED.on_event(
        event_input(run_event(beside), root_run=eight), first.memory, SETTINGS
    )
    second = RUN_FAILED.on_event(event_input(own), between.memory, SETTINGS)
    next_run = run_event(state(10, Status.FAILED, kind=RunKind.FLOW_RUN))
    third = RUN_FAILED.on_event(event_input(next_run), second.memory, SETTINGS)

    assert isinstance(second.result, Firing)
    assert second.result.facts == {"error": "no such table", "run": "9", "failing": 1}
    assert isinstance(third.result, Firing)
    assert third.result.facts["error"] is None  # of another run nobody knows it


def test_records_inside_a_run_explain_its_failure() -> None:
    """The flow run failed first; what its job group's records say is evidence of it."""
    assert RUN_FAILED.on_event is not None
    outer = key(9, RunKind.FLOW_RUN)
    own = run_event(state(9, Status.FAILED, kind=RunKind.FLOW_RUN))
    first = RUN_FAILED.on_event(event_input(own), None, SETTINGS)
    inner = state(1, Status.FAILED, error="no such table", parents=Parents(flow_run="9"))
    detailed = run_event(inner, EventType.RUN_DETAILED)
    later = RUN_FAILED.on_event(event_input(detailed, root_run=outer), first.memory, SETTINGS)

    assert isinstance(later.result, Firing)
    assert later.result.evidence == ("acme:flow_run:9:failed",)
    assert later.result.facts["error"] == "no such table"


def test_repeated_failures_know_what_was_said_inside() -> None:
    """Whether the parts fail before their run or are explained after it."""
    definition, settings = FAILING_REPEATEDLY, rule(RuleKind.FAILING_REPEATEDLY, threshold=2)
    assert definition.on_event is not None
    memory, result = None, None
    for number in (1, 2):
        outer = key(10 + number, RunKind.FLOW_RUN)
        parents = Parents(flow_run=outer.id)
        inner = state(number, Status.FAILED, error=f"error {number}", parents=parents)
        own = run_event(state(10 + number, Status.FAILED, kind=RunKind.FLOW_RUN))
        memory = definition.on_event(
            event_input(run_event(inner), root_run=outer), memory, settings
        ).memory
        judged = definition.on_event(event_input(own), memory, settings)
        memory, result = judged.memory, judged.result
    assert isinstance(result, Firing)
    assert result.facts["error"] == "error 2"
    later = state(2, Status.FAILED, error="error 2, wholly", parents=Parents(flow_run="12"))
    detailed = run_event(later, EventType.RUN_DETAILED)
    judged = definition.on_event(
        event_input(detailed, root_run=key(12, RunKind.FLOW_RUN)), memory, settings
    )
    assert isinstance(judged.result, Firing)
    assert judged.result.facts["error"] == "error 2, wholly"
    assert judged.result.evidence == result.evidence


def test_records_of_what_is_over_explain_nothing() -> None:
    """Once a success has ended the alert, what is read of the failure begins none."""
    assert RUN_FAILED.on_event is not None
    detailed = run_event(state(1, Status.FAILED, error="late"), EventType.RUN_DETAILED)
    judged = RUN_FAILED.on_event(event_input(detailed), None, SETTINGS)

    assert judged.result is None
    assert judged.memory is None


def test_records_without_a_message_change_nothing() -> None:
    """A workspace that does not offer job records leaves the alert as it is."""
    assert RUN_FAILED.on_event is not None
    first = RUN_FAILED.on_event(event_input(run_event(state(1, Status.FAILED))), None, SETTINGS)
    detailed = run_event(state(1, Status.FAILED), EventType.RUN_DETAILED)

    assert RUN_FAILED.on_event(event_input(detailed), first.memory, SETTINGS).result is None

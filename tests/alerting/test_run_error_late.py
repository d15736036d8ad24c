"""A failure is told at once; the job records that explain it may come later."""

from __future__ import annotations

from monitor.alerting.conditions.ended_runs import RUN_FAILED
from monitor.alerting.conditions.repeated_failures import FAILING_REPEATEDLY
from monitor.alerting.settings.rules import RuleKind
from monitor.alerting.verdicts import Wrong
from monitor.model.events import EventType
from monitor.model.runs import Parents, RunKind, Status
from tests.alerting.run_stories import END, heard, key, rule, run_event, state

SETTINGS = rule(RuleKind.RUN_FAILED)


def test_a_late_error_explains_the_alert() -> None:
    """The same failure is evidence again, now with its message: no second one begins."""
    failed = run_event(state(1, Status.FAILED))
    detailed = run_event(
        state(1, Status.FAILED, error="column amount is no number"), EventType.RUN_DETAILED
    )
    assert RUN_FAILED.hear is not None
    first = RUN_FAILED.hear(heard(failed), None, SETTINGS)
    later = RUN_FAILED.hear(heard(detailed), first.memory, SETTINGS)

    assert isinstance(first.verdict, Wrong)
    assert first.verdict.facts["error"] is None
    assert isinstance(later.verdict, Wrong)
    assert later.verdict.facts["error"] == "column amount is no number"
    assert later.verdict.evidence == first.verdict.evidence
    assert later.verdict.since == END


def test_an_error_inside_a_run_is_the_runs() -> None:
    """A flow run tells no error of its own: that of the job group that failed in it stays."""
    assert RUN_FAILED.hear is not None
    outer = key(9, RunKind.FLOW_RUN)
    inner = state(1, Status.FAILED, error="no such table", parents=Parents(flow_run="9"))
    first = RUN_FAILED.hear(heard(run_event(inner), outermost=outer), None, SETTINGS)
    own = run_event(state(9, Status.FAILED, kind=RunKind.FLOW_RUN))
    beside = state(2, Status.SUCCEEDED, parents=Parents(flow_run="8"))
    eight = key(8, RunKind.FLOW_RUN)
    between = RUN_FAILED.hear(heard(run_event(beside), outermost=eight), first.memory, SETTINGS)
    second = RUN_FAILED.hear(heard(own), between.memory, SETTINGS)
    next_run = run_event(state(10, Status.FAILED, kind=RunKind.FLOW_RUN))
    third = RUN_FAILED.hear(heard(next_run), second.memory, SETTINGS)

    assert isinstance(second.verdict, Wrong)
    assert second.verdict.facts == {"error": "no such table", "run": "9", "failing": 1}
    assert isinstance(third.verdict, Wrong)
    assert third.verdict.facts["error"] is None  # of another run nobody knows it


def test_records_inside_a_run_explain_its_failure() -> None:
    """The flow run's failure was told first; what its job group's records say is evidence of it."""
    assert RUN_FAILED.hear is not None
    outer = key(9, RunKind.FLOW_RUN)
    own = run_event(state(9, Status.FAILED, kind=RunKind.FLOW_RUN))
    first = RUN_FAILED.hear(heard(own), None, SETTINGS)
    inner = state(1, Status.FAILED, error="no such table", parents=Parents(flow_run="9"))
    detailed = run_event(inner, EventType.RUN_DETAILED)
    later = RUN_FAILED.hear(heard(detailed, outermost=outer), first.memory, SETTINGS)

    assert isinstance(later.verdict, Wrong)
    assert later.verdict.evidence == ("acme:flow_run:9:failed",)
    assert later.verdict.facts["error"] == "no such table"


def test_repeated_failures_know_what_was_said_inside() -> None:
    """Whether the parts fail before their run or are explained after it."""
    condition, settings = FAILING_REPEATEDLY, rule(RuleKind.FAILING_REPEATEDLY, threshold=2)
    assert condition.hear is not None
    memory, verdict = None, None
    for number in (1, 2):
        outer = key(10 + number, RunKind.FLOW_RUN)
        parents = Parents(flow_run=outer.id)
        inner = state(number, Status.FAILED, error=f"error {number}", parents=parents)
        own = run_event(state(10 + number, Status.FAILED, kind=RunKind.FLOW_RUN))
        memory = condition.hear(heard(run_event(inner), outermost=outer), memory, settings).memory
        judged = condition.hear(heard(own), memory, settings)
        memory, verdict = judged.memory, judged.verdict
    assert isinstance(verdict, Wrong)
    assert verdict.facts["error"] == "error 2"
    later = state(2, Status.FAILED, error="error 2, wholly", parents=Parents(flow_run="12"))
    detailed = run_event(later, EventType.RUN_DETAILED)
    judged = condition.hear(heard(detailed, outermost=key(12, RunKind.FLOW_RUN)), memory, settings)
    assert isinstance(judged.verdict, Wrong)
    assert judged.verdict.facts["error"] == "error 2, wholly"
    assert judged.verdict.evidence == verdict.evidence


def test_records_of_what_is_over_explain_nothing() -> None:
    """Once a success has ended the alert, what is read of the failure begins none."""
    assert RUN_FAILED.hear is not None
    detailed = run_event(state(1, Status.FAILED, error="late"), EventType.RUN_DETAILED)
    judged = RUN_FAILED.hear(heard(detailed), None, SETTINGS)

    assert judged.verdict is None
    assert judged.memory is None


def test_records_without_a_message_change_nothing() -> None:
    """A workspace that does not offer job records leaves the alert as it is."""
    assert RUN_FAILED.hear is not None
    first = RUN_FAILED.hear(heard(run_event(state(1, Status.FAILED))), None, SETTINGS)
    detailed = run_event(state(1, Status.FAILED), EventType.RUN_DETAILED)

    assert RUN_FAILED.hear(heard(detailed), first.memory, SETTINGS).verdict is None

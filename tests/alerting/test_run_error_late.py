"""A failure is told at once; the job records that explain it may come later."""

from __future__ import annotations

from monitor.alerting.conditions.ended_runs import RUN_FAILED
from monitor.alerting.settings.rules import RuleKind
from monitor.alerting.verdicts import Wrong
from monitor.model.events import EventType
from monitor.model.runs import Status
from tests.alerting.run_stories import END, heard, rule, run_event, state

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
    assert later.memory == first.memory


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

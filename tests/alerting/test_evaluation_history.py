"""The newest evaluations are kept, and no more than the bounds allow."""

from __future__ import annotations

from datetime import UTC, datetime

from monitor.alerting.alerts.outcome import StepWord
from monitor.alerting.engine.history import EvaluationHistory

AT = datetime(2026, 11, 21, 10, tzinfo=UTC)
EVENT = "acme:job_group:1:failed"


def test_each_rule_that_evaluated_an_event_is_kept_once() -> None:
    """A repeated evaluation replaces the former one; another rule stands beside it."""
    history = EvaluationHistory()
    history.add(EVENT, "run_failed", "aa", StepWord.PENDING, at=AT)
    history.add(EVENT, "run_failed", "aa", StepWord.FIRED, at=AT)
    history.add(EVENT, "canceled", "bb", StepWord.NO_RESULT, at=AT, detail="why")
    kept = [history.of_events([EVENT], *of) for of in (("run_failed", "aa"), ("canceled", "bb"))]
    assert [(record.word, record.detail) for record in kept if record is not None] == [
        (StepWord.FIRED, ""),
        (StepWord.NO_RESULT, "why"),
    ]
    assert history.of_events([EVENT], "run_failed", "bb") is None
    assert history.of_events(["acme:job_group:2:failed"], "run_failed", "aa") is None


def test_the_newest_of_several_events_counts() -> None:
    """Of the events of a run the last one that the rule evaluated is returned."""
    history = EvaluationHistory()
    history.add("started", "run_failed", "aa", StepWord.NO_RESULT, at=AT)
    history.add(EVENT, "run_failed", "aa", StepWord.FIRED, at=AT)
    last = history.of_events(["started", EVENT, "detailed"], "run_failed", "aa")
    assert last is not None
    assert last.word == StepWord.FIRED


def test_the_last_evaluation_of_state_is_kept() -> None:
    """An evaluation without an event belongs to rule and subject; a newer one replaces it."""
    history = EvaluationHistory()
    for word in (StepWord.UNKNOWN, StepWord.PENDING):
        history.add(None, "run_overdue", "aa", word, at=AT)
    last = history.last_of_state("run_overdue", "aa")
    assert last is not None
    assert last.word == StepWord.PENDING
    assert history.last_of_state("run_overdue", "bb") is None


def test_the_oldest_leave_when_it_is_full() -> None:
    """No kind grows beyond its bound, however many rules evaluate each event."""
    history = EvaluationHistory(of_events=6, of_state=2, harmless=1)
    for number in range(10):
        history.add_harmless(
            f"success {number}", {"run_failed": StepWord.NO_RESULT}, frozenset({"aa"}), at=AT
        )
        for rule in ("run_failed", "canceled", "canceled"):
            history.add(f"event {number}", rule, "aa", StepWord.FIRED, at=AT)
        history.add(None, "run_stuck", f"{number}", StepWord.UNKNOWN, at=AT)
    of_events = [n for n in range(10) if history.of_events([f"event {n}"], "canceled", "aa")]
    of_state = [n for n in range(10) if history.last_of_state("run_stuck", f"{n}")]
    harmless = [n for n in range(10) if history.of_events([f"success {n}"], "run_failed", "aa")]
    assert (of_events, of_state, harmless) == ([7, 8, 9], [8, 9], [9])

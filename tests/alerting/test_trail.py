"""What rules said lately is kept, and no more than that."""

from __future__ import annotations

from datetime import UTC, datetime

from monitor.alerting.alerts.outcome import StepWord
from monitor.alerting.engine.history import EvaluationHistory, EvaluationRecord

AT = datetime(2026, 11, 21, 10, tzinfo=UTC)


def said(rule: str, fingerprint: str, word: StepWord, detail: str = "") -> EvaluationRecord:
    """Return what a rule said at that instant."""
    return EvaluationRecord(rule=rule, fingerprint=fingerprint, word=word, at=AT, detail=detail)


def test_every_rule_that_heard_an_event_is_kept_once() -> None:
    """A repeated evaluation replaces the former one; another rule stands beside it."""
    history = EvaluationHistory()
    history.add("acme:job_group:1:failed", said("run_failed", "aa", StepWord.PENDING))
    history.add("acme:job_group:1:failed", said("run_failed", "aa", StepWord.FIRED))
    history.add("acme:job_group:1:failed", said("canceled", "bb", StepWord.NO_RESULT, "why"))
    told = [
        (item.rule, item.word, item.detail) for item in history.of_event("acme:job_group:1:failed")
    ]
    assert told == [("run_failed", "fired", ""), ("canceled", "no result", "why")]
    assert history.of_event("acme:job_group:2:failed") == ()


def test_the_last_look_of_a_rule_is_kept() -> None:
    """A look without an event belongs to rule and subject, and a newer one replaces it."""
    history = EvaluationHistory()
    for word in (StepWord.UNKNOWN, StepWord.PENDING):
        history.add(None, said("run_overdue", "aa", word))
    last = history.last_of_state("run_overdue", "aa")
    assert last is not None
    assert last.word == "pending"
    assert history.last_of_state("run_overdue", "bb") is None


def test_the_oldest_leave_when_it_is_full() -> None:
    """Neither events nor looks grow beyond their bounds, however many rules hear each event."""
    history = EvaluationHistory(of_events=6, of_state=2)
    for number in range(10):
        for rule in ("run_failed", "canceled", "canceled"):
            history.add(f"event {number}", said(rule, "aa", StepWord.FIRED))
        history.add(None, said("run_stuck", f"{number}", StepWord.UNKNOWN))
    kept = [number for number in range(10) if history.of_event(f"event {number}")]
    looked = [number for number in range(10) if history.last_of_state("run_stuck", f"{number}")]
    assert (kept, looked) == ([7, 8, 9], [8, 9])

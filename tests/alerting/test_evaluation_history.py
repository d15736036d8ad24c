"""The newest evaluations are kept, and no more than the bounds allow."""

from __future__ import annotations

from datetime import UTC, datetime

from monitor.alerting.alerts.instance import StepWord
from monitor.alerting.engine.evaluation import EvaluationHistory

AT = datetime(2026, 11, 21, 10, tzinfo=UTC)
EVENT = "acme:job_group:1:failed"


def test_each_rule_that_evaluated_an_event_is_kept_once() -> None:
    """A repeated evaluation replaces the former one; another rule stands beside it."""
    history = EvaluationHistory()
    history.add(EVENT, "aa", StepWord.PENDING, at=AT)
    history.add(EVENT, "aa", StepWord.FIRED, at=AT)
    history.add(EVENT, "bb", StepWord.NO_RESULT, at=AT, detail="why")
    kept = [history.of_events([EVENT], fingerprint) for fingerprint in ("aa", "bb")]
    assert [(record.word, record.detail) for record in kept if record is not None] == [
        (StepWord.FIRED, ""),
        (StepWord.NO_RESULT, "why"),
    ]
    assert history.of_events([EVENT], "cc") is None
    assert history.of_events(["acme:job_group:2:failed"], "aa") is None


def test_the_newest_of_several_events_counts() -> None:
    """Of the events of a run the last one that the rule evaluated is returned."""
    history = EvaluationHistory()
    history.add("started", "aa", StepWord.NO_RESULT, at=AT)
    history.add(EVENT, "aa", StepWord.FIRED, at=AT)
    last = history.of_events(["started", EVENT, "detailed"], "aa")
    assert last is not None
    assert last.word == StepWord.FIRED


def test_the_last_evaluation_of_state_is_kept() -> None:
    """An evaluation without an event belongs to rule and subject; a newer one replaces it."""
    history = EvaluationHistory()
    for word in (StepWord.UNKNOWN, StepWord.PENDING):
        history.add(None, "aa", word, at=AT)
    last = history.last_of_state("aa")
    assert last is not None
    assert last.word == StepWord.PENDING
    assert history.last_of_state("bb") is None


def test_a_rule_that_found_nothing_by_an_event_is_known() -> None:
    """Of every fingerprint that rules handled an event for, until they find something."""
    history = EvaluationHistory()
    history.add_event(EVENT, ("aa", "bb"), at=AT)
    history.add(EVENT, "bb", StepWord.FIRED, at=AT)
    words = {}
    for fingerprint in ("aa", "bb", "cc"):
        found = history.of_events([EVENT], fingerprint)
        words[fingerprint] = None if found is None else found.word
    assert words == {"aa": StepWord.NO_RESULT, "bb": StepWord.FIRED, "cc": None}

    history.add_event(EVENT, ("aa", "bb"), at=AT)
    repeated = history.of_events([EVENT], "bb")
    assert repeated is not None
    assert repeated.word == StepWord.NO_RESULT


def test_the_oldest_leave_when_it_is_full() -> None:
    """No kind grows beyond its bound, however many rules evaluate each event."""
    history = EvaluationHistory(events=3, of_state=2)
    for number in range(10):
        history.add_event(f"event {number}", ("aa",), at=AT)
        for fingerprint in range(1_000):
            history.add(f"event {number}", f"{fingerprint}", StepWord.FIRED, at=AT)
        history.add(None, f"{number}", StepWord.UNKNOWN, at=AT)
    of_events = [n for n in range(10) if history.of_events([f"event {n}"], "aa")]
    of_state = [n for n in range(10) if history.last_of_state(f"{n}")]
    kept = [n for n in range(1_000) if history.of_events(["event 9"], f"{n}")]
    assert (of_events, of_state, len(kept)) == ([7, 8, 9], [8, 9], 100)

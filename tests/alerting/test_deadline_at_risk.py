"""A deadline is at risk while what a run usually takes no longer fits before it."""

from __future__ import annotations

from datetime import timedelta

from monitor.alerting.rules.contract import Firing
from monitor.alerting.rules.deadline_settings import Counts
from monitor.alerting.rules.rule_settings import RuleKind
from monitor.model.alert_texts import Rendering, fill
from tests.alerting.deadline_histories import History, on, run

USUAL = timedelta(minutes=42).total_seconds()


def at_risk(**changes: object) -> History:
    return History(RuleKind.DEADLINE_AT_RISK, usual_seconds=USUAL, **changes)  # type: ignore[arg-type] # of History


def test_it_fires_when_a_run_no_longer_fits_and_is_over_at_the_deadline() -> None:
    """Evaluated at that time and not sooner; then the deadline is missed."""
    history = at_risk()
    history.evaluate("06:00")
    assert history.again_at == on("06:18")
    history.evaluate("06:17")
    assert history.notices == []
    history.evaluate("06:18")
    assert history.notices == ["Mon 06:18"]
    history.evaluate("07:00")
    assert history.notices[1].startswith("-Mon 07:00")


def test_its_text_says_what_is_needed_and_what_is_left() -> None:
    """As of when it is read; where a text is kept, by the instant."""
    history = at_risk()
    history.evaluate("06:40")
    assert isinstance(history.last, Firing)
    values, text = history.last.facts, history.definition.description
    assert fill(text, values, Rendering(at=on("06:40"))) == (
        "A run usually needs 42 min, and the deadline is in 20 min. None has started that counts."
    )
    history.active = (run(1, on("06:35")),)
    history.evaluate("06:40")
    assert isinstance(history.last, Firing)
    kept = fill(text, history.last.facts, Rendering(at=on("06:40"), is_kept=True))
    assert kept == (
        "A run usually needs 42 min, and the deadline is at 2026-11-23T06:00:00Z. "
        "The present one should end at 2026-11-23T06:17:00Z."
    )


def test_a_run_that_works_needs_only_what_is_left_of_it() -> None:
    """One that began in time is no risk, however long it takes; one that began late is."""
    history = at_risk()
    history.active = (run(1, on("06:10")),)
    history.evaluate("06:30")
    history.evaluate("06:59")
    assert history.notices == []
    late = at_risk()
    late.active = (run(1, on("06:30")),)
    late.evaluate("06:40")
    assert late.notices == ["Mon 06:30"]
    assert isinstance(late.last, Firing)
    assert late.last.facts["expected_end_at"] == "2026-11-23T06:12:00Z"


def test_it_is_over_when_the_deadline_is_met() -> None:
    """By a run that was faster than usual."""
    history = at_risk()
    history.evaluate("06:30")
    history.succeed(1, "06:35", "06:50")
    history.evaluate("06:51")
    assert history.notices == ["Mon 06:18", "-Mon 06:51"]
    assert history.again_at == on("Tue 06:18")


def test_a_run_of_the_day_before_does_not_count() -> None:
    """It may end in time, but not for this deadline; where ends count, it does."""
    for counts, notices in ((Counts.STARTED, ["Mon 06:18"]), (Counts.ENDED, [])):
        history = at_risk(counts=counts)
        history.active = (run(1, on("00:00") - timedelta(minutes=1)),)
        history.evaluate("06:30")
        assert history.notices == notices


def test_nothing_is_at_risk_while_the_usual_time_is_not_known() -> None:
    """It is learned, or set by ``threshold``."""
    unknown = History(RuleKind.DEADLINE_AT_RISK)
    unknown.evaluate("06:59")
    assert unknown.notices == []
    known = History(RuleKind.DEADLINE_AT_RISK, threshold=600.0)
    known.evaluate("06:55")
    assert known.notices == ["Mon 06:50"]


def test_an_outage_over_the_whole_risk_fires_nothing() -> None:
    """When all is read again, the deadline is decided already."""
    history = at_risk()
    history.evaluate("06:10")
    history.succeed(1, "06:20", "06:55")
    history.evaluate("09:00")
    assert history.notices == []

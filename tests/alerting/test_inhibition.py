"""An outage inhibits what it explains; observed failures fire all the same."""

from __future__ import annotations

import msgspec
import pytest

from monitor.alerting.alerts.silences import SilenceSettings, configured_silence
from monitor.alerting.engine.suppression import Suppression
from monitor.alerting.rules.rule_settings import RuleKind
from monitor.model.alerts import BRIDGE, Alert, AlertState
from monitor.model.mute_windows import parse_mute_window
from tests.alerting.sample_alerts import STARTED, an_alert

OUTAGE = an_alert("workspace_unreachable")
DOUBTFUL = (
    "run_overdue", "run_stuck", "queue_slow", "schedule_missed", "not_fresh", "deadline_missed",
    "deadline_at_risk", "callbacks_missed", "budget_exhausted",
)  # fmt: skip
SEEN = (
    "run_failed", "failing_repeatedly", "canceled", "run_lost", "success_doubted",
    "schedule_disabled",
)  # fmt: skip
UNTOUCHED = (
    "token_expiring", "quality_dropped", "workspace_unreachable", "pipelines_unshared",
    "monitor_degraded",
)  # fmt: skip


def reasons(alert: Alert, *others: Alert) -> tuple[str, ...]:
    """Return what suppresses an alert beside others."""
    return Suppression.of((), (alert, *others)).reasons(alert, (), at=STARTED)


@pytest.mark.parametrize("rule", DOUBTFUL)
def test_an_outage_suppresses_what_cannot_be_seen(rule: str) -> None:
    """While a workspace does not answer, what seems not to happen there does not fire."""
    inhibited = (f"inhibited:{OUTAGE.fingerprint}",)
    assert reasons(an_alert(rule), OUTAGE) == inhibited
    assert reasons(an_alert(rule, is_notified=True), OUTAGE) == inhibited


@pytest.mark.parametrize("rule", DOUBTFUL)
def test_an_outage_of_a_list_that_only_names_suppresses_nothing(rule: str) -> None:
    """Without the list of flows every run and schedule is seen, so what is absent is absent."""
    unnamed = msgspec.structs.replace(OUTAGE, facts={"hides_only": "flows"})
    assert reasons(an_alert(rule), unnamed) == ()


@pytest.mark.parametrize("rule", SEEN)
def test_an_outage_suppresses_no_news_of_what_was_seen(rule: str) -> None:
    """A failure that a callback reports in an outage fires; only its reminders wait."""
    assert reasons(an_alert(rule), OUTAGE) == ()
    assert reasons(an_alert(rule, is_notified=True), OUTAGE) == (f"inhibited:{OUTAGE.fingerprint}",)


@pytest.mark.parametrize("rule", UNTOUCHED)
def test_an_outage_explains_nothing_else(rule: str) -> None:
    """A token runs out in an outage too, and the outage does not hold itself back."""
    assert reasons(an_alert(rule, labels={"token_id": "7"}, is_notified=True), OUTAGE) == ()


def test_every_rule_has_its_place() -> None:
    """No rule is forgotten when it is said what an outage explains."""
    assert {*DOUBTFUL, *SEEN, *UNTOUCHED} == set(RuleKind)


def test_a_silenced_outage_inhibits_all_the_same() -> None:
    """A silence of the outage suppresses its consequences too."""
    outage = msgspec.structs.replace(OUTAGE, muted_by=("silence:7",))
    assert reasons(an_alert("not_fresh"), outage) == (f"inhibited:{outage.fingerprint}",)


def test_an_outage_explains_its_own_workspace_only() -> None:
    """Other workspaces answer, so what is missed there is missed."""
    assert reasons(an_alert("not_fresh", workspace="sales"), OUTAGE) == ()


@pytest.mark.parametrize("state", [AlertState.PENDING, AlertState.RESOLVED])
def test_only_what_fires_suppresses(state: AlertState) -> None:
    """An outage that is over, or that is not yet sure, explains nothing."""
    outage = an_alert("workspace_unreachable", state=state)
    assert reasons(an_alert("not_fresh"), outage) == ()


@pytest.mark.parametrize(
    ("part", "is_held_back"),
    [
        ("backlog:alerting", True),
        ("store", False),
        ("backlog:mqtt", False),
        ("dead_letters:webhook", False),
    ],
)
def test_a_lagging_output_does_not_silence_the_others(part: str, *, is_held_back: bool) -> None:
    """Only what all evaluating waits for explains anything, and it does so in every workspace."""
    degraded = an_alert("monitor_degraded", workspace=BRIDGE, labels={"part": part})
    expected = (f"inhibited:{degraded.fingerprint}",) if is_held_back else ()
    assert reasons(an_alert("not_fresh"), degraded) == expected
    assert reasons(an_alert("not_fresh", workspace="sales"), degraded) == expected
    assert reasons(an_alert("workspace_unreachable"), degraded) == ()
    assert reasons(degraded, degraded) == ()


def test_all_reasons_are_kept() -> None:
    """All reasons are returned, silences first."""
    settings = SilenceSettings(
        matchers=("rule=not_fresh",), comment="why", ends_at=STARTED.replace(hour=12)
    )
    silence = configured_silence(settings, now=STARTED)
    held = Suppression.of((silence,), (OUTAGE,))
    window = parse_mute_window("Sat UTC")
    assert held.reasons(an_alert("not_fresh"), (window,), at=STARTED) == (
        f"silence:{silence.id}",
        "mute",
        f"inhibited:{OUTAGE.fingerprint}",
    )

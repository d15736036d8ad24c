"""Acknowledged alerts: no reminders, for as long as that alert lasts, whatever else happens."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from monitor.alerting.rules.rule_settings import RuleKind
from monitor.alerting.rules.table import default_rule
from monitor.alerting.settings import AlertingSettings
from monitor.model.alerts import Acknowledgement, Alert
from monitor.model.runs import Status
from tests.alerting.engine_scenario import EngineScenario, engine_scenario
from tests.alerting.lifecycle_history import SILENCED, History

HOUR = 3_600.0


@pytest.fixture
async def scenario(tmp_path: Path) -> AsyncIterator[EngineScenario]:
    settings = AlertingSettings(rules=(default_rule(RuleKind.RUN_FAILED),))
    async with engine_scenario(tmp_path, settings) as scenario:
        yield scenario


async def acknowledge(scenario: EngineScenario, alert: Alert, *, author: str = "anna") -> bool:
    return await scenario.engine.acknowledge(
        alert.fingerprint, alert.starts_at, author=author, comment="the source is late"
    )


def test_an_acknowledged_alert_sends_no_reminder_and_its_end() -> None:
    """Reminders stop; the resolved notification is still owed and goes out."""
    history = History(repeat_seconds=1_000)
    history.wrong()
    history.acknowledge()

    history.passes(1_000)
    history.passes(10_000)
    history.right(after=1)

    assert history.told.words == ["fired", "resolved"]


def test_an_end_of_a_silence_sends_no_reminder_of_what_is_acknowledged() -> None:
    """A silence that ends over a firing alert reminds of it, unless it is acknowledged."""
    history = History(repeat_seconds=1_000)
    history.wrong()
    history.acknowledge()
    history.muted_by = SILENCED
    history.passes(1)
    history.muted_by = ()
    history.passes(1)

    assert history.told.words == ["fired", "silenced"]


def test_an_acknowledged_alert_that_was_silenced_still_fires() -> None:
    """Only reminders stop: the first notification of what a silence held back goes out."""
    history = History(repeat_seconds=1_000)
    history.muted_by = SILENCED
    history.wrong()
    history.acknowledge()
    history.muted_by = ()
    history.passes(1)

    assert history.told.words == ["silenced", "fired"]


def test_the_next_alert_of_a_fingerprint_is_not_acknowledged() -> None:
    """It has another start: it fires, and reminds again."""
    history = History(repeat_seconds=1_000)
    history.wrong()
    history.acknowledge()
    history.right(after=60)
    history.wrong(after=60)
    history.passes(1_000)

    assert history.told.words == ["fired", "resolved", "fired", "reminded"]
    assert history.told.tellings[-1].alert.acknowledged is None


def test_a_flapping_alert_stays_acknowledged_until_it_ends() -> None:
    """An alert that comes and goes and comes again stays one alert, acknowledged once."""
    history = History(repeat_seconds=1_000)
    for _ in range(2):
        history.wrong(after=1)
        history.right(after=1)
    history.wrong(after=1)
    history.acknowledge()
    history.right(after=10)
    history.wrong(after=10)
    history.passes(1_500)

    assert history.told.words == ["fired", "resolved", "fired", "resolved", "flapping"]


async def test_a_restart_keeps_what_is_acknowledged(scenario: EngineScenario) -> None:
    """The next life of the daemon knows by whom, and sends no reminder either."""
    await scenario.end_run(1)
    await scenario.round()
    (alert,) = scenario.engine.snapshot().alerts
    assert await acknowledge(scenario, alert)

    later = await scenario.restarted()
    await later.clock.advance(5 * HOUR)
    await later.round()

    (shown,) = later.engine.snapshot().alerts
    assert shown.acknowledged is not None
    assert (shown.acknowledged.author, shown.acknowledged.comment) == ("anna", "the source is late")
    assert shown.reminders == 0


async def test_acknowledging_twice_is_counted_once(scenario: EngineScenario) -> None:
    """A form that is sent twice changes nothing; another person replaces the first."""
    await scenario.end_run(1)
    await scenario.round()
    (alert,) = scenario.engine.snapshot().alerts

    assert await acknowledge(scenario, alert)
    first = scenario.engine.snapshot().alerts[0].acknowledged
    await scenario.clock.advance(60)
    assert await acknowledge(scenario, alert)
    again = scenario.engine.snapshot()

    assert again.alerts[0].acknowledged == first
    assert again.transitions["run_failed", "acknowledged"] == 1
    assert await acknowledge(scenario, alert, author="bob")
    assert _author(scenario.engine.snapshot().alerts[0]) == "bob"
    assert scenario.engine.snapshot().transitions["run_failed", "acknowledged"] == 2


async def test_only_an_open_alert_with_that_start_is_acknowledged(scenario: EngineScenario) -> None:
    """Of another start, of an ended alert and of an unknown one: False, and nothing changes."""
    await scenario.end_run(1)
    await scenario.round()
    (alert,) = scenario.engine.snapshot().alerts
    engine = scenario.engine

    wrong = alert.starts_at.replace(year=2020)
    assert not await engine.acknowledge(alert.fingerprint, wrong, author="a", comment="")
    assert not await engine.acknowledge("none", alert.starts_at, author="a", comment="")
    await scenario.end_run(1, Status.SUCCEEDED)
    await scenario.round()
    assert not await acknowledge(scenario, alert)
    assert ("run_failed", "acknowledged") not in engine.snapshot().transitions


def _author(alert: Alert) -> str:
    assert isinstance(alert.acknowledged, Acknowledgement)
    return alert.acknowledged.author

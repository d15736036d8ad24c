"""Acknowledged alerts: no reminders while that lasts, whatever else happens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from monitor.alerting.alerts.instance import AlertInstance
from monitor.alerting.rules.rule_settings import RuleKind
from monitor.alerting.rules.table import default_rule
from monitor.alerting.settings import AlertingSettings
from monitor.model.alerts import Acknowledgement, Alert, alert_event_id
from monitor.model.errors import ConfigurationError
from monitor.model.runs import Status
from tests.alerting.engine_scenario import EngineScenario, engine_scenario
from tests.alerting.lifecycle_history import NOON, SILENCED, History

HOUR = 3_600.0


@pytest.fixture
async def scenario(tmp_path: Path) -> AsyncIterator[EngineScenario]:
    settings = AlertingSettings(rules=(default_rule(RuleKind.RUN_FAILED),))
    async with engine_scenario(tmp_path, settings) as scenario:
        yield scenario


async def acknowledge(
    scenario: EngineScenario, alert: Alert, *, author: str = "anna", lasts: float | None = None
) -> bool:
    until = None if lasts is None else scenario.clock.now() + timedelta(seconds=lasts)
    return await scenario.engine.acknowledge(
        alert.fingerprint,
        alert.starts_at,
        author=author,
        comment="the source is late",
        until=until,
    )


async def failed(scenario: EngineScenario) -> Alert:
    """Let a run fail, and return its alert."""
    await scenario.end_run(1)
    await scenario.round()
    (alert,) = scenario.engine.snapshot().alerts
    return alert


def test_an_acknowledged_alert_sends_no_reminder_and_its_end() -> None:
    """Reminders stop; the resolved notification is still owed and goes out."""
    history = History(repeat_seconds=1_000)
    history.wrong()
    history.acknowledge()

    history.passes(1_000)
    history.passes(10_000)
    history.right(after=1)

    assert history.told.words == ["fired", "acknowledged", "resolved"]


def test_an_end_of_a_silence_sends_no_reminder_of_what_is_acknowledged() -> None:
    """A silence that ends over a firing alert reminds of it, unless it is acknowledged."""
    history = History(repeat_seconds=1_000)
    history.wrong()
    history.acknowledge()
    history.muted_by = SILENCED
    history.passes(1)
    history.muted_by = ()
    history.passes(1)

    assert history.told.words == ["fired", "acknowledged", "silenced"]


def test_an_acknowledged_alert_that_was_silenced_still_fires() -> None:
    """Only reminders stop: the first notification of what a silence held back goes out."""
    history = History(repeat_seconds=1_000)
    history.muted_by = SILENCED
    history.wrong()
    history.acknowledge()
    history.muted_by = ()
    history.passes(1)

    assert history.told.words == ["silenced", "acknowledged", "fired"]


def test_the_next_alert_of_a_fingerprint_is_not_acknowledged() -> None:
    """It has another start: it fires, and reminds again."""
    history = History(repeat_seconds=1_000)
    history.wrong()
    history.acknowledge()
    history.right(after=60)
    history.wrong(after=60)
    history.passes(1_000)

    assert history.told.words == ["fired", "acknowledged", "resolved", "fired", "reminded"]
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

    assert history.told.words[:4] == ["fired", "resolved", "fired", "resolved"]
    assert history.told.words[4:] == ["flapping", "acknowledged"]


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


def test_reminders_go_on_when_it_ends() -> None:
    """The first goes out at once, however long ago the last was; the next in its usual time."""
    history = History(repeat_seconds=10_000)
    history.wrong()
    history.acknowledge(lasts=3_600)

    assert history.passes(3_599) == ""
    assert history.passes(1) == "reminded"
    assert history.told.tellings[-1].alert.acknowledged is None
    history.passes(9_999)
    assert history.told.words == ["fired", "acknowledged", "reminded"]
    assert history.passes(1) == "reminded"


def test_it_ends_within_a_silence_and_reminds_after_it() -> None:
    """A mute time that is on when it ends delays the reminder, and does not lose it."""
    history = History(repeat_seconds=10_000)
    history.wrong()
    history.acknowledge(lasts=60)
    history.muted_by = ("mute",)
    history.passes(100)
    history.muted_by = ()

    assert history.passes(1) == "reminded"


def test_it_ends_while_nothing_is_known_and_reminds_after_that() -> None:
    """Blind, there is no reminder; it goes out once the condition is seen to hold on."""
    history = History(repeat_seconds=10_000)
    history.wrong()
    history.acknowledge(lasts=60)
    history.unclear(after=10)
    assert history.passes(100) == ""

    history.looks_wrong("event-1")
    assert history.passes(1) == "reminded"


def test_a_pending_alert_publishes_who_knows_of_it_when_it_fires() -> None:
    """It has no event before its start; that carries an acknowledgement, if it still lasts."""
    history = History(for_seconds=300, repeat_seconds=10_000)
    history.wrong()
    history.acknowledge(lasts=1_000)
    history.passes(300)
    assert history.told.words == ["fired"]
    assert history.told.tellings[0].alert.acknowledged is not None

    later = History(for_seconds=300)
    later.wrong()
    later.acknowledge(lasts=100)
    later.passes(300)
    assert later.told.words == ["fired"]
    assert later.told.tellings[0].alert.acknowledged is None


def test_each_acknowledgement_has_a_number_of_its_own() -> None:
    """Also in an alert that begins again with the same start; a repeated one makes no event."""
    history = History()
    history.wrong(since=NOON)
    for author, lasts in (("anna", 60.0), ("anna", 61.0), ("anna", 7_200.0), ("bob", 7_200.0)):
        history.acknowledge(author=author, lasts=lasts)
    history.right(after=1)
    history.wrong(since=NOON)
    history.acknowledge()

    numbers = [each.number for each in history.told.tellings if each.word == "acknowledged"]
    assert numbers == [1, 2, 3, 4]
    assert len(history.told.ids) == len(set(history.told.ids))


def test_a_start_stays_once_an_acknowledgement_was_published() -> None:
    """The event names the start: what is learned later about it changes neither."""
    history = History()
    history.muted_by = ("mute",)
    history.wrong(since=NOON)
    history.acknowledge()
    history.wrong(after=5, since=NOON - timedelta(hours=1))

    assert isinstance(history.held, AlertInstance)
    assert history.held.alert.starts_at == NOON


def test_a_clock_that_was_set_back_over_a_restart_makes_it_no_longer() -> None:
    """It lasts from then on at most as long as it was to last in all."""
    history = History(repeat_seconds=10_000)
    history.wrong()
    history.acknowledge(lasts=600)
    history.passes(-86_400)

    assert history.passes(599) == ""
    assert history.passes(1) == "reminded"


def test_alerts_that_were_stored_before_can_be_read() -> None:
    """A row without an end of the acknowledgement is one that lasts as long as the alert."""
    history = History(repeat_seconds=1_000)
    history.wrong()
    history.acknowledge()
    row = msgspec.json.decode(msgspec.json.encode(history.held))
    row["alert"]["acknowledged"].pop("until")
    for name in ("acknowledgements", "acknowledged_until", "owes_reminder"):
        row.pop(name, None)
    history.held = msgspec.json.decode(msgspec.json.encode(row), type=AlertInstance)

    history.passes(100_000)
    assert history.told.words == ["fired", "acknowledged"]


async def test_an_acknowledgement_is_an_event_of_the_alert(scenario: EngineScenario) -> None:
    """It says who, why, when and until when, under an id of its own."""
    alert = await failed(scenario)
    assert await acknowledge(scenario, alert, lasts=4 * HOUR)

    event = (await scenario.told())[-1]
    assert event.id == alert_event_id(alert.fingerprint, alert.starts_at, "acknowledged", 1)
    assert (event.type, event.number) == ("alert.acknowledged", 1)
    assert event.alert.acknowledged == Acknowledgement(
        author="anna",
        comment="the source is late",
        at=event.recorded_at,
        until=event.recorded_at + timedelta(hours=4),
    )
    assert event.alert == scenario.engine.snapshot().alerts[0]


async def test_its_end_comes_after_a_restart_as_well(scenario: EngineScenario) -> None:
    """The next life of the daemon reminds when it ends, and not before."""
    alert = await failed(scenario)
    assert await acknowledge(scenario, alert, lasts=HOUR)
    later = await scenario.restarted()
    later.answers(well=True)
    await later.round(HOUR - 10)
    assert await later.words() == ["fired", "acknowledged"]

    await later.round(20)
    assert await later.words() == ["fired", "acknowledged", "reminded"]
    assert later.engine.snapshot().alerts[0].acknowledged is None


async def test_it_lasts_as_long_as_it_was_asked_for(scenario: EngineScenario) -> None:
    """A wall clock that is set back or forth shortens and lengthens nothing; people see its end."""
    alert = await failed(scenario)
    scenario.clock.set_wall(scenario.clock.now() - timedelta(hours=3))
    assert await acknowledge(scenario, alert, lasts=HOUR)
    shown = scenario.engine.snapshot().alerts[0].acknowledged
    assert shown is not None
    assert shown.until == scenario.clock.now() + timedelta(hours=1)

    await scenario.round(HOUR - 10)
    scenario.clock.set_wall(scenario.clock.now() + timedelta(hours=5))
    await scenario.round(2)
    assert await scenario.words() == ["fired", "acknowledged"]
    await scenario.round(10)
    assert await scenario.words() == ["fired", "acknowledged", "reminded"]


async def test_what_ends_before_it_begins_is_refused(scenario: EngineScenario) -> None:
    """One clear error, and the alert is as it was."""
    alert = await failed(scenario)
    with pytest.raises(ConfigurationError, match="is over; give a time to come"):
        await acknowledge(scenario, alert, lasts=-1)
    assert await scenario.words() == ["fired"]


async def test_acknowledged_and_resolved_in_one_moment(scenario: EngineScenario) -> None:
    """Whichever comes first, the log has it in that order, and nothing follows the end."""
    alert = await failed(scenario)
    await scenario.end_run(1, Status.SUCCEEDED)
    done, _ = await asyncio.gather(acknowledge(scenario, alert), scenario.engine.evaluate())
    words = await scenario.words()
    assert words == (["fired", "acknowledged", "resolved"] if done else ["fired", "resolved"])

    again = await failed(scenario)
    await scenario.end_run(1, Status.SUCCEEDED)
    _, done = await asyncio.gather(scenario.engine.evaluate(), acknowledge(scenario, again))
    assert not done
    assert (await scenario.words())[len(words) :] == ["fired", "resolved"]


def _author(alert: Alert) -> str:
    assert isinstance(alert.acknowledged, Acknowledgement)
    return alert.acknowledged.author

"""Acknowledgements in channels: a follow-up that neither resolves nor repeats anything."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from monitor.model.alerts import AlertingSnapshot
from monitor.model.events import AlertEvent, EventType
from monitor.outputs.notify import output as channel_output
from tests.outputs.alert_histories import acknowledged, alert, event_of, fired, resolved
from tests.outputs.channels import channel, gotify, status_of, texts, titles
from tests.outputs.output_scenario import OutputScenario
from tests.outputs.receiving import PostReceiver

FRIDAY = datetime(2026, 11, 27, 12, tzinfo=UTC)


@pytest.fixture
async def receiver() -> AsyncIterator[PostReceiver]:
    """Return a server of messages."""
    async with PostReceiver() as made:
        made.text = "{}"
        yield made


def scenario_of(folder: Path, receiver: PostReceiver, **more: Any) -> OutputScenario:
    return OutputScenario(folder, lambda scenario: channel(scenario, gotify(receiver), **more))


def reminded(number: int) -> AlertEvent:
    return event_of(alert(1), EventType.ALERT_REMINDED, number=number)


def words(receiver: PostReceiver) -> list[str]:
    return [title.split(":")[0] for title in titles(receiver)]


async def test_people_read_who_knows_of_an_alert(tmp_path: Path, receiver: PostReceiver) -> None:
    """Each acknowledgement is a message with who and why, by default; the end follows as ever."""
    async with scenario_of(tmp_path, receiver) as scenario:
        await scenario.start()
        for event in (fired(1), acknowledged(1), acknowledged(1, count=2), resolved(1)):
            await scenario.emit(event)
            await scenario.until_delivered()
    assert words(receiver) == ["FAILED", "ACKNOWLEDGED", "ACKNOWLEDGED", "RESOLVED"]
    assert titles(receiver)[1] == "ACKNOWLEDGED: orders 1 (w): by Ada: on it"


async def test_what_fired_and_is_known_in_one_group_is_first_of_all_a_failure(
    tmp_path: Path, receiver: PostReceiver
) -> None:
    """People have not read yet that it fires: the message says so, and who knows of it."""
    async with scenario_of(tmp_path, receiver, group_wait_seconds=0.3) as scenario:
        await scenario.start()
        await scenario.emit(fired(1), acknowledged(1))
        await scenario.until_delivered()
    assert titles(receiver) == ["FAILED: orders 1 (w): no such file"]
    assert "Acknowledged by: Ada" in texts(receiver)[0]


async def test_people_read_nothing_of_an_alert_that_was_held_back(
    tmp_path: Path, receiver: PostReceiver
) -> None:
    """Where a silence keeps a start from people, an acknowledgement is no news to them."""
    async with scenario_of(tmp_path, receiver) as scenario:
        await scenario.start()
        await scenario.emit(acknowledged(1, is_notified=False), resolved(2))
        await scenario.until_delivered()
    assert words(receiver) == ["RESOLVED"]


async def test_a_reminder_after_it_is_no_repetition(tmp_path: Path, receiver: PostReceiver) -> None:
    """It goes out although the last message is less than repeat_seconds old; the next one waits."""
    async with scenario_of(tmp_path, receiver, repeat_seconds=3_600.0) as scenario:
        await scenario.start()
        for event in (fired(1), acknowledged(1), reminded(1), reminded(2)):
            await scenario.emit(event)
            await scenario.until_delivered()
    assert words(receiver) == ["FAILED", "ACKNOWLEDGED", "STILL FAILED"]


async def test_a_channel_may_leave_it_out(tmp_path: Path, receiver: PostReceiver) -> None:
    """Without the word in its events there is no message; a reminder after it still goes out."""
    events = ("fired", "resolved", "reminded")
    async with scenario_of(tmp_path, receiver, events=events, repeat_seconds=3_600.0) as scenario:
        await scenario.start()
        for event in (fired(1), acknowledged(1), reminded(1)):
            await scenario.emit(event)
            await scenario.until_delivered()
    assert words(receiver) == ["FAILED", "STILL FAILED"]


async def test_who_it_was_is_said_also_when_it_is_over(
    tmp_path: Path, receiver: PostReceiver
) -> None:
    """A message that goes out late names who acknowledged, though that has ended meanwhile."""
    async with scenario_of(tmp_path, receiver) as scenario:
        scenario.snapshot = AlertingSnapshot(alerts=(alert(1),))
        await scenario.start()
        await scenario.emit(acknowledged(1))
        await scenario.until_delivered()
    assert titles(receiver) == ["ACKNOWLEDGED: orders 1 (w): by Ada: on it"]


async def test_while_muted_it_hides_neither_a_start_nor_an_end(
    tmp_path: Path, receiver: PostReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of what was known before, the end is told; of what began, that it fires."""
    monkeypatch.setattr(channel_output, "_CLOCK_CHECK_SECONDS", 0.02)
    async with scenario_of(tmp_path, receiver, mute=("Sat UTC",)) as scenario:
        scenario.clock.ahead = FRIDAY - scenario.clock.now()
        await scenario.start()
        await scenario.emit(fired(1))
        await scenario.until_delivered()
        scenario.clock.ahead += timedelta(days=1)
        await scenario.until(lambda: status_of(scenario) == "muted now")
        await scenario.emit(reminded(1), acknowledged(1), fired(2), acknowledged(2), resolved(1))
        await scenario.until_delivered()
        scenario.clock.ahead += timedelta(days=1)
        await receiver.until(lambda: len(receiver.accepted) == 2)
    assert titles(receiver)[1] == "2 alerts: 1 FAILED, 1 RESOLVED (w)"

"""Channels that are muted by weekdays or holidays: what waits, what is sent at their end."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from monitor.outputs.notify import output as channel_output
from tests.outputs.alert_histories import BEGAN, fired, resolved
from tests.outputs.channels import channel, gotify, status_of, texts, titles
from tests.outputs.output_scenario import OutputScenario
from tests.outputs.receiving import PostReceiver

FRIDAY = datetime(2026, 11, 27, 12, tzinfo=UTC)
SATURDAY, SUNDAY = FRIDAY + timedelta(days=1), FRIDAY + timedelta(days=2)


@pytest.fixture
async def receiver() -> AsyncIterator[PostReceiver]:
    """Return a server of messages."""
    async with PostReceiver() as made:
        made.text = "{}"
        yield made


BY_WEEKDAY = {"mute": ("Sat UTC",)}
BY_HOLIDAY = {"mute": ("holidays UTC",), "holiday_dates": (f"{SATURDAY:%Y-%m-%d}",)}


@pytest.fixture(params=[BY_WEEKDAY, BY_HOLIDAY], ids=["weekday", "holiday"])
async def muted(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    receiver: PostReceiver,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[OutputScenario]:
    """Return a channel that is muted on Saturdays, or on that one as a holiday; it is Friday."""
    monkeypatch.setattr(channel_output, "_CLOCK_CHECK_SECONDS", 0.02)
    async with OutputScenario(
        tmp_path, lambda scenario: channel(scenario, gotify(receiver), **request.param)
    ) as made:
        set_to(made, FRIDAY)
        yield made


def set_to(scenario: OutputScenario, at: datetime) -> None:
    scenario.clock.ahead = timedelta()
    scenario.clock.ahead = at - scenario.clock.now()


async def until_muted(scenario: OutputScenario) -> None:
    await scenario.until(lambda: status_of(scenario) == "muted now")


async def test_what_still_fires_is_sent_at_the_end_of_the_mute(
    muted: OutputScenario, receiver: PostReceiver
) -> None:
    """One message lists what began while muted and still fires, and ends of what was known."""
    await muted.start()
    await muted.emit(fired(1))
    await muted.until_delivered()
    set_to(muted, SATURDAY)
    await until_muted(muted)
    await muted.emit(fired(2), resolved(1), fired(3), resolved(3))
    await muted.until_delivered()
    assert len(receiver.requests) == 1
    set_to(muted, SUNDAY)
    await receiver.until(lambda: len(receiver.accepted) == 2)
    assert titles(receiver)[1] == "2 alerts: 1 FAILED, 1 RESOLVED (w)"
    assert "While this channel was muted" in texts(receiver)[1]
    assert "orders 3" not in texts(receiver)[1]


async def test_a_restart_loses_nothing_that_was_muted(
    muted: OutputScenario, receiver: PostReceiver
) -> None:
    """A daemon that is killed while muted, and starts after it, sends what was missed."""
    await muted.start()
    set_to(muted, SATURDAY)
    await until_muted(muted)
    await muted.emit(fired(2))
    await muted.until_delivered()
    await muted.kill()
    set_to(muted, SUNDAY)
    await muted.start()
    await receiver.until(lambda: len(receiver.accepted) == 1)
    assert titles(receiver) == ["FAILED: orders 2 (w): no such file"]


async def test_an_outage_at_the_end_of_the_mute_is_waited_for(
    muted: OutputScenario, receiver: PostReceiver
) -> None:
    """Where the service is away when the mute ends, the message comes later, before newer ones."""
    await muted.start()
    set_to(muted, SATURDAY)
    await until_muted(muted)
    await muted.emit(fired(2))
    await muted.until_delivered()
    receiver.answers.extend([503, 503])
    set_to(muted, SUNDAY)
    await receiver.until(lambda: len(receiver.requests) >= 1)
    await muted.emit(resolved(2))
    await muted.until_delivered()
    assert [title.split(":")[0] for title in titles(receiver)] == ["FAILED", "RESOLVED"]


async def test_a_channel_whose_times_are_removed_is_muted_no_more(
    tmp_path: Path, receiver: PostReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A start without `mute`, after one that was muted, sends what waited and all that follows."""
    monkeypatch.setattr(channel_output, "_CLOCK_CHECK_SECONDS", 0.02)
    mute = [("Sat UTC",), ()]
    async with OutputScenario(
        tmp_path, lambda scenario: channel(scenario, gotify(receiver), mute=mute[0])
    ) as scenario:
        set_to(scenario, SATURDAY)
        await scenario.start()
        await until_muted(scenario)
        await scenario.emit(fired(2))
        await scenario.until_delivered()
        await scenario.stop()
        mute.pop(0)
        await scenario.start()
        await receiver.until(lambda: len(receiver.accepted) == 1)
        await scenario.emit(fired(3))
        await scenario.until_delivered()
    assert [title.split(" (")[0] for title in titles(receiver)] == [
        "FAILED: orders 2",
        "FAILED: orders 3",
    ]


async def test_what_a_service_has_not_taken_by_then_is_sent_at_the_end(
    muted: OutputScenario, receiver: PostReceiver
) -> None:
    """A failure that the service does not take before the mute begins comes when the mute ends."""
    receiver.status_for = lambda _: 503
    await muted.start()
    await muted.emit(fired(1))
    await receiver.until(lambda: len(receiver.requests) >= 2)
    set_to(muted, SATURDAY)
    await muted.until_delivered()
    receiver.status_for = None
    assert titles(receiver) == []
    set_to(muted, SUNDAY)
    await receiver.until(lambda: len(receiver.accepted) == 1)
    assert titles(receiver) == ["FAILED: orders 1 (w): no such file"]


async def test_an_alert_that_came_again_while_muted_ends_in_the_channel(
    muted: OutputScenario, receiver: PostReceiver
) -> None:
    """What people knew to fire ended, began again and ended: they read that it is over."""
    await muted.start()
    await muted.emit(fired(1))
    await muted.until_delivered()
    set_to(muted, SATURDAY)
    await until_muted(muted)
    again, over = BEGAN + timedelta(hours=1), BEGAN + timedelta(hours=2)
    await muted.emit(
        resolved(1), fired(1, starts_at=again), resolved(1, starts_at=again, ends_at=over)
    )
    await muted.until_delivered()
    set_to(muted, SUNDAY)
    await receiver.until(lambda: len(receiver.accepted) == 2)
    assert [title.split(":")[0] for title in titles(receiver)] == ["FAILED", "RESOLVED"]

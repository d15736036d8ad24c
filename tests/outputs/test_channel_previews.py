"""The messages that channels would send about an alert now: previewed, and not sent."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from monitor.model.alerts import Alert, AlertState
from monitor.model.notifying import MessagePreview, event_now, why_no_event
from monitor.outputs.notify.output import ChannelOutput
from monitor.outputs.notify.settings import ChannelMatch
from tests.app.eventually import eventually
from tests.outputs.alert_histories import alert, event_of
from tests.outputs.channels import channel, gotify, texts, titles
from tests.outputs.output_scenario import OutputScenario
from tests.outputs.receiving import PostReceiver

NOT_STARTED = "the channel has not started yet"


@pytest.fixture
async def receiver() -> AsyncIterator[PostReceiver]:
    """Return a server of messages."""
    async with PostReceiver() as made:
        made.text = "{}"
        yield made


def scenario_of(folder: Path, receiver: PostReceiver, **more: Any) -> OutputScenario:
    return OutputScenario(folder, lambda scenario: channel(scenario, gotify(receiver), **more))


async def preview(scenario: OutputScenario, shown: Alert) -> MessagePreview:
    assert isinstance(scenario.output, ChannelOutput)
    return await scenario.output.preview(event_now(shown, scenario.clock.now()))


async def start(scenario: OutputScenario) -> None:
    """Start the channel, and wait until its library and templates are loaded."""

    async def is_open() -> bool:
        return (await preview(scenario, alert(1))).why_not != NOT_STARTED

    await scenario.start()
    await eventually(is_open, why="the channel does not start")


@pytest.mark.parametrize("state", [AlertState.FIRING, AlertState.RESOLVED])
async def test_a_preview_is_the_message_that_is_sent(
    tmp_path: Path, receiver: PostReceiver, state: AlertState
) -> None:
    """Word for word; until the event comes nothing is sent."""
    async with scenario_of(tmp_path, receiver) as scenario:
        await start(scenario)
        shown = await preview(scenario, alert(1, state))
        assert receiver.requests == []
        await scenario.emit(event_of(alert(1, state)))
        await scenario.until_delivered()
    assert ([shown.subject], [shown.text]) == (titles(receiver), [f"{texts(receiver)[0]}\n"])
    assert (shown.channel, shown.why_not) == ("team", None)
    assert "s3cr3t-t0ken" not in str(shown)


async def test_a_channel_that_is_about_others_says_so(
    tmp_path: Path, receiver: PostReceiver
) -> None:
    """By what it does not fit, without a message."""
    match = ChannelMatch(pipeline=("invoices",))
    async with scenario_of(tmp_path, receiver, match=match) as scenario:
        await start(scenario)
        shown = await preview(scenario, alert(1))
    assert shown.why_not is not None
    assert shown.why_not.startswith("match pipeline: ")
    assert (shown.subject, shown.text, receiver.requests) == (None, None, [])


async def test_a_muted_channel_names_its_times(tmp_path: Path, receiver: PostReceiver) -> None:
    """What fires now is sent at the end of the mute time."""
    async with scenario_of(tmp_path, receiver, mute=("Sat UTC",)) as scenario:
        saturday = datetime(2026, 11, 28, 12, tzinfo=UTC)
        scenario.clock.ahead = timedelta()
        scenario.clock.ahead = saturday - scenario.clock.now()
        shown = await preview(scenario, alert(1))
    assert shown == MessagePreview(channel="team", why_not="the channel is muted now: Sat UTC")


async def test_a_channel_that_has_not_started_says_so(
    tmp_path: Path, receiver: PostReceiver
) -> None:
    """Its library and templates are not loaded yet."""
    async with scenario_of(tmp_path, receiver) as scenario:
        shown = await preview(scenario, alert(1))
    assert shown == MessagePreview(channel="team", why_not=NOT_STARTED)


async def test_a_message_to_an_owner_says_to_whom(tmp_path: Path, receiver: PostReceiver) -> None:
    """Where no owner is known the text says why it goes to the channel's own address."""
    async with scenario_of(
        tmp_path, receiver, to="owner", owner_domains=("example.com",)
    ) as scenario:
        await start(scenario)
        shown = await preview(scenario, alert(1))
    assert shown.to is None
    assert "The workspace does not show who owns this." in str(shown.text)


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"state": AlertState.PENDING}, "pending"),
        ({"muted_by": ("silence:5d3c", "mute")}, "muted by silence:5d3c, mute"),
        ({"state": AlertState.RESOLVED, "is_notified": False}, "ended without a notification"),
        ({"state": AlertState.RESOLVED, "muted_by": ("mute",)}, None),
        ({}, None),
    ],
)
def test_an_alert_that_reaches_no_output_says_why(changed: dict[str, Any], why: str | None) -> None:
    """Whatever the channels are: an end is owed where its start was sent."""
    given = {"state": AlertState.FIRING, **changed}
    reason = why_no_event(alert(1, **given))
    assert reason is None if why is None else why in str(reason)

"""An acknowledgement reaches what takes events as they are: webhook, file and stream."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from monitor.model.events import AlertEvent
from monitor.model.secrets import Secret
from monitor.outputs.file.output import FileOutput
from monitor.outputs.file.settings import FileSettings
from monitor.outputs.webhook.output import WebhookOutput
from monitor.outputs.webhook.settings import WebhookSettings
from monitor.web.settings import ServerSettings
from tests.outputs.alert_histories import acknowledged, fired
from tests.outputs.histories import change
from tests.outputs.output_scenario import QUICK, OutputScenario
from tests.outputs.receiving import PostReceiver
from tests.web.serving import serving

EVENTS = (fired(1), acknowledged(1), acknowledged(1, count=2))
LIMIT_SECONDS = 60

Messages = list[dict[str, Any]]
Output = Callable[[Path, Sequence[AlertEvent]], Awaitable[Messages]]


async def by_webhook(folder: Path, events: Sequence[AlertEvent]) -> Messages:
    async with PostReceiver() as receiver:
        settings = WebhookSettings(
            url=f"{receiver.url}/hook", secret=Secret(f"whsec_{'bmV3' * 8}"), **QUICK
        )
        async with OutputScenario(
            folder, lambda scenario: WebhookOutput(settings, scenario.parts)
        ) as scenario:
            await scenario.start()
            await scenario.emit(*events)
            await scenario.until_delivered()
        return [request.json() for request in receiver.accepted]


async def by_file(folder: Path, events: Sequence[AlertEvent]) -> Messages:
    path = folder / "events.jsonl"
    settings = FileSettings(path=str(path), **QUICK)
    async with OutputScenario(
        folder, lambda scenario: FileOutput(settings, scenario.parts)
    ) as scenario:
        await scenario.start()
        await scenario.emit(*events)
        await scenario.until_delivered()
    return [json.loads(line) for line in path.read_bytes().splitlines()]


async def by_stream(folder: Path, events: Sequence[AlertEvent]) -> Messages:
    async with serving(folder, ServerSettings(listen="127.0.0.1:0")) as site:
        await site.bus.commit(change(*events), timeout_seconds=LIMIT_SECONDS)
        url = f"{site.url}/api/v1/events/stream?after=0"
        messages: Messages = []
        async with asyncio.timeout(LIMIT_SECONDS), site.session.get(url) as response:
            while len(messages) < len(events):
                name, _, text = (await response.content.readline()).partition(b": ")
                if name == b"data":
                    messages.append(json.loads(text))
        return messages


@pytest.mark.parametrize("deliver", [by_webhook, by_file, by_stream])
async def test_each_acknowledgement_of_an_alert_is_an_event(
    tmp_path: Path, deliver: Output
) -> None:
    """By default, in order, each under its own id, with who knows of the alert and why."""
    messages = await deliver(tmp_path, EVENTS)
    assert [message["id"] for message in messages] == [event.id for event in EVENTS]
    assert [message["type"] for message in messages] == [
        "dataprep.alert.fired.v1",
        "dataprep.alert.acknowledged.v1",
        "dataprep.alert.acknowledged.v1",
    ]
    for message in messages[1:]:
        known = message["data"]["acknowledged"]
        assert (known["author"], known["comment"]) == ("Ada", "on it")

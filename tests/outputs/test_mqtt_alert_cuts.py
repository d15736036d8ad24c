"""A process that dies between any two steps changes nothing that a broker's subscribers receive."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import msgspec

from monitor.model.alerts import AlertingSnapshot, AlertState
from monitor.model.events import AlertEvent
from monitor.outputs.mqtt.output import MqttOutput
from tests.app.eventually import pause
from tests.outputs.alert_histories import ENDED, alert, fired, resolved
from tests.outputs.mqtt_scenario import ReceivedMessage, Subscriber, settings_for
from tests.outputs.output_scenario import OutputScenario
from tests.servers import Mosquitto

# The events, each with the snapshot that follows them.
HISTORY: tuple[tuple[tuple[AlertEvent, ...], AlertingSnapshot], ...] = (
    ((fired(1), fired(2)), AlertingSnapshot(alerts=(alert(1), alert(2)))),
    ((resolved(1),), AlertingSnapshot(alerts=(alert(1, AlertState.RESOLVED), alert(2)))),
    (
        (fired(1, starts_at=ENDED), resolved(2)),
        AlertingSnapshot(alerts=(alert(1, starts_at=ENDED),)),
    ),
)
IDS = [event.id for events, _ in HISTORY for event in events]
STATE_SECONDS = 0.05  # in which retained states follow, at the settings of these tests
SCAN_SECONDS = 0.3  # in which all topics are compared, and leftovers are cleared
CUTS = range(1, 9)


def output_with(url: str, prefix: str) -> Callable[[OutputScenario], MqttOutput]:
    """Return a function that builds the output of a history, with its own topics."""
    settings = msgspec.structs.replace(settings_for(url), prefix=prefix, instance=prefix)
    return lambda scenario: MqttOutput(settings, scenario.parts)


async def finish_work(scenario: OutputScenario, *, seconds: float) -> None:
    """Let the output finish its work; if it dies meanwhile, let the next process finish it."""
    is_delivered = await scenario.is_delivered()
    await pause(seconds)
    if not is_delivered or scenario.store.is_dead:
        await scenario.kill()
        await scenario.start()
        await scenario.until_delivered()
        await pause(seconds)


async def play(folder: Path, url: str, prefix: str, *, cut: int | None, is_stored: bool) -> int:
    """Run the history with a process that dies at one step, and from then on with another one.

    Return how many steps the first process made.
    """
    (folder / prefix).mkdir()
    async with OutputScenario(folder / prefix, output_with(url, prefix)) as scenario:
        await scenario.start(cut=cut, is_stored=is_stored)
        first = scenario.store
        for events, snapshot in HISTORY:
            await scenario.emit(*events)
            # The engine's state is restored before the outputs start.
            scenario.snapshot = snapshot
            await finish_work(scenario, seconds=STATE_SECONDS)
        await finish_work(scenario, seconds=SCAN_SECONDS)
        return first.steps


def published_ids(messages: list[ReceivedMessage], prefix: str) -> dict[str, list[str]]:
    """Return the event ids on each topic of alert events, in the order of their first arrival."""
    ids: dict[str, list[str]] = {}
    for message in messages:
        if message.topic.startswith(f"{prefix}/w/alert/") and message.topic.endswith("/event"):
            arrived = ids.setdefault(message.topic.removeprefix(prefix), [])
            if (event_id := message.json()["id"]) not in arrived:
                arrived.append(event_id)
    return ids


def kept(messages: list[ReceivedMessage], prefix: str) -> dict[str, bytes]:
    """Return the last payload on each topic of an alert's state."""
    last = {
        message.topic.removeprefix(prefix): message.payload
        for message in messages
        if message.topic.startswith(f"{prefix}/w/alert/") and message.topic.endswith("/state")
    }
    return {topic: payload for topic, payload in last.items() if payload}


async def test_every_cut_leaves_the_same(tmp_path: Path) -> None:
    """Each id arrives, first arrivals in order, and the retained states are those without a cut."""
    async with Mosquitto(tmp_path) as broker, Subscriber(broker.port) as subscriber:
        cuts = {f"cut{n}{when}": (n, when == "after") for n in CUTS for when in ("before", "after")}
        steps = await asyncio.gather(
            play(tmp_path, broker.url, "uncut", cut=None, is_stored=False),
            *(
                play(tmp_path, broker.url, prefix, cut=cut, is_stored=is_stored)
                for prefix, (cut, is_stored) in cuts.items()
            ),
        )
        await subscriber.receive_all()
        uncut = published_ids(subscriber.messages, "uncut")
        assert sorted(id_ for ids in uncut.values() for id_ in ids) == sorted(IDS)
        states = kept(subscriber.messages, "uncut")
        assert [state for state in states.values() if b'"firing"' in state] == list(states.values())
        assert len(states) == 1
        for prefix in cuts:
            assert published_ids(subscriber.messages, prefix) == uncut, prefix
            assert kept(subscriber.messages, prefix) == states, prefix
        assert steps[0] >= 4  # so that the cuts really meet steps

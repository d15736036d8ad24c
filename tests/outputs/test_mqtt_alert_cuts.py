"""A process that dies between any two steps changes nothing in what a broker's listeners hold."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import msgspec

from monitor.model.alerts import AlertingSnapshot, AlertState
from monitor.model.events import AlertEvent
from monitor.outputs.mqtt.output import MqttOutput
from monitor.tracking.live_state import LiveState
from tests.app.eventually import pause
from tests.outputs.alert_stories import ENDED, alert, fired, resolved
from tests.outputs.mqtt_scene import INFO, Heard, Subscriber, settings_for
from tests.outputs.output_scene import OutputScene
from tests.servers import Mosquitto

# What happens, each with how things stand then.
STORY: tuple[tuple[tuple[AlertEvent, ...], AlertingSnapshot], ...] = (
    ((fired(1), fired(2)), AlertingSnapshot(alerts=(alert(1), alert(2)))),
    ((resolved(1),), AlertingSnapshot(alerts=(alert(1, AlertState.RESOLVED), alert(2)))),
    (
        (fired(1, starts_at=ENDED), resolved(2)),
        AlertingSnapshot(alerts=(alert(1, starts_at=ENDED),)),
    ),
)
IDS = [event.id for events, _ in STORY for event in events]
STATE_SECONDS = 0.05  # in which retained states follow, at the settings of these tests
SCAN_SECONDS = 0.3  # in which all is compared, and leftovers go
CUTS = range(1, 9)


def output_with(url: str, prefix: str) -> Callable[[OutputScene], MqttOutput]:
    """Return how the output of one story is built, which has topics of its own."""
    settings = msgspec.structs.replace(settings_for(url), prefix=prefix, instance=prefix)
    return lambda scene: MqttOutput(
        settings,
        bus=scene.store,
        view=LiveState(["w"]).view,
        clock=scene.clock,
        registry=scene.registry,
        metrics=scene.metrics,
        info=INFO,
        alerting=lambda: scene.picture,
    )


async def settle(scene: OutputScene, *, seconds: float) -> None:
    """Let it do what there is to do; where it dies over that, let the next process do it."""
    is_delivered = await scene.is_delivered()
    await pause(seconds)
    if not is_delivered or scene.store.is_dead:
        await scene.kill()
        await scene.start()
        await scene.until_delivered()
        await pause(seconds)


async def play(folder: Path, url: str, prefix: str, *, cut: int | None, is_taken: bool) -> int:
    """Let the story happen to a process that dies at one step, and from then on to another one.

    Return how many steps the first one took.
    """
    (folder / prefix).mkdir()
    async with OutputScene(folder / prefix, output_with(url, prefix)) as scene:
        await scene.start(cut=cut, is_taken=is_taken)
        first = scene.store
        for events, picture in STORY:
            await scene.tell(*events)
            # What the engine holds is restored before the outputs begin.
            scene.picture = picture
            await settle(scene, seconds=STATE_SECONDS)
        await settle(scene, seconds=SCAN_SECONDS)
        return first.steps


def told(messages: list[Heard], prefix: str) -> dict[str, list[str]]:
    """Return the ids that each topic of alert events told, in the order of their first arrival."""
    ids: dict[str, list[str]] = {}
    for message in messages:
        if message.topic.startswith(f"{prefix}/w/alert/") and message.topic.endswith("/event"):
            heard = ids.setdefault(message.topic.removeprefix(prefix), [])
            if (event_id := message.json()["id"]) not in heard:
                heard.append(event_id)
    return ids


def kept(messages: list[Heard], prefix: str) -> dict[str, bytes]:
    """Return what each topic of an alert's state held in the end."""
    last = {
        message.topic.removeprefix(prefix): message.payload
        for message in messages
        if message.topic.startswith(f"{prefix}/w/alert/") and message.topic.endswith("/state")
    }
    return {topic: payload for topic, payload in last.items() if payload}


async def test_every_cut_leaves_the_same(tmp_path: Path) -> None:
    """Each id is heard, first arrivals in order, and the retained states are those of no cut."""
    async with Mosquitto(tmp_path) as broker, Subscriber(broker.port) as subscriber:
        cuts = {f"cut{n}{when}": (n, when == "after") for n in CUTS for when in ("before", "after")}
        steps = await asyncio.gather(
            play(tmp_path, broker.url, "uncut", cut=None, is_taken=False),
            *(
                play(tmp_path, broker.url, prefix, cut=cut, is_taken=is_taken)
                for prefix, (cut, is_taken) in cuts.items()
            ),
        )
        await subscriber.hear_all()
        uncut = told(subscriber.messages, "uncut")
        assert sorted(id_ for ids in uncut.values() for id_ in ids) == sorted(IDS)
        states = kept(subscriber.messages, "uncut")
        assert [state for state in states.values() if b'"firing"' in state] == list(states.values())
        assert len(states) == 1
        for prefix in cuts:
            assert told(subscriber.messages, prefix) == uncut, prefix
            assert kept(subscriber.messages, prefix) == states, prefix
        assert steps[0] >= 4  # so that the cuts really meet steps

"""A daemon that lost the lease of a shard says nothing more in its name to a broker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiomqtt
import pytest

from monitor.bus.contract import Recorded
from monitor.model.clock import SystemClock
from monitor.model.errors import OutputUnavailableError
from monitor.outputs.mqtt.settings import MqttProtocol
from tests.outputs.histories import run_event
from tests.outputs.leased_store import LeasedStore
from tests.outputs.mqtt_scenario import MqttScenario, Subscriber, settings_for
from tests.outputs.test_mqtt_retained import HEALTH, IDENTITY, PIPELINE
from tests.servers import Mosquitto

BRIDGE = "dataprep/v1/bridge/monitor-acme"
LEASE_SECONDS = 30.0  # states that did not change are published again only after a minute


class LeapingClock(SystemClock):
    """The machine's clock, whose monotonic seconds leap when a test says so."""

    ahead_seconds = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.ahead_seconds


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Mosquitto]:
    """Return a running broker."""
    async with Mosquitto(tmp_path) as running:
        yield running


@asynccontextmanager
async def leased_scenario(
    folder: Path, url: str, *, lease_seconds: float = 0.0, **more: Any
) -> AsyncIterator[tuple[MqttScenario, LeasedStore]]:
    """Yield an output of the shard ``acme`` and its store, whose lease the test ends."""
    async with MqttScenario(folder, settings_for(url, **more)) as scenario:
        scenario.bus = store = LeasedStore.of(
            scenario.bus, shard="acme", lease_seconds=lease_seconds
        )
        yield scenario, store


def states(subscriber: Subscriber, topic: str = f"{BRIDGE}/state") -> list[str]:
    """Return what was published as the state of the bridge, oldest first."""
    return [message.json()["state"] for message in subscriber.on(topic)]


async def test_a_shard_is_a_client_of_its_own(tmp_path: Path, broker: Mosquitto) -> None:
    """Its client id and the topics of its bridge carry its name, wherever it is held."""
    async with Subscriber(broker.port) as subscriber, leased_scenario(tmp_path, broker.url) as made:
        await made[0].start()
        await subscriber.until(lambda: states(subscriber) == ["online"])
        await made[0].stop()
        await subscriber.until(lambda: states(subscriber) == ["online", "stopped"])
    assert any(" as monitor-acme (" in line for line in broker.lines)


async def test_a_state_is_not_published_once_the_lease_is_lost(
    tmp_path: Path, broker: Mosquitto
) -> None:
    """Lost after its topic was listed and before its first byte: only the last will comes."""
    async with Subscriber(broker.port) as subscriber, leased_scenario(tmp_path, broker.url) as made:
        scenario, store = made
        await scenario.start()
        await subscriber.until(lambda: states(subscriber) == ["online"])
        store.after_step = store.lose
        scenario.live_state.pipeline_health[IDENTITY] = HEALTH
        await subscriber.until(lambda: states(subscriber)[-1] == "offline")
        await scenario.until(lambda: "another daemon holds the shard" in scenario.output.status)
        await scenario.stop()
        await subscriber.receive_all()
        assert states(subscriber) == ["online", "offline"]
        assert subscriber.on(PIPELINE) == []


async def test_a_queued_message_is_not_written_once_the_lease_is_lost(
    tmp_path: Path, broker: Mosquitto
) -> None:
    """Messages of one turn of the loop are written together; that write asks again."""
    async with Subscriber(broker.port) as subscriber, leased_scenario(tmp_path, broker.url) as made:
        scenario, store = made
        await scenario.start()
        answer = scenario.output.send(Recorded(1, run_event()))
        assert answer is not None
        store.lose()
        with pytest.raises(OutputUnavailableError, match="surely"):
            await answer
        await subscriber.until(lambda: "offline" in states(subscriber))
        await subscriber.receive_all()
        assert subscriber.on("/event/started") == []


async def test_an_idle_connection_ends_with_the_lease(tmp_path: Path, broker: Mosquitto) -> None:
    """Where there is nothing to say, the will still reports that the shard has no holder."""
    async with Subscriber(broker.port) as subscriber, leased_scenario(tmp_path, broker.url) as made:
        scenario, store = made
        await scenario.start()
        store.lose()
        await subscriber.until(lambda: "offline" in states(subscriber))
        store.regain()
        await subscriber.until(lambda: states(subscriber)[-1] == "online")


@pytest.mark.parametrize("is_confirmed", [False, True])
async def test_no_daemon_connects_as_the_shard_without_the_lease(
    tmp_path: Path, *, is_confirmed: bool
) -> None:
    """Lost before or after the confirmation, no CONNECT ends the session of the new holder."""
    received: list[bytes] = []

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received.append(await reader.read())
        writer.close()

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    async with server:
        url = f"mqtt://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with leased_scenario(tmp_path, url, protocol=MqttProtocol.V5) as (scenario, store):
            store.is_held = is_confirmed
            store.after_confirmation = store.lose
            await scenario.start(is_connected=False)
            await scenario.until(lambda: "another daemon holds the shard" in scenario.output.status)
            await scenario.until(lambda: len(received) == int(is_confirmed))
    assert received == [b""] * is_confirmed


async def test_a_new_holder_stands_after_the_former_one(tmp_path: Path, broker: Mosquitto) -> None:
    """The broker ends the former session; what the former holder does later changes no state."""
    for name in ("former", "new"):
        (tmp_path / name).mkdir()
    async with (
        leased_scenario(tmp_path / "former", broker.url) as (former, former_store),
        leased_scenario(tmp_path / "new", broker.url) as (new, _),
    ):
        await former.start()
        former_store.lose()
        await new.start()
        await former.until(lambda: "another daemon holds the shard" in former.output.status)
        await former.stop()
        async with Subscriber(broker.port) as subscriber:
            await subscriber.receive_all()
            assert states(subscriber) == ["online"]
        assert new.output.is_well


async def test_all_states_are_published_again_when_the_former_lease_is_over(
    tmp_path: Path, broker: Mosquitto
) -> None:
    """A message that a broker publishes for the former holder after the takeover does not stay."""
    # This version shows a client no messages of others, so nothing else repairs the topics.
    more: dict[str, Any] = {"protocol": MqttProtocol.V311, "lease_seconds": LEASE_SECONDS}
    async with (
        Subscriber(broker.port) as subscriber,
        aiomqtt.Client("127.0.0.1", broker.port) as late,
        leased_scenario(tmp_path, broker.url, **more) as (scenario, _),
    ):
        scenario.clock = clock = LeapingClock()
        scenario.live_state.pipeline_health[IDENTITY] = HEALTH
        await scenario.start()
        await subscriber.until(lambda: len(subscriber.on(PIPELINE)) == 1)
        topics = (PIPELINE, f"{BRIDGE}/state")
        for topic in topics:
            await late.publish(topic, b'{"state": "of the former holder"}', qos=1, retain=True)
        await subscriber.until(lambda: all(len(subscriber.on(topic)) == 2 for topic in topics))
        clock.ahead_seconds = LEASE_SECONDS
        await subscriber.until(lambda: all(len(subscriber.on(topic)) == 3 for topic in topics))
        assert states(subscriber) == ["online", "of the former holder", "online"]
        assert subscriber.on(PIPELINE)[0].payload == subscriber.on(PIPELINE)[2].payload


async def test_a_shard_listens_to_its_own_workspaces_only(
    tmp_path: Path, broker: Mosquitto
) -> None:
    """A thousand shards that each got all topics would multiply every message by a thousand."""
    async with leased_scenario(tmp_path, broker.url) as (scenario, _):
        await scenario.start()
        scenario.live_state.pipeline_health[IDENTITY] = HEALTH
        async with (
            Subscriber(broker.port) as subscriber,
            aiomqtt.Client("127.0.0.1", broker.port) as other,
        ):
            await subscriber.until(lambda: bool(subscriber.on(PIPELINE)))
            await other.publish("dataprep/v1/x/state", b"{}", qos=1, retain=True)
            await other.publish(PIPELINE, b"{}", qos=1, retain=True)
            await scenario.until(lambda: scenario.metric("mqtt_overwritten_total") == 1.0)

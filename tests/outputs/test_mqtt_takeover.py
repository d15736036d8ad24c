"""Two daemons with one ``[mqtt] instance`` on one broker: reported, and no endless fight."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from pathlib import Path
from random import Random
from typing import Any

import pytest
from structlog.testing import capture_logs

from monitor.outputs.mqtt.broker_connection import FIGHT_CAP_FACTOR, ReconnectBackoff
from monitor.outputs.mqtt.link_ends import LinkEnd, LinkEndKind
from monitor.outputs.mqtt.settings import MqttProtocol, MqttSettings
from tests.outputs.mqtt_scenario import MqttScenario, settings_for
from tests.servers import Mosquitto, Relay

CHANGE = "give each daemon on this broker its own [mqtt] instance"
TAKEN_OVER = LinkEnd("Session taken over", LinkEndKind.TAKEN_OVER)
CLOSED = LinkEnd("closed", LinkEndKind.CLOSED_BY_PEER)
CAP_SECONDS = 30.0
LONG_WAIT_SECONDS = 0.4  # eight times the first
WAIT = "retry_in_seconds"
DISCONNECT_TAKEN_OVER = b"\xe0\x01\x8e"


class NoJitter(Random):
    """Shortens no wait."""

    def uniform(self, a: float, b: float) -> float:
        return max(a, b)


def backoff() -> ReconnectBackoff:
    return ReconnectBackoff(
        instance="monitor", base_seconds=1.0, cap_seconds=CAP_SECONDS, jitter=NoJitter()
    )


class TakeoverFront(Relay):
    """Disconnects the older client of a broker with MQTT 5's reason for a takeover."""

    def __init__(self, target_port: int) -> None:
        super().__init__(target_port)
        self._older: asyncio.StreamWriter | None = None

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        older, self._older = self._older, writer
        if older is not None:
            older.write(DISCONNECT_TAKEN_OVER)
            older.close()
        await self._join(reader, writer)


async def test_two_daemons_with_one_instance_get_the_reason_from_the_broker(tmp_path: Path) -> None:
    """Where the broker gives the reason, the first takeover is reported; the waits grow."""
    async with Mosquitto(tmp_path) as broker, TakeoverFront(broker.port) as front:
        settings = settings_for(
            f"mqtt://127.0.0.1:{front.port}", protocol=MqttProtocol.V5, reconnect_cap_seconds=5.0
        )
        await fight(tmp_path, settings, "another client connected as 'monitor' and took over")


@pytest.mark.parametrize("protocol", [MqttProtocol.V5, MqttProtocol.V311])
async def test_two_daemons_with_one_instance_suspect_it(
    tmp_path: Path, protocol: MqttProtocol
) -> None:
    """A broker that only closes connections leads to the same hint and the same waits."""
    async with Mosquitto(tmp_path) as broker:
        settings = settings_for(broker.url, protocol=protocol, reconnect_cap_seconds=5.0)
        await fight(tmp_path, settings, "connections in a row soon after it accepted them")


async def fight(folder: Path, settings: MqttSettings, words: str) -> None:
    """Run two outputs with the same settings until status, log and waits show the fight."""
    for name in ("first", "second"):
        (folder / name).mkdir()
    with capture_logs() as logged:
        async with (
            MqttScenario(folder / "first", settings) as first,
            MqttScenario(folder / "second", settings) as second,
        ):
            await first.start()
            await second.start()
            for scenario in (first, second):
                await scenario.until(lambda scenario=scenario: words in scenario.output.status)  # type: ignore[misc]
            await first.until(lambda: max(waits_in(logged)) >= LONG_WAIT_SECONDS)
            assert CHANGE in first.output.status
    assert any(
        words in line["reason"] and CHANGE in line["reason"] for line in logged if WAIT in line
    )


def waits_in(logged: Iterable[Mapping[str, Any]]) -> list[float]:
    return [line[WAIT] for line in logged if WAIT in line]


def test_waits_after_takeovers_grow_beyond_the_usual_cap() -> None:
    """Each takeover doubles the wait, although the link lasted as long as the other waited."""
    waiting = backoff()
    waits: list[float] = []
    for _ in range(12):
        held_seconds = waits[-1] if waits else 0.0
        waiting.record_end(TAKEN_OVER, held_seconds=held_seconds)
        waits.append(waiting.wait_seconds())
    assert waits[:4] == [1.0, 2.0, 4.0, 8.0]
    assert waits[-1] == CAP_SECONDS * FIGHT_CAP_FACTOR


def test_a_link_that_lasts_long_ends_the_suspicion() -> None:
    """Once the other daemon has another instance, the hint is gone and waits are short again."""
    waiting = backoff()
    for _ in range(5):
        waiting.record_end(TAKEN_OVER, held_seconds=1.0)
    assert CHANGE in (waiting.hint or "")
    waiting.record_end(LinkEnd("keepalive"), held_seconds=CAP_SECONDS * FIGHT_CAP_FACTOR + 1)
    assert waiting.hint is None
    assert waiting.wait_seconds() == 1.0


def test_a_broker_that_restarts_twice_is_no_suspicion() -> None:
    """Three closed connections in a row hint at another client; any other end clears that."""
    waiting = backoff()
    for _ in range(2):
        waiting.record_end(CLOSED, held_seconds=1.0)
    assert waiting.hint is None
    waiting.record_end(CLOSED, held_seconds=1.0)
    assert waiting.hint is not None
    waiting.record_end(LinkEnd("the broker did not acknowledge in time"), held_seconds=1.0)
    assert waiting.hint is None


def test_an_unreachable_broker_is_retried_at_least_once_per_cap() -> None:
    """Attempts without a connection keep the usual cap."""
    waiting = backoff()
    for _ in range(20):
        waiting.record_failure()
    assert (waiting.wait_seconds(), waiting.hint) == (CAP_SECONDS, None)


def test_shards_that_end_each_others_sessions_say_what_the_broker_must_keep() -> None:
    """Where a broker makes the user name the client id, all shards of a cluster are one client."""
    waiting = ReconnectBackoff(
        instance="monitor-acme", base_seconds=1.0, cap_seconds=1.0, jitter=NoJitter(), is_shard=True
    )
    waiting.record_end(TAKEN_OVER, held_seconds=0.5)
    assert "'monitor-acme' and took over the session once" in (waiting.hint or "")
    assert "use_username_as_clientid" in (waiting.hint or "")

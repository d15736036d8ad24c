"""Other brokers and safer links: TLS, client certificates, passwords, MQTT 3.1.1 only."""

from __future__ import annotations

import asyncio
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
from amqtt.broker import Broker

from monitor.model.runs import Status
from monitor.model.secrets import Secret
from monitor.outputs.mqtt.settings import MqttProtocol, MqttSettings
from tests.certificates import Certificates
from tests.outputs.histories import run_event
from tests.outputs.mqtt_scenario import MqttScenario, settings_for
from tests.servers import Mosquitto, Relay, free_port, program

CONNECT_VERSION_5 = b"\x00\x04MQTT\x05"  # how the protocol's name and level are written
VERSION_REFUSED = b"\x20\x02\x00\x01"  # the answer of a broker that knows 3.1.1 only


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
async def safe_broker(tmp_path: Path, certificates: Certificates) -> AsyncIterator[Mosquitto]:
    """Return a broker that speaks TLS only and asks for a client's certificate."""
    listener = (
        f"cafile {certificates.authority}",
        f"certfile {certificates.server}",
        f"keyfile {certificates.key_of(certificates.server)}",
        "require_certificate true",
    )
    async with Mosquitto(tmp_path, listener=listener) as running:
        yield running


def safe_settings(broker: Mosquitto, certificates: Certificates) -> MqttSettings:
    return settings_for(
        f"mqtts://127.0.0.1:{broker.port}",
        ca_file=str(certificates.authority),
        certificate_file=str(certificates.client),
        key_file=str(certificates.key_of(certificates.client)),
    )


async def test_a_broker_with_certificates_is_spoken_to(
    tmp_path: Path, safe_broker: Mosquitto, certificates: Certificates
) -> None:
    """Both sides show a certificate of the same private authority, and events arrive."""
    async with MqttScenario(tmp_path, safe_settings(safe_broker, certificates)) as scenario:
        await scenario.start()
        await scenario.emit(*[run_event(str(number)) for number in range(300)])
        await scenario.until_delivered()
        delivered = {"output": "mqtt", "outcome": "delivered"}
        assert scenario.metric("notifications_total", **delivered) == 300


async def test_a_broker_whose_authority_is_unknown_is_not_trusted(
    tmp_path: Path, safe_broker: Mosquitto, certificates: Certificates
) -> None:
    """Without the authority's file the connection fails, and the status has the reason."""
    settings = msgspec.structs.replace(safe_settings(safe_broker, certificates), ca_file=None)
    async with MqttScenario(tmp_path, settings) as scenario:
        await scenario.start(is_connected=False)
        await scenario.until(lambda: "certificate verify failed" in scenario.output.status)
        assert not scenario.output.is_well


async def test_a_broker_under_another_name_is_not_trusted(
    tmp_path: Path, safe_broker: Mosquitto, certificates: Certificates
) -> None:
    """The certificate must be for the host of the URL."""
    url = f"mqtts://localhost:{safe_broker.port}"
    settings = msgspec.structs.replace(safe_settings(safe_broker, certificates), url=url)
    async with MqttScenario(tmp_path, settings) as scenario:
        await scenario.start(is_connected=False)
        await scenario.until(lambda: "certificate verify failed" in scenario.output.status)
        assert not scenario.output.is_well


async def test_a_missing_certificate_file_is_reported_and_retried(
    tmp_path: Path, safe_broker: Mosquitto, certificates: Certificates
) -> None:
    """The output connects once the file exists; no restart is needed."""
    late = tmp_path / "late.pem"
    settings = msgspec.structs.replace(
        safe_settings(safe_broker, certificates), certificate_file=str(late)
    )
    async with MqttScenario(tmp_path, settings) as scenario:
        await scenario.start(is_connected=False)
        await scenario.until(lambda: "TLS files cannot be used" in scenario.output.status)
        late.write_bytes(certificates.client.read_bytes())
        await scenario.until(lambda: scenario.output.is_well)
        assert scenario.output.is_well


async def test_credentials_are_needed_where_the_broker_requires_them(tmp_path: Path) -> None:
    """The right password connects; a wrong one is reported without showing it."""
    passwords = tmp_path / "passwords"
    made = (program("mosquitto_passwd"), "-b", "-c", str(passwords), "ada", "hunter2")
    assert await (await asyncio.create_subprocess_exec(*made, stderr=PIPE)).wait() == 0
    options = ("allow_anonymous false", f"password_file {passwords}")
    async with Mosquitto(tmp_path, options=options) as broker:
        wrong = settings_for(broker.url, username="ada", password=Secret("hunter3"))
        right = msgspec.structs.replace(wrong, password=Secret("hunter2"))
        async with MqttScenario(tmp_path, wrong) as scenario:
            await scenario.start(is_connected=False)
            await scenario.until(lambda: "Not authorized" in scenario.output.status)
            assert "hunter" not in scenario.output.status
        async with MqttScenario(tmp_path, right) as scenario:
            await scenario.start()
            assert scenario.output.is_well


class TidyBroker(Broker):  # type: ignore[misc]  # amqtt has no types
    """Closes also a connection that ended before it asked for anything, as by a slow client."""

    async def stream_connected(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, listener_name: str
    ) -> None:
        try:
            await super().stream_connected(reader, writer, listener_name)
        finally:
            writer.close()


async def test_a_broker_that_speaks_only_3_1_1_is_served(tmp_path: Path) -> None:
    """MQTT 5 is tried first; a broker that cannot read that gets 3.1.1."""
    port = free_port()
    broker = TidyBroker(
        {
            "listeners": {"default": {"type": "tcp", "bind": f"127.0.0.1:{port}"}},
            "plugins": {"amqtt.plugins.authentication.AnonymousAuthPlugin": {}},
        }
    )
    await broker.start()
    try:
        # This broker cannot read the request for 5 and waits for more, so silence must be enough.
        settings = settings_for(f"mqtt://127.0.0.1:{port}", connect_timeout_seconds=0.3)
        async with MqttScenario(tmp_path, settings) as scenario:
            await scenario.start()
            await scenario.emit(run_event("1"), run_event("2"))
            await scenario.until_delivered()
            delivered = {"output": "mqtt", "outcome": "delivered"}
            assert scenario.metric("notifications_total", **delivered) == 2
            await scenario.stop()
    finally:
        await broker.shutdown()


class OldFront(Relay):
    """Refuses MQTT 5 in place of a broker, as one that does not know that version."""

    def __init__(self, target_port: int) -> None:
        super().__init__(target_port)
        self.refusals = 0

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        question = await reader.read(65_536)
        if CONNECT_VERSION_5 in question:
            self.refusals += 1
            writer.write(VERSION_REFUSED)
            writer.close()
            return
        await self._join(reader, writer, first=question)


async def test_a_broker_that_refuses_version_5_gets_no_second_request_for_it(
    tmp_path: Path,
) -> None:
    """A plain refusal is remembered: the next connect begins with 3.1.1."""
    async with (
        Mosquitto(tmp_path) as broker,
        OldFront(broker.port) as front,
        MqttScenario(tmp_path, settings_for(f"mqtt://127.0.0.1:{front.port}")) as scenario,
    ):
        await scenario.start()
        front.cut()
        await scenario.until(lambda: not scenario.output.is_well)
        await scenario.until(lambda: scenario.output.is_well)
        await scenario.emit(run_event("1"))
        await scenario.until_delivered()
        assert (front.refusals, front.connections) == (1, 2)


async def test_an_event_that_makes_the_broker_hang_up_does_not_block_others(
    tmp_path: Path,
) -> None:
    """A 3.1.1 broker cannot refuse a message, only disconnect; the refused event is kept."""
    async with Mosquitto(tmp_path, options=("max_packet_size 4000",)) as broker:
        settings = settings_for(broker.url, protocol=MqttProtocol.V311)
        async with MqttScenario(tmp_path, settings) as scenario:
            await scenario.start()
            too_large = run_event("2", Status.FAILED, error="x" * 8_000)
            await scenario.emit(run_event("1"), too_large, run_event("3"))
            await scenario.until_delivered()
            (letter,) = await scenario.bus.dead_letters("mqtt", limit=10)
            assert letter.event.id == too_large.id
            delivered = {"output": "mqtt", "outcome": "delivered"}
            assert scenario.metric("notifications_total", **delivered) == 2

"""Packets that are written and read as bytes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from amqtt.adapters import BufferReader
from amqtt.mqtt.puback import PubackPacket
from amqtt.mqtt.publish import PublishPacket
from hypothesis import given
from hypothesis import strategies as st
from paho.mqtt.client import Client
from paho.mqtt.enums import MQTTErrorCode

from monitor.model.clock import SystemClock
from monitor.model.errors import OutputRefusedError
from monitor.outputs.mqtt.link import MqttLink, OutgoingMessage
from monitor.outputs.mqtt.link_opening import VERSIONS
from monitor.outputs.mqtt.packets import publish_packet, read_puback
from monitor.outputs.mqtt.settings import MqttProtocol
from tests.outputs.mqtt_scenario import Subscriber, settings_for
from tests.servers import Mosquitto

TEXTS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=40)
TOPICS = TEXTS.filter(lambda topic: bool(topic) and not set("+#") & set(topic))
IDS = st.integers(1, 65_535)
AT_ONCE = 20  # messages that the broker lets be without an answer


@given(topic=TOPICS, payload=st.binary(max_size=300), message_id=IDS, retain=st.booleans())
async def test_a_publish_packet_is_what_another_library_reads(
    topic: str,
    payload: bytes,
    message_id: int,
    retain: bool,  # noqa: FBT001 - drawn
) -> None:
    """Topic, payload, id, QoS 1 and the flag come out as they went in."""
    packet = publish_packet(topic, payload, message_id=message_id, retain=retain, properties=b"")
    read = await PublishPacket.from_stream(BufferReader(packet))
    assert (read.topic_name, read.data or b"", read.packet_id) == (topic, payload, message_id)
    assert (read.qos, read.retain_flag, read.dup_flag) == (1, retain, False)


@pytest.mark.parametrize("topic", ["", "a/+/b", "a/#", "x" * 65_536, "\ud800"])
def test_a_topic_that_cannot_be_published_on_is_refused(topic: str) -> None:
    """The packet would cost the connection."""
    with pytest.raises(ValueError, match=r"."):
        publish_packet(topic, b"", message_id=1, retain=False, properties=b"")


@given(message_ids=st.lists(IDS, min_size=1, max_size=5))
def test_acknowledgements_are_read_in_any_pieces(message_ids: list[int]) -> None:
    """Without its last byte a PUBACK is incomplete; after it the next one begins."""
    packed = [PubackPacket.build(message_id).to_bytes() for message_id in message_ids]
    received, start = b"".join(packed), 0
    for message_id, packet in zip(message_ids, packed, strict=True):
        end = start + len(packet)
        assert read_puback(received[: end - 1], start) is None
        puback = read_puback(received, start)
        assert puback is not None
        assert (puback.message_id, puback.code, puback.end) == (message_id, 0, end)
        start = end


@pytest.mark.parametrize(
    ("packet", "code"),
    [
        (b"\x40\x03\x12\x34\x87", 0x87),
        (b"\x40\x04\x12\x34\x10\x00", 0x10),
        (b"\x40\x85\x01\x12\x34\x97\x80\x01" + b"\x1f\x00\x7d" + b"x" * 125, 0x97),
    ],
)
def test_an_acknowledgement_of_version_5_has_a_reason(packet: bytes, code: int) -> None:
    """The properties after it are passed over, however long they are."""
    puback = read_puback(packet, 0)
    assert puback is not None
    assert (puback.message_id, puback.code, puback.end) == (0x1234, code, len(packet))
    assert read_puback(packet[:-1], 0) is None


@pytest.mark.parametrize("packet", [b"\x40\x00", b"\x40\x01\x00", b"\x40\xff\xff\xff\x7f"])
def test_a_malformed_acknowledgement_is_noticed_at_once(packet: bytes) -> None:
    """One that is too short, or longer than any broker makes it, is not waited for."""
    with pytest.raises(ValueError, match="PUBACK"):
        read_puback(packet, 0)


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Mosquitto]:
    async with Mosquitto(tmp_path) as running:
        yield running


@pytest.mark.parametrize("protocol", [MqttProtocol.V5, MqttProtocol.V311])
async def test_messages_of_one_turn_leave_in_one_write(
    broker: Mosquitto, protocol: MqttProtocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of them cost the client one write, and each is acknowledged or refused."""
    writes: list[MQTTErrorCode] = []
    write = Client.loop_write

    def loop_write(client: Client) -> MQTTErrorCode:
        writes.append(write(client))
        return writes[-1]

    link = MqttLink(
        settings_for(broker.url),
        clock=SystemClock(),
        version=VERSIONS[protocol][0],
        will=None,
        tls=None,
    )
    await link.open()
    monkeypatch.setattr(Client, "loop_write", loop_write)
    messages = [OutgoingMessage(topic=f"t/{number}", payload=b"x") for number in range(AT_ONCE)]
    await asyncio.gather(*[link.send(message) for message in messages])
    assert len(writes) == 1
    with pytest.raises(OutputRefusedError):
        await link.send(OutgoingMessage(topic="t/#", payload=b"x"))
    await link.close()


async def test_more_than_a_socket_takes_at_once_arrives(broker: Mosquitto) -> None:
    """Bytes that the socket does not take are written later, after those that it took."""
    link = MqttLink(
        settings_for(broker.url),
        clock=SystemClock(),
        version=VERSIONS[MqttProtocol.V5][0],
        will=None,
        tls=None,
    )
    await link.open()
    payload = b"x" * 60_000
    async with Subscriber(broker.port) as subscriber:
        for _ in range(2):
            answers = [
                link.send(OutgoingMessage(topic=f"t/{number}", payload=payload))
                for number in range(200)
            ]
            async with asyncio.timeout(10):
                await asyncio.gather(*answers)
        await subscriber.receive_all()
        arrived = [message.topic for message in subscriber.messages if message.payload == payload]
        assert arrived == [f"t/{number}" for number in range(200)] * 2
    await link.close()

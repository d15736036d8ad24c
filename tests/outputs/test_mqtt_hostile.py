"""A broker, or a client whose messages it passes on, that sends without bound: it is hung up on."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiomqtt
import pytest
from aiomqtt.client import ProtocolVersion
from hypothesis import given
from hypothesis import strategies as st

from monitor.model.clock import SystemClock
from monitor.model.errors import OutputUnavailableError
from monitor.outputs.mqtt.link import MqttLink, OutgoingMessage
from monitor.outputs.mqtt.packets import length_field
from tests.outputs.mqtt_scenario import settings_for
from tests.servers import Mosquitto

LIMIT_SECONDS = 60.0
ACCEPTED = {ProtocolVersion.V5: b"\x20\x03\x00\x00\x00", ProtocolVersion.V311: b"\x20\x02\x00\x00"}
BLOCK = b"x" * 65_536
HUGE = length_field(200 * 1024 * 1024)
VERSIONS = pytest.mark.parametrize("version", list(ACCEPTED), ids=["5", "3.1.1"])


class HostileBroker:
    """Sends what it is given after the CONNECT, then its block until the client hangs up."""

    def __init__(self, *, first: bytes, endless: bytes) -> None:
        self._first = first
        self._endless = endless
        self.port = 0
        self.connect = b""
        self.sent_bytes = 0
        self.hung_up = asyncio.Event()

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connect = await reader.read(1_000)
        writer.write(self._first)
        try:
            while self._endless and self.sent_bytes < 64 * 1024 * 1024:
                writer.write(self._endless)
                await writer.drain()
                self.sent_bytes += len(self._endless)
            await reader.read()
        except ConnectionError:
            pass  # as it should be: the client hung up
        finally:
            await closed(writer)
            self.hung_up.set()


async def closed(writer: asyncio.StreamWriter) -> None:
    """Close a connection that the other end may have closed before."""
    writer.close()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()


@asynccontextmanager
async def hostile(first: bytes, endless: bytes = b"") -> AsyncIterator[HostileBroker]:
    broker = HostileBroker(first=first, endless=endless)
    server = await asyncio.start_server(broker.answer, "127.0.0.1", 0)
    broker.port = server.sockets[0].getsockname()[1]
    try:
        yield broker
        await asyncio.wait_for(broker.hung_up.wait(), LIMIT_SECONDS)
    finally:
        server.close()


def link_to(port: int, version: ProtocolVersion = ProtocolVersion.V5) -> MqttLink:
    settings = settings_for(f"mqtt://127.0.0.1:{port}")
    return MqttLink(settings, clock=SystemClock(), version=version, will=None, tls=None)


@VERSIONS
@pytest.mark.parametrize(
    ("head", "reason"),
    [
        (b"\x30" + HUGE + b"\x00\x01t\x00", "more than 131072 bytes"),
        (b"\x90" + HUGE, "more than 131072 bytes"),
        (b"\x40" + HUGE, "a PUBACK of 209715200 bytes"),
        (b"\x30\xff\xff\xff\xff\x01", "more than 131072 bytes"),
    ],
    ids=["PUBLISH", "SUBACK", "PUBACK", "length"],
)
async def test_a_packet_of_200_megabytes_ends_the_connection(
    head: bytes, reason: str, version: ProtocolVersion
) -> None:
    """Its length is enough to hang up: what follows is not received."""
    async with hostile(ACCEPTED[version] + head, BLOCK) as broker:
        link = link_to(broker.port, version)
        await link.open()
        end = await asyncio.wait_for(link.lost, LIMIT_SECONDS)
        await asyncio.wait_for(broker.hung_up.wait(), LIMIT_SECONDS)

    assert reason in end.reason
    assert broker.sent_bytes < 32 * 1024 * 1024  # what the sockets hold at most


async def test_a_connack_of_240_megabytes_is_no_connection() -> None:
    """A broker that begins with it is refused at once, and the reason is shown."""
    async with hostile(b"\x20" + length_field(240 * 1024 * 1024), BLOCK) as broker:
        link = link_to(broker.port)
        with pytest.raises(OutputUnavailableError, match="more than 131072 bytes"):
            await asyncio.wait_for(link.open(), LIMIT_SECONDS)
        await asyncio.wait_for(broker.hung_up.wait(), LIMIT_SECONDS)


@VERSIONS
@pytest.mark.parametrize(
    "packet",
    [
        b"\xd0\x00",
        b"\x34\x06\x00\x01t\x00\x01x",
        b"\x32\x06\x00\x01t\x00\x01x",
        b"\x50\x02\x00\x01",
        b"\x62\x02\x00\x01",
        b"\x70\x02\x00\x01",
        b"\xb0\x02\x00\x01",
        b"\xc0\x00",
        b"\x20\x02\x00\x00",
    ],
    ids=[
        "PINGRESP",
        "QoS 2",
        "QoS 1",
        "PUBREC",
        "PUBREL",
        "PUBCOMP",
        "UNSUBACK",
        "PING",
        "CONNACK",
    ],
)
async def test_a_flood_of_what_nothing_asked_for_ends_the_connection(
    packet: bytes, version: ProtocolVersion
) -> None:
    """We subscribe with QoS 0 and publish with QoS 1: no broker sends these unasked."""
    async with hostile(ACCEPTED[version], packet * 10_000) as broker:
        link = link_to(broker.port, version)
        await link.open()
        end = await asyncio.wait_for(link.lost, LIMIT_SECONDS)

    assert "a packet that nothing asked for" in end.reason


async def test_the_largest_packet_is_announced() -> None:
    """CONNECT carries the property Maximum Packet Size (0x27) of 128 KiB."""
    async with hostile(ACCEPTED[ProtocolVersion.V5]) as broker:
        link = link_to(broker.port)
        await link.open()
        link.abort("enough")
        await asyncio.wait_for(broker.hung_up.wait(), LIMIT_SECONDS)

    assert b"\x27" + (131_072).to_bytes(4, "big") in broker.connect


async def test_a_huge_retained_message_on_an_own_topic_costs_nothing(tmp_path: Path) -> None:
    """A real broker keeps it to itself; the link goes on, and smaller messages still arrive."""
    seen: list[str] = []
    arrived = asyncio.Event()

    def note(topic: str) -> None:
        seen.append(topic)
        arrived.set()

    async with Mosquitto(tmp_path) as broker:
        link = link_to(broker.port)
        await link.open()
        await link.watch(["own/#"], note)
        async with aiomqtt.Client("127.0.0.1", broker.port) as other:
            await other.publish("own/large", b"x" * 1_000_000, qos=1, retain=True)
            await other.publish("own/small", b"x", qos=1, retain=True)
        await asyncio.wait_for(arrived.wait(), LIMIT_SECONDS)
        await asyncio.wait_for(link.send(OutgoingMessage(topic="t", payload=b"x")), LIMIT_SECONDS)
        await link.close()

    assert seen == ["own/small"]


@given(cuts=st.lists(st.integers(1, 40), max_size=30))
async def test_packets_arrive_whole_in_any_pieces(cuts: list[int]) -> None:
    """Wherever a stream is cut, each packet is read once, and in its order."""
    small, long = publish("a", 5), publish("b", 300)
    stream = ACCEPTED[ProtocolVersion.V5] + small + long + b"\x40\x02\x00\x01" + small
    pieces, start = [], 0
    for cut in cuts:
        pieces.append(stream[start : start + cut])
        start += cut
    topics = await read_in_pieces([*pieces, stream[start:]], expect=3)
    assert topics == ["a", "b", "a"]


def publish(topic: str, payload_bytes: int) -> bytes:
    """Return a PUBLISH packet of QoS 0."""
    rest = len(topic).to_bytes(2, "big") + topic.encode() + b"\x00" + b"x" * payload_bytes
    return b"\x30" + length_field(len(rest)) + rest


async def read_in_pieces(pieces: list[bytes], *, expect: int) -> list[str]:
    """Return the topics that a link reads from a broker that writes these pieces one by one."""
    topics: list[str] = []
    complete, hung_up = asyncio.Event(), asyncio.Event()

    def note(topic: str) -> None:
        topics.append(topic)
        if len(topics) == expect:
            complete.set()

    async def write(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.read(1_000)
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(0)
            await reader.read()
        finally:
            await closed(writer)
            hung_up.set()

    server = await asyncio.start_server(write, "127.0.0.1", 0)
    link = link_to(server.sockets[0].getsockname()[1])
    link._on_foreign = note  # as `watch` does after the broker's answer
    try:
        await link.open()
        await asyncio.wait_for(complete.wait(), LIMIT_SECONDS)
    finally:
        link.abort("read")
        await asyncio.wait_for(hung_up.wait(), LIMIT_SECONDS)
        server.close()
    return topics

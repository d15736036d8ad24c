"""Overrides of aiomqtt and paho: in one file, for one version of each."""

from __future__ import annotations

import ast
import asyncio
import importlib
import inspect
import pkgutil
from collections.abc import AsyncIterator, Iterator
from importlib.metadata import version
from pathlib import Path
from types import ModuleType

import aiomqtt
import paho.mqtt
import pytest
from aiomqtt.client import ProtocolVersion

import monitor.outputs
from monitor.model.clock import SystemClock
from monitor.model.errors import OutputUnavailableError
from monitor.outputs.mqtt import library_overrides
from monitor.outputs.mqtt.library_overrides import LIBRARY_ERRORS, WRITTEN_FOR, BrokerClient
from monitor.outputs.mqtt.link import MqttLink, OutgoingMessage
from tests.outputs.mqtt_scenario import settings_for
from tests.servers import Mosquitto

OUTPUTS = Path(monitor.outputs.__file__).parent
OVERRIDES = Path(library_overrides.__file__)
LIBRARIES = ("aiomqtt", "paho")


@pytest.mark.parametrize("library", sorted(WRITTEN_FOR))
def test_the_overrides_were_compared_with_the_installed_version(library: str) -> None:
    """With another version of the library, compare the overrides with its sources again."""
    assert version(library) == WRITTEN_FOR[library], (
        f"{OVERRIDES.name} was written for {library} {WRITTEN_FOR[library]}; compare what it "
        f"overrides with {library} {version(library)}, then set the version in WRITTEN_FOR"
    )


def test_every_overridden_method_exists_with_the_same_parameters() -> None:
    """A renamed callback of the library would otherwise never be called, without any error."""
    own = {name for name, member in vars(BrokerClient).items() if inspect.isfunction(member)}
    overridden = {name for name in own if hasattr(aiomqtt.Client, name)} - {"__init__"}
    assert overridden == {
        "_on_connect",
        "_on_disconnect",
        "_on_message",
        "_on_socket_open",
        "_on_socket_register_write",
        "_wait_for",
    }
    for name in overridden:
        theirs = inspect.signature(getattr(aiomqtt.Client, name)).parameters
        assert list(inspect.signature(getattr(BrokerClient, name)).parameters) == list(theirs)


def test_private_members_of_the_libraries_are_used_in_one_file() -> None:
    """No other file subclasses the client, or reads a private attribute of another object."""
    offenders = {
        f"{path.relative_to(OUTPUTS)}:{line}"
        for path in OUTPUTS.rglob("*.py")
        if path != OVERRIDES and imports_a_library(path)
        for line in private_uses(path)
    }
    assert offenders == set()


def imports_a_library(path: Path) -> bool:
    return any(f"from {name}" in path.read_text() for name in LIBRARIES) or any(
        f"import {name}" in path.read_text() for name in LIBRARIES
    )


def private_uses(path: Path) -> Iterator[int]:
    """Yield the lines that use a private attribute of anything but ``self``."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ClassDef):
            bases = {ast.unparse(base) for base in node.bases}
            if bases & {"aiomqtt.Client", "Client", "Properties"}:
                yield node.lineno
        is_private = isinstance(node, ast.Attribute) and (
            node.attr.startswith("_") and not node.attr.endswith("__")
        )
        if is_private and isinstance(node, ast.Attribute) and ast.unparse(node.value) != "self":
            yield node.lineno


def modules_of(package: ModuleType) -> Iterator[ModuleType]:
    yield package
    for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        yield importlib.import_module(found.name)


def test_every_exception_of_the_libraries_is_expected() -> None:
    """A class that either library defines and that we do not catch would end the output's task."""
    classes = {
        member
        for package in (aiomqtt, paho.mqtt)
        for module in modules_of(package)
        for member in vars(module).values()
        if inspect.isclass(member)
        and issubclass(member, Exception)
        and member.__module__.partition(".")[0] in LIBRARIES
    }
    assert len(classes) >= 8
    assert {cls for cls in classes if not issubclass(cls, LIBRARY_ERRORS)} == set()


PACKETS = {
    "malformed property": b"\x20\x06\x00\x00\x03\x12\x00\xff",
    "unknown property": b"\x20\x05\x00\x00\x02\x7f\x01",
    "cut short": b"\x20\x01\x00",
    "unknown reason": b"\x20\x03\x00\x7b\x00",
    "no MQTT at all": b"HTTP/1.1 400 Bad Request\r\n\r\n",
    "puback too short": b"\x20\x03\x00\x00\x00\x40\x00",
}


@pytest.fixture(params=list(PACKETS))
async def junk_port(request: pytest.FixtureRequest) -> AsyncIterator[int]:
    """Yield the port of a server that answers every CONNECT with the same junk."""
    junk = PACKETS[request.param]

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1_000)
        writer.write(junk)
        await reader.read()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    yield int(server.sockets[0].getsockname()[1])
    server.close()


async def test_a_peer_that_speaks_no_valid_mqtt_ends_the_link(junk_port: int) -> None:
    """Whatever paho raises while it reads becomes our error, and no task or callback dies of it."""
    loop = asyncio.get_running_loop()
    unhandled: list[dict[str, object]] = []
    loop.set_exception_handler(lambda _, context: unhandled.append(context))
    settings = settings_for(f"mqtt://127.0.0.1:{junk_port}", connect_timeout_seconds=0.5)
    link = MqttLink(settings, clock=SystemClock(), version=ProtocolVersion.V5, will=None, tls=None)
    try:
        await link.open()
    except OutputUnavailableError:
        pass
    else:
        await asyncio.wait_for(link.lost, timeout=30)
    link.abort("over")
    await asyncio.sleep(0)
    assert unhandled == []


async def test_an_id_that_waits_for_its_answer_is_not_used_again(tmp_path: Path) -> None:
    """When the ids start again, a message that has no answer yet keeps its own."""
    async with Mosquitto(tmp_path) as broker:
        settings = settings_for(f"mqtt://127.0.0.1:{broker.port}")
        link = MqttLink(
            settings, clock=SystemClock(), version=ProtocolVersion.V5, will=None, tls=None
        )
        await link.open()
        paho = link._client._client
        before = paho._last_mid
        first = link.send(OutgoingMessage(topic="a/b", payload=b"first"))
        paho._last_mid = before  # as after 65,535 messages
        second = link.send(OutgoingMessage(topic="a/b", payload=b"second"))

        done, open_ = await asyncio.wait({first, second}, timeout=30)
        assert (len(done), len(open_)) == (2, 0)
        assert all(answer.exception() is None for answer in done)
        await link.close()

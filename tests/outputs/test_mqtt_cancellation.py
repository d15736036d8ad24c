"""A cancellation that arrives in the same turn of the loop as the broker's answer is kept.

`asyncio.wait_for`, which aiomqtt uses, drops it before Python 3.12: a caller that stops the output
would wait without end.
"""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Literal

import pytest
from aiomqtt.client import ProtocolVersion
from paho.mqtt.client import DisconnectFlags
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.reasoncodes import ReasonCode

from monitor.outputs.mqtt.library_overrides import BrokerClient
from tests.outputs.mqtt_scenario import settings_for
from tests.servers import Mosquitto


class StoppedClient:
    """A client whose task is cancelled in the middle of a callback of the library."""

    def __init__(self, broker: Mosquitto, *, during: Literal["connect", "disconnect"]) -> None:
        self._during = during
        self._task: asyncio.Task[None] | None = None
        self.client = BrokerClient(
            settings_for(broker.url),
            version=ProtocolVersion.V5,
            will=None,
            tls=None,
            may_send=None,
            on_accepted=lambda _properties: self._cancel("connect"),
            on_answer=lambda _message_id, _reason: None,
            on_end=lambda _end: self._cancel("disconnect"),
            on_message=lambda _topic: None,
        )

    async def run(self) -> None:
        """Connect and disconnect."""
        self._task = asyncio.current_task()
        await self.client.connect()
        await self.client.disconnect()

    def _cancel(self, during: str) -> None:
        if during == self._during and self._task is not None:
            self._task.cancel()


@pytest.fixture(params=[True, False], ids=["accepts", "refuses"])
async def broker(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Mosquitto]:
    """A broker that accepts the connection, or that refuses it for want of a password."""
    options = [] if request.param else ["allow_anonymous false"]
    async with Mosquitto(tmp_path, options=options) as running:
        yield running


async def test_a_cancellation_beside_the_answer_to_a_connect_is_kept(broker: Mosquitto) -> None:
    """Accepted or refused: the call ends as cancelled, and no callback of the library fails."""
    logged: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: logged.append(context))
    stopped = StoppedClient(broker, during="connect")
    with pytest.raises(asyncio.CancelledError):
        await asyncio.create_task(stopped.run())
    stopped.client.drop_connection()
    del stopped
    gc.collect()
    assert logged == []


@pytest.mark.parametrize("broker", [True], ids=["accepts"], indirect=True)
async def test_a_cancellation_beside_the_end_of_a_connection_is_kept(broker: Mosquitto) -> None:
    """The connection is closed, and still the call ends as cancelled."""
    stopped = StoppedClient(broker, during="disconnect")
    with pytest.raises(asyncio.CancelledError):
        await asyncio.create_task(stopped.run())


@pytest.mark.parametrize("broker", [True], ids=["accepts"], indirect=True)
async def test_a_connection_that_ends_without_a_waiting_task_leaves_no_trace(
    broker: Mosquitto,
) -> None:
    """The broker closes before the thread is done, and the connecting task is stopped then."""
    loop = asyncio.get_running_loop()
    logged: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _, context: logged.append(context))
    await _stop_after_the_end(StoppedClient(broker, during="connect").client)
    await loop.shutdown_default_executor()
    gc.collect()

    assert logged == []


async def _stop_after_the_end(client: BrokerClient) -> None:
    is_connected, is_given_up = threading.Event(), threading.Event()
    on_socket_open = client._client.on_socket_open
    assert on_socket_open is not None

    def wait(*arguments: Any) -> None:
        on_socket_open(*arguments)
        is_connected.set()
        is_given_up.wait(10)

    client._client.on_socket_open = wait
    connecting = asyncio.create_task(client.connect())
    await asyncio.to_thread(is_connected.wait, 10)
    client._on_disconnect(
        client._client, None, DisconnectFlags(False), ReasonCode(PacketTypes.DISCONNECT)
    )
    connecting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await connecting
    client.drop_connection()
    is_given_up.set()


@pytest.mark.parametrize("broker", [True], ids=["accepts"], indirect=True)
async def test_a_socket_that_a_thread_makes_too_late_is_closed(broker: Mosquitto) -> None:
    """The connecting task is stopped before there is a socket; the loop is given none to watch."""
    loop = asyncio.get_running_loop()
    logged: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _, context: logged.append(context))
    is_connecting, is_given_up = threading.Event(), threading.Event()

    def wait(*_: Any) -> None:
        is_connecting.set()
        is_given_up.wait(10)

    client = StoppedClient(broker, during="connect").client
    client._client.on_pre_connect = wait
    connecting = asyncio.create_task(client.connect())
    await asyncio.to_thread(is_connecting.wait, 10)
    connecting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await connecting
    client.drop_connection()
    is_given_up.set()
    await loop.shutdown_default_executor()
    await asyncio.sleep(0)

    assert logged == []
    assert not client.has_socket

"""Callbacks over TLS: none is lost while the certificate is replaced, and clients must show one."""

from __future__ import annotations

import asyncio
import json
import shutil
import ssl
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path

import aiohttp
import pytest
from prometheus_client import CollectorRegistry

from monitor.callbacks.listener import CallbackListener
from monitor.callbacks.settings import CallbackSettings, ListenerSettings
from monitor.listening.settings import TlsSettings
from monitor.model.clock import SystemClock
from monitor.model.secrets import Secret
from tests.app.eventually import eventually
from tests.app.refusing_store import RefusingStore
from tests.callbacks.conftest import SECRET
from tests.certificates import Certificates
from tests.clocks import ManualClock

_A_SECOND, _ALL, _SENDERS = 200, 400, 20
_NAMES = "subjectAltName=IP:127.0.0.1"
_HEADERS = {"X-Monitor-Secret": SECRET}
_BODY = b'{"job_id":"9","job_status":"Complete"}'


@asynccontextmanager
async def listening(
    tls: TlsSettings,
    bus: RefusingStore,
    clock: ManualClock,
    registry: CollectorRegistry,
    loaded: list[datetime],
) -> AsyncIterator[tuple[CallbackListener, int]]:
    listener = CallbackListener(
        settings=ListenerSettings(listen="127.0.0.1:0", tls=tls),
        workspaces={"acme": CallbackSettings(secret=Secret(SECRET))},
        receive=bus.receive,
        clock=clock,
        registry=registry,
        on_certificate=lambda _, expires_at: loaded.append(expires_at),
    )
    port = await listener.start()
    beside = [asyncio.create_task(run()) for run in listener.tasks().values()]
    try:
        yield listener, port
    finally:
        for task in beside:
            task.cancel()
        await listener.stop()


class Senders:
    """Sends callbacks at a steady rate: a quarter of them on connections of their own."""

    def __init__(self, port: int, authority: Path) -> None:
        self.statuses: Counter[int] = Counter()
        self._url = f"https://127.0.0.1:{port}/hooks/acme"
        self._clock = SystemClock()
        self._tls = ssl.create_default_context(cafile=authority)

    async def run(self) -> None:
        kept = aiohttp.TCPConnector(ssl=self._tls)
        fresh = aiohttp.TCPConnector(ssl=self._tls, force_close=True)
        async with (
            aiohttp.ClientSession(connector=kept) as keeping,
            aiohttp.ClientSession(connector=fresh) as opening,
            asyncio.TaskGroup() as group,
        ):
            for sender in range(_SENDERS):
                session = keeping if sender % 4 else opening
                group.create_task(self._send(session, sender))

    async def until_sent(self, number: int) -> None:
        await eventually(lambda: self.statuses.total() >= number, why="too few were sent")

    async def _send(self, session: aiohttp.ClientSession, sender: int) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        for number in range(_ALL // _SENDERS):
            due = began + number * _SENDERS / _A_SECOND
            await self._clock.sleep(max(0.0, due - loop.time()))
            body = json.dumps(
                {"job_id": str(1_000 * sender + number + 1), "job_status": "Complete"}
            )
            async with session.post(self._url, data=body, headers=_HEADERS) as response:
                self.statuses[response.status] += 1


async def until_loaded(loaded: list[datetime], number: int) -> None:
    await eventually(lambda: len(loaded) == number, why="no pair was loaded")


async def test_no_callback_is_lost_while_certificates_change(
    tmp_path: Path, bus: RefusingStore, clock: ManualClock, registry: CollectorRegistry
) -> None:
    """200 a second for two seconds, most of them on open connections, over three rotations."""
    certificates = Certificates(tmp_path)
    pairs = [certificates.sign(f"pair{days}", _NAMES, days=days) for days in (3, 4, 5)]
    tls = certificates.settings(certificates.server)
    loaded: list[datetime] = []
    async with listening(tls, bus, clock, registry, loaded) as (listener, port):
        senders = Senders(port, certificates.authority)
        sending = asyncio.create_task(senders.run())
        for number, pair in enumerate(pairs, start=1):
            await senders.until_sent(_ALL * number // (len(pairs) + 1))
            shutil.copy(certificates.key_of(pair), tls.key_file)
            shutil.copy(pair, tls.certificate_file)
            listener.renew_certificate()
            await until_loaded(loaded, number + 1)
        await sending

    assert senders.statuses == {204: _ALL}
    assert len(set(loaded)) == len(pairs) + 1
    stored = (await bus.inbox("acme", limit=2 * _ALL)).callbacks
    assert len({callback.run_id for callback in stored}) == _ALL


async def test_a_sender_without_a_client_certificate_is_not_heard(
    tmp_path: Path, bus: RefusingStore, clock: ManualClock, registry: CollectorRegistry
) -> None:
    """Where authorities of clients are named, the right secret alone opens nothing."""
    certificates = Certificates(tmp_path)
    tls = certificates.settings(certificates.server, client_ca_file=certificates.authority)
    client = ssl.create_default_context(cafile=certificates.authority)
    async with (
        listening(tls, bus, clock, registry, []) as (_, port),
        aiohttp.ClientSession() as session,
    ):

        async def send() -> int:
            url = f"https://127.0.0.1:{port}/hooks/acme"
            async with session.post(url, data=_BODY, headers=_HEADERS, ssl=client) as answer:
                return answer.status

        with pytest.raises(aiohttp.ClientError):
            await send()
        client.load_cert_chain(certificates.client, certificates.key_of(certificates.client))
        assert await send() == 204

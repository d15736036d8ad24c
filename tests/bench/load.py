"""Sends callbacks over kept connections and times the answers; a process of its own.

Takes an `Order` as its argument and prints a `Report`. It writes prepared bytes and looks at
nothing of an answer but its status, so that it costs less than any server that it drives;
``busy_share`` shows that it did. With a broker it also subscribes, and times each run from the
moment at which its callback was due to the moment at which a message about it arrived.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import math
import re
import socket
import sys
import time
from collections import deque

import aiomqtt
import msgspec
from msgspec import Struct

from tests.bench.figures import percentile

_RUN = re.compile(rb'(?:job_group:|"job_id":")(\d+)')
_QUIET_SECONDS = 8.0  # what has not arrived so long after the last callback is missing
_TICK_SECONDS = 0.0005


class Order(Struct, frozen=True, kw_only=True):
    """What to send. ``per_second`` 0 sends the next callback as soon as one is answered."""

    port: int
    first_id: int
    seconds: float
    path: str = "/hooks/acme"
    connections: int = 64
    per_second: float = 0.0
    secret: str = ""
    signing_key: str | None = None
    broker_port: int | None = None
    topics: str = "#"


class Report(Struct, frozen=True, kw_only=True):
    """What came of it. Times are milliseconds; those of the subscriber are 0 without a broker."""

    answered: int
    refused: int
    per_second: float
    answer_p50: float
    answer_p99: float
    busy_share: float  # of one core, taken by this process
    heard: int = 0
    heard_p50: float = 0.0
    heard_p99: float = 0.0


class _Connection(asyncio.Protocol):
    def __init__(self, sender: Sender) -> None:
        self._sender = sender
        self._due = 0.0
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if isinstance(transport, asyncio.Transport):
            self._transport = transport

    def send(self, request: bytes, due: float) -> None:
        self._due = due
        if self._transport is not None:
            self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        # Answers are small and nothing is pipelined: each comes in one piece.
        self._sender.answered(self, due=self._due, is_good=data.startswith(b"HTTP/1.1 20"))

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()


class Sender:
    """Sends the callbacks of one order."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._next_id = order.first_id
        self._free: list[_Connection] = []
        self._late: deque[float] = deque()
        self._over_at = math.inf
        self._is_over = asyncio.Event()
        self._on_the_way = 0
        self.due: dict[int, float] = {}
        self.waits: list[float] = []
        self.refused = 0

    async def run(self) -> float:
        """Send until the time is over and all is answered; return the seconds that it took."""
        loop = asyncio.get_running_loop()
        made = [
            await loop.create_connection(lambda: _Connection(self), "127.0.0.1", self._order.port)
            for _ in range(self._order.connections)
        ]
        self._free = [protocol for _, protocol in made]
        began = time.monotonic()
        if self._order.per_second:
            await self._keep_pace(began)
        else:
            self._over_at = began + self._order.seconds
            while self._free:
                self._send(time.monotonic())
        await self._is_over.wait()
        ended = time.monotonic()
        for _, protocol in made:
            protocol.close()
        return ended - began

    async def _keep_pace(self, began: float) -> None:
        sent, total = 0, int(self._order.seconds * self._order.per_second)
        while sent < total:
            now = time.monotonic()
            wanted = min(total, int((now - began) * self._order.per_second) + 1)
            for _ in range(wanted - sent):
                # Timed from here, also if all connections are taken: a slow server that cannot
                # be asked any faster must not look quick.
                if self._free:
                    self._send(now)
                else:
                    self._late.append(now)
            sent = wanted
            await asyncio.sleep(_TICK_SECONDS)
        self._over_at = 0.0
        self._end_if_done()

    def _send(self, due: float) -> None:
        run_id, self._next_id = self._next_id, self._next_id + 1
        self.due[run_id] = due
        self._on_the_way += 1
        self._free.pop().send(self._request(run_id), due)

    def answered(self, connection: _Connection, *, due: float, is_good: bool) -> None:
        now = time.monotonic()
        self.waits.append(now - due)
        self.refused += not is_good
        self._on_the_way -= 1
        self._free.append(connection)
        if self._late:
            self._send(self._late.popleft())
        elif not self._order.per_second and now < self._over_at:
            self._send(now)
        else:
            self._end_if_done()

    def _end_if_done(self) -> None:
        if not self._on_the_way and not self._late and time.monotonic() >= self._over_at:
            self._is_over.set()

    def _request(self, run_id: int) -> bytes:
        order = self._order
        body = (
            b'{"workspace":"acme","flow_id":"%d","task":"task","job_id":"%d",'
            b'"job_status":"Complete"}' % (run_id % 50 + 1, run_id)
        )
        signed = b""
        if order.signing_key is not None:
            stamp = b"%d" % time.time()
            digest = hmac.digest(order.signing_key.encode(), stamp + b"." + body, hashlib.sha256)
            signed = b"X-Webhook-Signature: t=%b,sha256=%b\r\n" % (stamp, digest.hex().encode())
        return (
            b"POST %b HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            b"X-Monitor-Secret: %b\r\n%bContent-Length: %d\r\n\r\n%b"
            % (order.path.encode(), order.secret.encode(), signed, len(body), body)
        )


class _Listener:
    """Notes when each run was first heard of."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self.heard: dict[int, float] = {}
        self.is_subscribed = asyncio.Event()

    async def run(self) -> None:
        if self._order.broker_port is None:
            self.is_subscribed.set()
            return
        no_delay = [(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)]
        async with aiomqtt.Client(
            "127.0.0.1", self._order.broker_port, socket_options=no_delay
        ) as client:
            await client.subscribe(self._order.topics, qos=1)
            self.is_subscribed.set()
            async for message in client.messages:
                found = None if message.retain else _RUN.search(bytes(message.payload))
                if found is not None:
                    self.heard.setdefault(int(found[1]), time.monotonic())


async def _until_heard(sender: Sender, listener: _Listener) -> None:
    end = time.monotonic() + _QUIET_SECONDS
    while not sender.due.keys() <= listener.heard.keys() and time.monotonic() < end:  # noqa: ASYNC110 - the subscriber itself must stay cheap
        await asyncio.sleep(0.02)


async def carry_out(order: Order) -> Report:
    """Send everything and report."""
    listener, sender = _Listener(order), Sender(order)
    listening = asyncio.create_task(listener.run(), name="subscriber")
    await listener.is_subscribed.wait()
    cpu = time.process_time()
    seconds = await sender.run()
    busy = (time.process_time() - cpu) / seconds
    if order.broker_port is not None:
        await _until_heard(sender, listener)
    listening.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await listening
    took = [at - sender.due[run] for run, at in listener.heard.items() if run in sender.due]
    return Report(
        answered=len(sender.waits),
        refused=sender.refused,
        per_second=len(sender.waits) / seconds,
        answer_p50=1e3 * percentile(sender.waits, 0.5),
        answer_p99=1e3 * percentile(sender.waits, 0.99),
        busy_share=busy,
        heard=len(took),
        heard_p50=1e3 * percentile(took, 0.5) if took else 0.0,
        heard_p99=1e3 * percentile(took, 0.99) if took else 0.0,
    )


if __name__ == "__main__":
    asked = msgspec.json.decode(sys.argv[1], type=Order)
    sys.stdout.write(msgspec.json.encode(asyncio.run(carry_out(asked))).decode())

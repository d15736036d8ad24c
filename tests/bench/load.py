"""Sends callbacks and times the answers; a process of its own.

Takes an `Order` as its argument and prints a `Report`. It writes prepared bytes and reads nothing
of an answer but its status, so that it costs less than any server that it drives; ``busy_share``
shows that it did. With a broker it also subscribes, and times each run from the time at which its
callback was due to the time at which a message about it arrived, and apart from that to the time at
which an alert about it did.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
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
_QUIET_SECONDS = 30.0  # what has not arrived so long after the last that did is missing
_TICK_SECONDS = 0.0005


class Order(Struct, frozen=True, kw_only=True):
    """What to send. ``per_second`` 0 sends the next callback as soon as one is answered.

    It does so for ``seconds`` or, with a ``count``, until so many are sent. At a rate the first is
    due after ``first_after_seconds``.
    """

    port: int
    first_id: int
    seconds: float
    path: str = "/hooks/acme"
    connections: int = 64  # at a time
    is_kept: bool = True  # False: a new connection for each callback
    per_second: float = 0.0
    first_after_seconds: float = 0.0
    count: int = 0
    secret: str = ""
    signing_key: str | None = None
    broker_port: int | None = None
    topics: tuple[str, ...] = ("#",)
    flows: int = 50  # that the runs belong to, in turns
    status: str = "Complete"


class Report(Struct, frozen=True, kw_only=True):
    """The results. Times are milliseconds; those of the subscriber are 0 without a broker."""

    answered: int
    refused: int  # answered other than 2xx, or not at all
    per_second: float
    answer_p50: float
    answer_p99: float
    busy_share: float  # of one core, used by this process
    arrived: int = 0
    arrival_p50: float = 0.0
    arrival_p99: float = 0.0
    arrived_per_second: float = 0.0  # from the first callback to the last message
    alerts: int = 0
    alert_p50: float = 0.0
    alert_p99: float = 0.0
    refused_ids: tuple[int, ...] = ()


class _Connection(asyncio.Protocol):
    """Sends one callback at a time, over one connection or over a new one for each."""

    def __init__(self, sender: Sender, order: Order) -> None:
        self._sender = sender
        self._order = order
        self._run_id = 0
        self._request = b""  # to be written once there is a connection
        self._transport: asyncio.Transport | None = None
        self._opening: asyncio.Task[None] | None = None

    async def open(self) -> None:
        loop = asyncio.get_running_loop()
        await loop.create_connection(lambda: self, "127.0.0.1", self._order.port)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if isinstance(transport, asyncio.Transport):
            self._transport = transport
            transport.write(self._request)
            self._request = b""

    def connection_lost(self, exc: Exception | None) -> None:
        del exc  # the cause of its end makes no difference
        if self._transport is not None:
            self._sender.lost(self, run_id=self._run_id)

    def send(self, request: bytes, run_id: int) -> None:
        self._run_id = run_id
        if self._transport is not None:
            self._transport.write(request)
        else:
            self._request = request
            self._opening = asyncio.create_task(self._open_or_lose(), name="open a connection")

    async def _open_or_lose(self) -> None:
        try:
            await self.open()
        except OSError:
            self._sender.lost(self, run_id=self._run_id)

    def data_received(self, data: bytes) -> None:
        # Answers are small and nothing is pipelined: each comes in one piece.
        is_good = data.startswith(b"HTTP/1.1 20")
        if not self._order.is_kept:
            self.close()
        self._sender.answered(self, run_id=self._run_id, is_good=is_good)

    def close(self) -> None:
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.abort()


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
        self.refused_ids: list[int] = []

    async def run(self) -> float:
        """Send until the time is over and all is answered; return the seconds that passed."""
        made = [_Connection(self, self._order) for _ in range(self._order.connections)]
        if self._order.is_kept:
            for connection in made:
                await connection.open()
        self._free = list(made)
        began = time.monotonic()
        if self._order.per_second:
            await self._send_at_rate(began + self._order.first_after_seconds)
        else:
            self._over_at = 0.0 if self._order.count else began + self._order.seconds
            while self._free and self._may_send_more(began):
                self._send(time.monotonic())
        await self._is_over.wait()
        ended = time.monotonic()
        for connection in made:
            connection.close()
        return ended - began

    async def _send_at_rate(self, began: float) -> None:
        per_second = self._order.per_second
        sent, total = 0, int(self._order.seconds * per_second)
        while sent < total:
            now = time.monotonic()
            due_count = min(total, math.floor((now - began) * per_second) + 1)
            for _ in range(due_count - sent):
                # Timed from here, also if all connections are busy: a slow server that cannot
                # accept more must not seem quick.
                if self._free:
                    self._send(now)
                else:
                    self._late.append(now)
            sent = max(sent, due_count)
            await asyncio.sleep(max(_TICK_SECONDS, began + sent / per_second - time.monotonic()))
        self._over_at = 0.0
        self._end_if_done()

    def _send(self, due: float) -> None:
        run_id, self._next_id = self._next_id, self._next_id + 1
        self.due[run_id] = due
        self._on_the_way += 1
        self._free.pop().send(self._request(run_id), run_id)

    def _may_send_more(self, now: float) -> bool:
        if self._order.per_second:
            return False  # the rate sends
        if self._order.count:
            return self._next_id < self._order.first_id + self._order.count
        return now < self._over_at

    def lost(self, connection: _Connection, *, run_id: int) -> None:
        """Continue without a connection; servers end those that have been idle for a while."""
        if self._is_over.is_set():
            return
        if connection in self._free:
            self._free.remove(connection)
            return
        self.refused_ids.append(run_id)
        self._on_the_way -= 1
        self._end_if_done()

    def answered(self, connection: _Connection, *, run_id: int, is_good: bool) -> None:
        now = time.monotonic()
        self.waits.append(now - self.due[run_id])
        if not is_good:
            self.refused_ids.append(run_id)
        self._on_the_way -= 1
        self._free.append(connection)
        if self._late:
            self._send(self._late.popleft())
        elif self._may_send_more(now):
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
            b'"job_status":"%b"}' % (run_id % order.flows + 1, run_id, order.status.encode())
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


def run_of(message: aiomqtt.Message) -> int | None:
    """Return the run that a message is about; ``None`` for a retained message."""
    found = None if message.retain else _RUN.search(bytes(message.payload))
    return None if found is None else int(found[1])


class _Listener:
    """Records when each run's first message arrived."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self.topics = order.topics
        self.arrived: dict[int, float] = {}
        self.alerts: dict[int, float] = {}
        self.arrived_at = 0.0
        self.is_subscribed = asyncio.Event()

    async def run(self) -> None:
        if self._order.broker_port is None:
            self.is_subscribed.set()
            return
        no_delay = [(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)]
        async with aiomqtt.Client(
            "127.0.0.1", self._order.broker_port, socket_options=no_delay
        ) as client:
            await client.subscribe([(topic, 1) for topic in self._order.topics])
            self.is_subscribed.set()
            async for message in client.messages:
                run = run_of(message)
                if run is not None:
                    self.arrived_at = time.monotonic()
                    is_alert = "/alert/" in message.topic.value
                    (self.alerts if is_alert else self.arrived).setdefault(run, self.arrived_at)


async def _until_arrived(sender: Sender, listener: _Listener) -> None:
    sent_at = time.monotonic()
    awaited = [listener.arrived]
    if any("/alert/" in topic for topic in listener.topics):
        awaited.append(listener.alerts)
    while not all(sender.due.keys() <= arrivals.keys() for arrivals in awaited):
        if time.monotonic() > max(sent_at, listener.arrived_at) + _QUIET_SECONDS:
            return
        await asyncio.sleep(0.02)  # no event for each message: the subscriber must stay cheap


async def carry_out(order: Order) -> Report:
    """Send everything and report."""
    listener, sender = _Listener(order), Sender(order)
    listening = asyncio.create_task(listener.run(), name="subscriber")
    await listener.is_subscribed.wait()
    cpu = time.process_time()
    seconds = await sender.run()
    busy = (time.process_time() - cpu) / seconds
    if order.broker_port is not None:
        await _until_arrived(sender, listener)
    listening.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await listening
    began = min(sender.due.values())
    latencies, alerts = (
        [at - sender.due[run] for run, at in arrived.items() if run in sender.due]
        for arrived in (listener.arrived, listener.alerts)
    )
    return Report(
        answered=len(sender.waits),
        refused=len(sender.refused_ids),
        per_second=len(sender.waits) / seconds,
        answer_p50=1e3 * percentile(sender.waits, 0.5),
        answer_p99=1e3 * percentile(sender.waits, 0.99),
        busy_share=busy,
        arrived=len(latencies),
        arrival_p50=1e3 * percentile(latencies, 0.5) if latencies else 0.0,
        arrival_p99=1e3 * percentile(latencies, 0.99) if latencies else 0.0,
        arrived_per_second=len(latencies) / (listener.arrived_at - began) if latencies else 0.0,
        alerts=len(alerts),
        alert_p50=1e3 * percentile(alerts, 0.5) if alerts else 0.0,
        alert_p99=1e3 * percentile(alerts, 0.99) if alerts else 0.0,
        refused_ids=tuple(sender.refused_ids),
    )


if __name__ == "__main__":
    # A search for garbage would be timed as the server's delay: up to 80 ms.
    gc.disable()
    order = msgspec.json.decode(sys.argv[1], type=Order)
    sys.stdout.write(msgspec.json.encode(asyncio.run(carry_out(order))).decode())

"""What is lost while the broker is away, beside Node-RED.

Both accept the same callbacks over 64 kept connections and publish at QoS 1 to one mosquitto. Ours
is the daemon as it is installed, its runs known, and an end waits for no job records: the secret
is checked, callback, run and event are stored. Node-RED is as `node_red_process` describes it;
where it is not installed, ours is measured alone.

The broker is ended for 5 s and comes back with what it had stored, while 200 callbacks a second go
to both sides at once, so that it is the same outage. A subscriber whose session the broker keeps
counts what arrives until it is quiet. Lost is what was answered 2xx and never arrived.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import aiomqtt
from msgspec import Struct

from tests.bench.daemons import REQUESTS_PER_MINUTE, SECRET, TOPICS, knowing
from tests.bench.figures import Figure, table
from tests.bench.load import Order, run_of
from tests.bench.node_red_process import TOPIC, node_red_program, serving_node_red
from tests.bench.processes import send_callbacks
from tests.servers import Mosquitto

TITLE = "Broker away for 5 s"
_LOG = logging.getLogger("tests.bench.ledger")
_LOG.addHandler(logging.NullHandler())  # the outage is meant: no line for each lost connection
_OURS, _THEIRS = "ours", "Node-RED"
_FIRST_ID = 1_000_000
_THEIR_SHIFT = 100_000_000  # keeps the runs of both apart where a subscriber receives both
_CHECK_SECONDS = 0.2
_QUIET_SECONDS = 10.0  # longer than either side takes to find a broker that came back
_LIMIT_SECONDS = 300.0


class Sizes(Struct, frozen=True, kw_only=True):
    """Sizes of the measurement."""

    before_seconds: float = 2.0  # the outage
    requests_per_minute: float = REQUESTS_PER_MINUTE
    down_seconds: float = 5.0
    after_seconds: float = 3.0
    per_second: float = 200.0
    with_node_red: bool = True

    @property
    def callbacks(self) -> int:
        return int((self.before_seconds + self.down_seconds + self.after_seconds) * self.per_second)


class _Side(Struct, frozen=True, kw_only=True):
    name: str
    port: int
    topics: tuple[str, ...]
    id_shift: int = 0


async def measure(sizes: Sizes | None = None) -> list[Figure]:
    """Return what an outage cost; ours alone where there is no Node-RED."""
    sizes = sizes or Sizes()
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        options = ("max_queued_messages 0", "persistence true", f"persistence_location {folder}/")
        broker = await stack.enter_async_context(Mosquitto(folder, options=options))
        daemon = await stack.enter_async_context(
            knowing(
                folder / "ours",
                first_id=_FIRST_ID,
                runs=sizes.callbacks,
                requests_per_minute=sizes.requests_per_minute,
                broker_port=broker.port,
                detail_wait_seconds=0.0,
            )
        )
        sides = [_Side(name=_OURS, port=daemon.callbacks_port, topics=TOPICS)]
        if sizes.with_node_red and (program := node_red_program()) is not None:
            node_red = await stack.enter_async_context(
                serving_node_red(program, folder / "theirs", broker.port)
            )
            sides.append(
                _Side(name=_THEIRS, port=node_red.port, topics=(TOPIC,), id_shift=_THEIR_SHIFT)
            )
        async with asyncio.timeout(_LIMIT_SECONDS):
            return await _outage(sizes, sides, broker)


class _Ledger:
    """Counts each run's messages to a subscriber with a session that the broker keeps."""

    def __init__(self, broker_port: int, topics: Sequence[str]) -> None:
        self._broker_port = broker_port
        self._topics = topics
        self.arrived: Counter[int] = Counter()
        self.arrived_at = 0.0
        self.is_subscribed = asyncio.Event()

    async def run(self) -> None:
        """Receive until cancelled, over every loss of the broker."""
        while True:
            try:
                await self._listen()
            except aiomqtt.MqttError:
                await asyncio.sleep(_CHECK_SECONDS)  # the broker is away, which is the point

    async def _listen(self) -> None:
        async with aiomqtt.Client(
            "127.0.0.1", self._broker_port, identifier="ledger", clean_session=False, logger=_LOG
        ) as client:
            await client.subscribe([(topic, 1) for topic in self._topics])
            self.is_subscribed.set()
            async for message in client.messages:
                run = run_of(message)
                if run is not None:
                    self.arrived[run] += 1
                    self.arrived_at = time.monotonic()

    async def until_quiet(self, expected: set[int]) -> None:
        """Return when all expected runs arrived, or nothing has come for a while."""
        began = time.monotonic()
        while not expected <= self.arrived.keys():
            if time.monotonic() > max(began, self.arrived_at) + _QUIET_SECONDS:
                return
            await asyncio.sleep(_CHECK_SECONDS)


async def _outage(sizes: Sizes, sides: Sequence[_Side], broker: Mosquitto) -> list[Figure]:
    ledger = _Ledger(broker.port, [topic for side in sides for topic in side.topics])
    orders = [
        Order(
            port=side.port,
            first_id=_FIRST_ID + side.id_shift,
            seconds=sizes.callbacks / sizes.per_second,
            per_second=sizes.per_second,
            secret=SECRET,
        )
        for side in sides
    ]
    async with asyncio.TaskGroup() as group:
        listening = group.create_task(ledger.run(), name="ledger")
        await ledger.is_subscribed.wait()
        sending = [group.create_task(send_callbacks(order, may_refuse=True)) for order in orders]
        await asyncio.sleep(sizes.before_seconds)
        await broker.stop()
        await asyncio.sleep(sizes.down_seconds)
        await broker.start()
        reports = [await order for order in sending]
        accepted = [
            set(range(order.first_id, order.first_id + sizes.callbacks)) - set(report.refused_ids)
            for order, report in zip(orders, reports, strict=True)
        ]
        await ledger.until_quiet(set().union(*accepted))
        listening.cancel()
    return [
        figure
        for side, ids in zip(sides, accepted, strict=True)
        for figure in _losses(side.name, ids, ledger.arrived)
    ]


def _losses(name: str, accepted: set[int], arrived: Counter[int]) -> list[Figure]:
    lost = len(accepted - arrived.keys())
    repeated = sum(arrived[run] > 1 for run in accepted)
    return [
        Figure(name=f"{name}: answered 2xx around the outage", values=(float(len(accepted)),)),
        Figure(
            name=f"{name}: lost of these",
            values=(float(lost),),
            target=0.0 if name == _OURS else None,
        ),
        Figure(name=f"{name}: arrived more than once", values=(float(repeated),)),
    ]


if __name__ == "__main__":
    sys.stdout.write(table(TITLE, asyncio.run(measure())))

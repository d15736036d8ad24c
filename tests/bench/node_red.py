"""From callback to MQTT subscriber through the daemon, and through a flow in Node-RED.

Both accept the same callbacks over 64 kept connections and publish at QoS 1 to one mosquitto. Ours
is the daemon as it is installed, its runs known, and an end waits for no job records: the secret
is checked, callback, run and event are stored. Node-RED has the usual published flow in its
leanest and fastest shape: ``http in`` leads to ``mqtt out`` and, beside it, to ``http response``;
no change or function node stands between, nothing is checked. Its settings are those that it
comes with, save for two that help it: the broker keeps its session (a fixed client id, no clean
session), and a lost broker is retried each second, as ours does at first, not each 15. A flow
that answers from a ``complete`` node, once the broker has acknowledged, is not used: while the
broker is away it answers nobody.

Saturation is a fixed number of callbacks, each sent as soon as one is answered, over the time
until the last of them has reached the subscriber. Searching for the highest rate with a bearable
p99 would take ten times as long and hang on one unlucky second; and counted is what arrived,
because both answer before the broker has the message. The sender and the subscriber share the
machine with both sides, which sets a limit to either.

At last the broker is ended for 5 s and comes back with what it had stored, while 200 callbacks a
second go to both sides at once, so that it is the same outage. A subscriber whose session the
broker keeps counts what arrives until it is quiet. Lost is what was answered 2xx and never arrived.

Node-RED is optional: the program that ``NODE_RED`` names, or ``node-red`` on the path. Without it
ours is measured alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import shutil
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import aiomqtt
from msgspec import Struct

from tests.bench.daemons import SECRET, TOPICS, knowing
from tests.bench.figures import Figure, table
from tests.bench.load import Order, Report, run_of
from tests.bench.processes import send_callbacks
from tests.servers import Mosquitto, free_port

TITLE = "Callback to MQTT subscriber, beside Node-RED"
_LOG = logging.getLogger("tests.bench.ledger")
_LOG.addHandler(logging.NullHandler())  # the outage is meant: no line for each lost connection
_OURS, _THEIRS = "ours", "Node-RED"
_THEIR_TOPIC = "hooks/acme"
_FIRST_ID = 1_000_000
_THEIR_SHIFT = 100_000_000  # keeps the runs of both apart where a subscriber receives both
_START_SECONDS = 30.0
_END_SECONDS = 20.0
_CHECK_SECONDS = 0.2
_QUIET_SECONDS = 10.0  # longer than either side takes to find a broker that came back
_OUTAGE_LIMIT_SECONDS = 90.0


class Sizes(Struct, frozen=True, kw_only=True):
    """Sizes of the measurement."""

    repetitions: int = 3
    seconds: float = 2.0  # at each rate
    paces: tuple[float, ...] = (200.0, 1_000.0)
    saturating: int = 4_000  # callbacks
    before_seconds: float = 2.0  # the outage
    down_seconds: float = 5.0
    after_seconds: float = 3.0
    outage_rate: float = 200.0
    with_node_red: bool = True

    @property
    def outage_callbacks(self) -> int:
        seconds = self.before_seconds + self.down_seconds + self.after_seconds
        return int(seconds * self.outage_rate)

    @property
    def runs(self) -> int:
        """Return how many runs all of it needs; each side is saturated once to warm up."""
        paced = sum(int(self.seconds * limits) for limits in self.paces)
        return (
            self.repetitions * paced
            + (self.repetitions + 1) * self.saturating
            + self.outage_callbacks
        )


class _Side(Struct, frozen=True, kw_only=True):
    name: str
    port: int
    topics: tuple[str, ...]
    id_shift: int = 0


async def measure(sizes: Sizes | None = None) -> list[Figure]:
    """Return rates, percentiles and what an outage cost; ours alone where there is no Node-RED."""
    sizes = sizes or Sizes()
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        options = ("max_queued_messages 0", "persistence true", f"persistence_location {folder}/")
        broker = await stack.enter_async_context(Mosquitto(folder, options=options))
        sides = await _sides(sizes, stack, folder, broker.port)
        figures = await _steady(sizes, sides, broker.port)
        async with asyncio.timeout(_OUTAGE_LIMIT_SECONDS):
            return [*figures, *await _outage(sizes, sides, broker)]


async def _sides(
    sizes: Sizes, stack: AsyncExitStack, folder: Path, broker_port: int
) -> list[_Side]:
    daemon = await stack.enter_async_context(
        knowing(
            folder / "ours",
            first_id=_FIRST_ID,
            runs=sizes.runs,
            broker_port=broker_port,
            detail_wait_seconds=0.0,
        )
    )
    ours = _Side(name=_OURS, port=daemon.callbacks_port, topics=TOPICS)
    if not sizes.with_node_red:
        return [ours]
    program = shutil.which(os.environ.get("NODE_RED", "node-red"))
    if program is None:
        sys.stdout.write("Node-RED is not here (NODE_RED, or node-red on the path): ours alone.\n")
        return [ours]
    port = await stack.enter_async_context(_node_red(program, folder / "theirs", broker_port))
    return [
        ours,
        _Side(name=_THEIRS, port=port, topics=(_THEIR_TOPIC,), id_shift=_THEIR_SHIFT),
    ]


@contextlib.asynccontextmanager
async def _node_red(program: str, folder: Path, broker_port: int) -> AsyncIterator[int]:
    """Run Node-RED with the flow, and yield its port once it is connected to the broker."""
    port = free_port()
    log = _write_flow(folder, broker_port)
    with log.open("wb") as out:
        process = await asyncio.create_subprocess_exec(
            *(program, "--userDir", str(folder), "--port", str(port), "--no-telemetry"),
            *("-D", "uiHost=127.0.0.1", "-D", "mqttReconnectTime=1000", "flows.json"),
            stdout=out,
            stderr=out,
        )
    try:
        end = time.monotonic() + _START_SECONDS
        while not _is_connected(log):
            if process.returncode is not None or time.monotonic() > end:
                raise RuntimeError(f"Node-RED did not start:\n{log.read_text()}")
            await asyncio.sleep(_CHECK_SECONDS)
        yield port
    finally:
        if process.returncode is None:
            process.terminate()
        async with asyncio.timeout(_END_SECONDS):
            await process.wait()


def _is_connected(log: Path) -> bool:
    text = log.read_text()
    return "Server now running at" in text and "Connected to broker" in text


def _write_flow(folder: Path, broker_port: int) -> Path:
    """Write the flow into a new folder, and return where the log belongs."""
    folder.mkdir()
    flow: list[dict[str, object]] = [
        {"id": "tab", "type": "tab", "label": "callbacks"},
        {
            "id": "broker",
            "type": "mqtt-broker",
            "broker": "127.0.0.1",
            "port": broker_port,
            "clientid": "node-red",
            "cleansession": False,
            "protocolVersion": "4",
            "keepalive": 60,
        },
        {
            "id": "in",
            "type": "http in",
            "z": "tab",
            "url": "/hooks/acme",
            "method": "post",
            "wires": [["answer", "out"]],
        },
        {"id": "answer", "type": "http response", "z": "tab", "statusCode": "204", "wires": []},
        {
            "id": "out",
            "type": "mqtt out",
            "z": "tab",
            "broker": "broker",
            "topic": _THEIR_TOPIC,
            "qos": "1",
            "retain": "false",
            "wires": [],
        },
    ]
    (folder / "flows.json").write_text(json.dumps(flow))
    return folder / "log"


async def _steady(sizes: Sizes, sides: Sequence[_Side], broker_port: int) -> list[Figure]:
    side_reports: dict[tuple[str, float], list[Report]] = {}
    first_id = _FIRST_ID
    for number in range(-1, sizes.repetitions):
        # Rate 0 saturates, which is also the warm-up.
        for limits in (*sizes.paces, 0.0) if number >= 0 else (0.0,):
            count = int(sizes.seconds * limits) or sizes.saturating
            for side in sides:
                report = await send_callbacks(
                    Order(
                        port=side.port,
                        first_id=first_id + side.id_shift,
                        seconds=sizes.seconds,
                        per_second=limits,
                        count=0 if limits else count,
                        secret=SECRET,
                        broker_port=broker_port,
                        topics=side.topics,
                    )
                )
                if report.arrived != count:
                    raise RuntimeError(f"{side.name}: {report.arrived} of {count} arrived")
                if number >= 0:
                    side_reports.setdefault((side.name, limits), []).append(report)
            first_id += count
    return _figures(side_reports)


def _figures(side_reports: dict[tuple[str, float], list[Report]]) -> list[Figure]:
    made: list[Figure] = []
    rates: dict[str, tuple[float, ...]] = {}
    for (name, limits), reports in side_reports.items():
        if not limits:
            rates[name] = tuple(report.arrived_per_second for report in reports)
            continue
        p50 = tuple(report.arrival_p50 for report in reports)
        p99 = tuple(report.arrival_p99 for report in reports)
        made.append(Figure(name=f"{name}: p50 at {limits:,.0f} a second", values=p50, unit="ms"))
        made.append(Figure(name=f"{name}: p99 at {limits:,.0f} a second", values=p99, unit="ms"))
    for name, values in rates.items():
        line = f"{name}: saturated, at the subscriber"
        made.append(Figure(name=line, values=values, unit="/s", better="higher"))
    if _THEIRS in rates:
        shares = tuple(a / b for a, b in zip(rates[_OURS], rates[_THEIRS], strict=True))
        line = "saturated, ours over Node-RED's"
        made.append(Figure(name=line, values=shares, unit="times", better="higher"))
    return made


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
    first_id = _FIRST_ID + sizes.runs - sizes.outage_callbacks
    ledger = _Ledger(broker.port, [topic for side in sides for topic in side.topics])
    orders = [
        Order(
            port=side.port,
            first_id=first_id + side.id_shift,
            seconds=sizes.outage_callbacks / sizes.outage_rate,
            per_second=sizes.outage_rate,
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
            set(range(order.first_id, order.first_id + sizes.outage_callbacks))
            - set(report.refused_ids)
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

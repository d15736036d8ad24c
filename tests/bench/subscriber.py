"""From callback to MQTT subscriber, beside a bridge without storage and beside Node-RED.

All accept the same callbacks over 64 kept connections, in one row over a new connection for each,
and publish to one mosquitto at QoS 1; one subscriber, in the process that sends, times each run
from when its callback was due. Ours is the whole daemon as it is installed: secret checked,
callback stored, transition derived, state and event stored, event delivered, counted in the
metrics, judged by the rules. Its runs are known already and an end waits for no job records. The
bridge is an aiohttp handler that publishes the body with aiomqtt: nothing is checked, stored or
sent again. Node-RED is as `node_red_process` describes it.

Before anything is measured the others get so many callbacks that their code is warm: V8 compiles
what has been called some 3,500 times. At each rate the sides take turns, in rounds that are long
enough for a p99, and the runs belong to so many flows that each flow has a few of them. Processor
time is user and system, of all threads of the server's process, from before the first callback to a
moment after the last message; ours contains what the daemon does beside callbacks, so the runs of a
rate have a daemon of their own that knows no others. Commits are those that the daemon counts, also
with all that goes on beside.

Saturated is a fixed number of callbacks, each sent as soon as one is answered, over the time until
the last of them has reached the subscriber. Searching for the highest rate with a bearable p99
would take ten times as long and hang on one unlucky second; and counted is what arrived, because
ours and Node-RED answer before the broker has the message. The sender and the subscriber share the
machine with the sides, which sets a limit to each.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec import Struct

from tests.bench.daemons import REQUESTS_PER_MINUTE, SECRET, TOPICS, RunningDaemon, knowing
from tests.bench.figures import Figure, table
from tests.bench.load import Order
from tests.bench.node_red_process import TOPIC, node_red_program, serving_node_red
from tests.bench.processes import (
    Served,
    busy_core,
    processor_seconds,
    send_callbacks,
    serving,
)
from tests.bench.slowed import held_to
from tests.bench.subscriber_figures import (
    BRIDGE,
    NODE_RED,
    OURS,
    Pace,
    Round,
    Rounds,
    figures_of,
)
from tests.servers import Mosquitto

TITLE = "Callback to MQTT subscriber"
_FIRST_ID = 1_000_000
_RUNS_OF_A_FLOW = 4
_LEAST_FLOWS, _MOST_FLOWS = 50, 10_000
_REST_SECONDS = 0.3  # what is left to do after the last message belongs to the callbacks


class Sizes(Struct, frozen=True, kw_only=True):
    """Sizes of the measurement."""

    repetitions: int = 3
    requests_per_minute: float = REQUESTS_PER_MINUTE
    paces: tuple[Pace, ...] = (
        Pace(per_second=100.0, seconds=10.0, is_beside_node_red=False),
        Pace(per_second=200.0, seconds=10.0),
        Pace(per_second=200.0, seconds=10.0, is_kept=False),
        Pace(per_second=500.0, seconds=10.0, is_beside_node_red=False),
        Pace(per_second=1_000.0, seconds=10.0),
        Pace(per_second=1_000.0, seconds=10.0, is_core_busy=True),
        Pace(per_second=0.0, seconds=0.0, saturating=10_000),
    )
    warming: int = 4_000  # callbacks to each of the others, before all rounds
    with_node_red: bool = True
    share: float = 1.0  # of all cores, that each server may use


class _Side(Struct, frozen=True, kw_only=True):
    name: str
    server: Served
    topics: tuple[str, ...]


async def measure(sizes: Sizes | None = None) -> list[Figure]:
    """Return percentiles, processor time and commits at each rate, and ours over the others'."""
    sizes = sizes or Sizes()
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        broker = await stack.enter_async_context(
            Mosquitto(folder, options=("max_queued_messages 0",))
        )
        others = await _others(sizes, stack, folder, broker.port)
        warming = Pace(per_second=0.0, seconds=0.0, saturating=sizes.warming)
        for side in others:
            order = _order(warming, side, _FIRST_ID, broker.port, flows=_LEAST_FLOWS)
            await _round(warming, side, order)
        rounds: Rounds = {}
        for number, pace in enumerate(sizes.paces):
            runs = pace.warm_up().callbacks + sizes.repetitions * pace.callbacks
            flows = max(_LEAST_FLOWS, min(_MOST_FLOWS, runs // _RUNS_OF_A_FLOW))
            async with knowing(
                folder / f"ours-{number}",
                first_id=_FIRST_ID,
                runs=runs,
                flows=flows,
                requests_per_minute=sizes.requests_per_minute,
                broker_port=broker.port,
                detail_wait_seconds=0.0,
            ) as daemon:
                rounds[pace] = await _at_pace(
                    sizes, pace, daemon, others, broker_port=broker.port, flows=flows
                )
        return figures_of(rounds)


async def _others(
    sizes: Sizes, stack: AsyncExitStack, folder: Path, broker_port: int
) -> list[_Side]:
    server = await stack.enter_async_context(serving("minimal_servers", "bridge", str(broker_port)))
    sides = [_Side(name=BRIDGE, server=server, topics=("minimal/#",))]
    if sizes.with_node_red and (program := node_red_program()) is not None:
        server = await stack.enter_async_context(
            serving_node_red(program, folder / "node-red", broker_port)
        )
        sides.append(_Side(name=NODE_RED, server=server, topics=(TOPIC,)))
    for side in sides:
        stack.enter_context(held_to(sizes.share, side.server.process_id))
    return sides


async def _at_pace(
    sizes: Sizes,
    pace: Pace,
    daemon: RunningDaemon,
    others: Sequence[_Side],
    *,
    broker_port: int,
    flows: int,
) -> dict[str, list[Round]]:
    server = Served(port=daemon.callbacks_port, process_id=daemon.process_id)
    ours = _Side(name=OURS, server=server, topics=TOPICS)
    is_here = {OURS, BRIDGE, NODE_RED if pace.is_beside_node_red else ""}
    sides = [side for side in (ours, *others) if side.name in is_here]
    rounds: dict[str, list[Round]] = {side.name: [] for side in sides}
    first_id = _FIRST_ID
    with held_to(sizes.share, daemon.process_id):
        for played in (pace.warm_up(), *[pace] * sizes.repetitions):
            for side in sides:
                await daemon.settle()  # so that nothing of ours is left to do beside the others
                before = await daemon.commits()
                order = _order(played, side, first_id, broker_port, flows=flows)
                measured = await _round(played, side, order)
                if side is ours:
                    await daemon.settle()
                    commits = await daemon.commits() - before
                    measured = measured.with_commits(commits / played.callbacks)
                if played is pace:
                    rounds[side.name].append(measured)
            first_id += played.callbacks
    return rounds


def _order(pace: Pace, side: _Side, first_id: int, broker_port: int, *, flows: int) -> Order:
    return Order(
        port=side.server.port,
        first_id=first_id,
        seconds=pace.seconds,
        per_second=pace.per_second,
        count=pace.saturating,
        secret=SECRET,
        broker_port=broker_port,
        topics=side.topics,
        flows=flows,
        is_kept=pace.is_kept,
    )


async def _round(pace: Pace, side: _Side, order: Order) -> Round:
    async with busy_core() if pace.is_core_busy else contextlib.nullcontext():
        before = processor_seconds(side.server.process_id)
        report = await send_callbacks(order)
        await asyncio.sleep(_REST_SECONDS)
        used = processor_seconds(side.server.process_id) - before
    if report.arrived != pace.callbacks:
        raise RuntimeError(f"{side.name}: {report.arrived} of {pace.callbacks} arrived")
    return Round(report=report, processor_ms=1e3 * used / pace.callbacks)


if __name__ == "__main__":
    sys.stdout.write(table(TITLE, asyncio.run(measure())))

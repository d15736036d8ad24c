"""From callback to MQTT subscriber at 1,000 a second, beside a bridge without storage.

Both accept the same callbacks at the same rate over 64 kept connections and publish to one
mosquitto at QoS 1; one subscriber, in the process that sends, times each run from when its callback
was due. Ours is the whole daemon as it is installed: secret checked, callback stored, transition
derived, state and event stored, event delivered, counted in the metrics. Its runs are known already
and an end waits for no job records. The bridge is an aiohttp handler that publishes the body with
aiomqtt: nothing is checked, stored or sent again. All are measured in turns within one run. Beside
them the daemon with its default setting, in which an end waits up to a second for its job records.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec import Struct

from tests.bench.daemons import SECRET, TOPICS, knowing
from tests.bench.figures import Figure, ratios, table
from tests.bench.load import Order, Report
from tests.bench.processes import send_callbacks, serving
from tests.servers import Mosquitto

TITLE = "Callback to MQTT subscriber"
_FIRST_ID = 1_000_000
_BRIDGE, _OURS, _DEFAULT = "bridge without storage", "ours", "ours, waiting for job records"


class Sizes(Struct, frozen=True, kw_only=True):
    """Sizes of the measurement."""

    repetitions: int = 5
    seconds: float = 3.0
    per_second: float = 1_000.0


async def measure(sizes: Sizes | None = None) -> list[Figure]:
    """Return both percentiles of each, and the ratios of ours to the bridge's."""
    sizes = sizes or Sizes()
    reports: dict[str, list[Report]] = {_BRIDGE: [], _OURS: [], _DEFAULT: []}
    each = int(sizes.seconds * sizes.per_second)
    runs = (sizes.repetitions + 1) * each
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        broker = await stack.enter_async_context(
            Mosquitto(folder, options=("max_queued_messages 0",))
        )
        ours = await stack.enter_async_context(
            knowing(
                folder / "ours",
                first_id=_FIRST_ID,
                runs=runs,
                broker_port=broker.port,
                detail_wait_seconds=0.0,
            )
        )
        bridge = await stack.enter_async_context(
            serving("minimal_servers", "bridge", str(broker.port))
        )
        for number in range(-1, sizes.repetitions):
            first_id = _FIRST_ID + (number + 1) * each
            for name, port, topics in (
                (_BRIDGE, bridge, ("minimal/#",)),
                (_OURS, ours.callbacks_port, TOPICS),
            ):
                report = await send_callbacks(_order(sizes, port, broker.port, topics, first_id))
                _check(name, report)
                if number >= 0:  # the first repetition only warms both up
                    reports[name].append(report)
    reports[_DEFAULT].append(await _with_default(sizes))
    return _figures(reports)


async def _with_default(sizes: Sizes) -> Report:
    each = int(sizes.seconds * sizes.per_second)
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        broker = await stack.enter_async_context(
            Mosquitto(folder, options=("max_queued_messages 0",))
        )
        daemon = await stack.enter_async_context(
            knowing(folder / "ours", first_id=_FIRST_ID, runs=each, broker_port=broker.port)
        )
        order = _order(sizes, daemon.callbacks_port, broker.port, TOPICS, _FIRST_ID)
        report = await send_callbacks(order)
        _check(_DEFAULT, report)
        return report


def _order(
    sizes: Sizes, port: int, broker_port: int, topics: tuple[str, ...], first_id: int
) -> Order:
    return Order(
        port=port,
        first_id=first_id,
        seconds=sizes.seconds,
        per_second=sizes.per_second,
        secret=SECRET,
        broker_port=broker_port,
        topics=topics,
    )


def _check(name: str, report: Report) -> None:
    if report.arrived != report.answered:
        raise RuntimeError(f"{name}: {report.arrived} of {report.answered} arrived")


def _figures(reports: dict[str, list[Report]]) -> list[Figure]:
    made: list[Figure] = []
    for name, side_reports in reports.items():
        p50 = tuple(report.arrival_p50 for report in side_reports)
        p99 = tuple(report.arrival_p99 for report in side_reports)
        made.append(Figure(name=f"{name}: p50", values=p50, unit="ms"))
        made.append(Figure(name=f"{name}: p99", values=p99, unit="ms"))
    by_name = {figure.name: figure for figure in made}
    ours, minimal = by_name[f"{_OURS}: p99"], by_name[f"{_BRIDGE}: p99"]
    return [*made, ratios("p99, ours over the bridge's", ours, minimal, target=3.0)]


if __name__ == "__main__":
    sys.stdout.write(table(TITLE, asyncio.run(measure())))

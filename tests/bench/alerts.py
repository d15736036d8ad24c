"""What alerts cost: the way of a failure to its alert, and the rules that do not match.

A failed run is called back and published twice to one subscriber: as the run's own event, and as
the alert that it begins. Both are timed from when the callback was due. Every run is of another
flow, so that each callback begins an alert, by the rules that stand without configuration. Measured
is the whole daemon, with ends that wait for no job records, which leaves the alert no cover, and
with the default, in which both wait for them.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec import Struct

from tests.bench.daemons import REQUESTS_PER_MINUTE, SECRET, knowing
from tests.bench.figures import Figure, ratios, table
from tests.bench.load import Order, Report
from tests.bench.processes import send_callbacks
from tests.bench.slowed import held_to
from tests.servers import Mosquitto

TITLE = "Failed run to alert"
_FIRST_ID = 1_000_000
_TOPICS = ("dataprep/v1/+/job_group/+/event/failed", "dataprep/v1/+/alert/run_failed/+/event")
_AT_ONCE, _DEFAULT = "an end waits for nothing", "an end waits for its job records"


class Sizes(Struct, frozen=True, kw_only=True):
    """Sizes of the measurement."""

    repetitions: int = 5
    requests_per_minute: float = REQUESTS_PER_MINUTE
    failures: int = 150
    per_second: float = 50.0
    with_default: bool = True  # also with ends that wait for job records
    share: float = 1.0  # of all cores, that the daemon may use


async def measure(sizes: Sizes | None = None) -> list[Figure]:
    """Return how long both take, and the ratios of the alert to the run's own event."""
    sizes = sizes or Sizes()
    at_once = await _reports(sizes, sizes.repetitions, detail_wait_seconds=0.0)
    figures = _figures(_AT_ONCE, at_once)
    if sizes.with_default:
        default = await _reports(sizes, 1, detail_wait_seconds=None)
        figures += _figures(_DEFAULT, default)
    return figures


async def _reports(
    sizes: Sizes, repetitions: int, *, detail_wait_seconds: float | None
) -> list[Report]:
    runs = (repetitions + 1) * sizes.failures
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        broker = await stack.enter_async_context(
            Mosquitto(folder, options=("max_queued_messages 0",))
        )
        daemon = await stack.enter_async_context(
            knowing(
                folder / "ours",
                first_id=_FIRST_ID,
                runs=runs,
                flows=runs,
                requests_per_minute=sizes.requests_per_minute,
                broker_port=broker.port,
                detail_wait_seconds=detail_wait_seconds,
            )
        )
        stack.enter_context(held_to(sizes.share, daemon.process_id))
        reports = []
        for number in range(repetitions + 1):
            order = Order(
                port=daemon.callbacks_port,
                first_id=_FIRST_ID + number * sizes.failures,
                seconds=sizes.failures / sizes.per_second,
                per_second=sizes.per_second,
                secret=SECRET,
                broker_port=broker.port,
                topics=_TOPICS,
                flows=runs,
                status="Failed",
            )
            await daemon.settle()
            reports.append(await send_callbacks(order))
            _check(reports[-1])
        return reports[1:]  # the first repetition only warms up


def _check(report: Report) -> None:
    if not report.arrived == report.alerts == report.answered:
        raise RuntimeError(
            f"{report.arrived} failures and {report.alerts} alerts of {report.answered} arrived"
        )


def _figures(name: str, reports: list[Report]) -> list[Figure]:
    rows = (
        ("event, p50", [report.arrival_p50 for report in reports]),
        ("alert, p50", [report.alert_p50 for report in reports]),
        ("event, p99", [report.arrival_p99 for report in reports]),
        ("alert, p99", [report.alert_p99 for report in reports]),
    )
    made = [Figure(name=f"{name}: {what}", values=tuple(v), unit="ms") for what, v in rows]
    ratio = ratios(f"{name}: p50, alert over event", made[1], made[0], target=1.3)
    return [*made, ratio]


if __name__ == "__main__":
    sys.stdout.write(table(TITLE, asyncio.run(measure())))

"""A process that counts a store's events until it is killed; prints a line after each batch."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from prometheus_client import CollectorRegistry

from monitor.bus.sqlite import SqliteBus
from monitor.model.clock import SystemClock
from monitor.outputs.metrics.settings import MetricsSettings
from monitor.tracking.live_state import LiveState
from tests.outputs.metrics_parts import Metrics


async def count(store: Path) -> None:
    clock, registry = SystemClock(), CollectorRegistry()
    bus = await SqliteBus.open(store, clock=clock, registry=registry)
    metrics = Metrics(
        bus=bus,
        live_state=LiveState(["one"]).view,
        clock=clock,
        registry=registry,
        settings=MetricsSettings(batch_size=2),
        version="0",
    )
    await metrics.consumer.restore()
    while await metrics.consumer.count_some():
        sys.stdout.write(f"{metrics.consumer.position}\n")
        sys.stdout.flush()
    sys.stdout.write("done\n")
    sys.stdout.flush()
    # Waits for the kill: an orderly end is not what is tested.
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(count(Path(sys.argv[1])))

"""What a daemon remembers of runs that have ended.

A daemon as it is installed knows 40,000 running job groups of 1,000 flows, and callbacks report
the ends of half of them, then of nearly all others. It is weighed before, in between and after:
what it keeps of ends is bounded (the last ones of each pipeline, what is usual for it, its series,
the newest events), so that the first half may cost memory and the second half must not. It is
weighed at rest: what it reads of active runs after its start costs memory too, and has no part in
this.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec import Struct

from tests.bench.daemons import REQUESTS_PER_MINUTE, SECRET, RunningDaemon, knowing
from tests.bench.figures import Figure, ratios, table
from tests.bench.load import Order
from tests.bench.processes import resident_bytes, send_callbacks
from tests.servers import Mosquitto

TITLE = "Memory of runs that have ended"
_FIRST_ID = 1_000_000
_LONGEST_SECONDS = 600.0
_GROWS = 1.01


class Sizes(Struct, frozen=True, kw_only=True):
    """Sizes of the measurement."""

    active: int = 40_000
    flows: int = 1_000
    ends: tuple[int, int] = (20_000, 19_000)  # of the first part, and of the second one
    requests_per_minute: float = REQUESTS_PER_MINUTE
    rest_seconds: float = 60.0


async def measure(sizes: Sizes | None = None) -> list[Figure]:
    """Return the memory before, between and after the ends, and both ratios."""
    sizes = sizes or Sizes()
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        options = ("max_queued_messages 0",)
        broker = await stack.enter_async_context(Mosquitto(folder, options=options))
        daemon = await stack.enter_async_context(
            knowing(
                folder / "daemon",
                first_id=_FIRST_ID,
                runs=sizes.active,
                flows=sizes.flows,
                requests_per_minute=sizes.requests_per_minute,
                broker_port=broker.port,
                detail_wait_seconds=0.0,
            )
        )
        memory, ended = [await _at_rest(daemon, sizes)], 0
        for count in sizes.ends:
            await _end(daemon, first_id=_FIRST_ID + ended, count=count, flows=sizes.flows)
            memory.append(await _at_rest(daemon, sizes))
            ended += count
    before, between, after = (
        Figure(name=f"memory {when}", values=(value / 1e6,), unit="MB")
        for when, value in zip(_moments(sizes), memory, strict=True)
    )
    return [
        before,
        between,
        after,
        ratios(f"after {sizes.ends[0]:,} ends over before", between, before),
        ratios(f"after {sum(sizes.ends):,} ends over after those", after, between, target=1.05),
    ]


def _moments(sizes: Sizes) -> tuple[str, str, str]:
    return (
        f"with {sizes.active:,} active runs",
        f"after {sizes.ends[0]:,} ends",
        f"after {sum(sizes.ends):,} ends",
    )


async def _end(daemon: RunningDaemon, *, first_id: int, count: int, flows: int) -> None:
    """Return when all consumers have handled the ends of so many runs."""
    order = Order(
        port=daemon.callbacks_port,
        first_id=first_id,
        seconds=_LONGEST_SECONDS,
        count=count,
        secret=SECRET,
        flows=flows,
    )
    await send_callbacks(order)
    await daemon.settle()


async def _at_rest(daemon: RunningDaemon, sizes: Sizes) -> int:
    """Return the memory once it has grown by less than a hundredth in ``rest_seconds``."""
    before, now = 0, resident_bytes(daemon.process_id)
    async with asyncio.timeout(_LONGEST_SECONDS):
        while now > _GROWS * before:
            await asyncio.sleep(sizes.rest_seconds)
            before, now = now, resident_bytes(daemon.process_id)
    return now


if __name__ == "__main__":
    sys.stdout.write(table(TITLE, asyncio.run(measure())))

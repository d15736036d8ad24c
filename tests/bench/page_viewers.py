"""What people who keep the page open cost: callbacks beside fifty of them, and without viewers.

One daemon as it is installed, whose runs are called back at a steady rate; each callback changes
what the page shows. In turns no viewer and fifty viewers keep the overview open, in a process
of their own (`viewers.py` does what the page's script does). Compared is the processor time of the
daemon for each callback.
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
from tests.bench.processes import processor_seconds, send_callbacks
from tests.bench.slowed import held_to
from tests.bench.viewers import Watched, viewing

TITLE = "Callbacks beside people who keep the page open"
_FIRST_ID = 1_000_000
_REST_SECONDS = 0.5  # what is left to do after the last callback belongs to the callbacks


class Sizes(Struct, frozen=True, kw_only=True):
    """Sizes of the measurement."""

    repetitions: int = 3
    requests_per_minute: float = REQUESTS_PER_MINUTE
    seconds: float = 12.0  # fifty pages are refreshed every 5 s
    per_second: float = 200.0
    viewers: int = 50
    pipelines: int = 300
    path: str = "/"
    share: float = 1.0  # of all cores, that the daemon may use

    @property
    def callbacks(self) -> int:
        return int(self.seconds * self.per_second)


async def measure(sizes: Sizes | None = None) -> list[Figure]:
    """Return the processor time of a callback with viewers and without, and the ratio."""
    sizes = sizes or Sizes()
    alone: list[float] = []
    beside: list[float] = []
    seen: list[Watched] = []
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        daemon = await stack.enter_async_context(
            knowing(
                folder / "daemon",
                first_id=_FIRST_ID,
                runs=2 * (sizes.repetitions + 1) * sizes.callbacks,
                flows=sizes.pipelines,
                requests_per_minute=sizes.requests_per_minute,
                detail_wait_seconds=0.0,
            )
        )
        stack.enter_context(held_to(sizes.share, daemon.process_id))
        url = f"http://127.0.0.1:{daemon.server_port}{sizes.path}"
        for number in range(-1, sizes.repetitions):
            first_id = _FIRST_ID + 2 * (number + 1) * sizes.callbacks
            without = await _round(sizes, daemon, first_id)
            async with viewing(url, sizes.viewers) as viewers:
                with_viewers = await _round(sizes, daemon, first_id + sizes.callbacks)
                watched = await viewers.leave()
            if number >= 0:  # the first repetition only warms up
                alone.append(without)
                beside.append(with_viewers)
                seen.append(watched)
    return _figures(sizes, alone, beside, seen)


async def _round(sizes: Sizes, daemon: RunningDaemon, first_id: int) -> float:
    """Return the processor time that the daemon takes for each callback, in milliseconds."""
    await daemon.settle()
    before = processor_seconds(daemon.process_id)
    await send_callbacks(
        Order(
            port=daemon.callbacks_port,
            first_id=first_id,
            seconds=sizes.seconds,
            per_second=sizes.per_second,
            secret=SECRET,
            flows=sizes.pipelines,
        )
    )
    await asyncio.sleep(_REST_SECONDS)
    return 1e3 * (processor_seconds(daemon.process_id) - before) / sizes.callbacks


def _figures(
    sizes: Sizes, alone: list[float], beside: list[float], seen: list[Watched]
) -> list[Figure]:
    without = Figure(name="no viewers: processor time", values=tuple(alone), unit="ms")
    watched = Figure(
        name=f"{sizes.viewers} viewers: processor time", values=tuple(beside), unit="ms"
    )
    requests = [watched.requests / sizes.viewers for watched in seen]
    kilobytes = [watched.body_bytes / 1e3 / max(1, watched.requests) for watched in seen]
    return [
        without,
        watched,
        ratios("processor time, viewers over none", watched, without, target=1.3),
        Figure(name="requests of a viewer", values=tuple(requests)),
        Figure(name="bytes of such an answer", values=tuple(kilobytes), unit="kB"),
    ]


if __name__ == "__main__":
    sys.stdout.write(table(TITLE, asyncio.run(measure())))

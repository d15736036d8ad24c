"""How many callbacks a second are accepted, beside a handler that only reads the body.

Ours is the listener over the store, as the daemon runs it: the secret and the signature of each
callback are checked, its body is understood, and it is on disk before it is answered. The inbox
grows and nobody reads it, because the other side has nobody who does anything either. The other
side is an aiohttp handler that reads the body and answers. Both serve the same requests over 64
kept connections from one process that uses less of a core than the server (its share is shown),
each in a process of its own, in turns within one run. Each callback names another run.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec import Struct

from tests.bench.figures import Figure, ratios, table
from tests.bench.load import Order
from tests.bench.processes import send_callbacks, serving

TITLE = "Callback ingest, durable and checked"
_SECRET, _KEY = "secret", "key"


class Sizes(Struct, frozen=True, kw_only=True):
    """Sizes of the measurement."""

    repetitions: int = 5
    seconds: float = 3.0
    connections: int = 64


async def measure(sizes: Sizes | None = None) -> list[Figure]:
    """Return both rates and their ratio."""
    sizes = sizes or Sizes()
    ours: list[float] = []
    minimal: list[float] = []
    busy: list[float] = []
    with TemporaryDirectory() as folder:
        async with (
            serving("minimal_servers", "handler") as minimal_port,
            serving("listener_process", str(Path(folder) / "state.db"), _SECRET, _KEY) as our_port,
        ):
            for number in range(-1, sizes.repetitions):
                for port, rates in ((minimal_port, minimal), (our_port, ours)):
                    order = Order(
                        port=port,
                        first_id=(number + 2) * 10_000_000,
                        seconds=sizes.seconds if number >= 0 else sizes.seconds / 3,
                        connections=sizes.connections,
                        secret=_SECRET,
                        signing_key=_KEY,
                    )
                    report = await send_callbacks(order)
                    if number >= 0:  # the first repetition only warms both up
                        rates.append(report.per_second)
                        busy.append(report.busy_share)
    us = Figure(name="ours", values=tuple(ours), unit="/s", better="higher")
    them = Figure(name="minimal handler", values=tuple(minimal), unit="/s", better="higher")
    return [
        us,
        them,
        ratios("ours over minimal", us, them, target=0.5),
        Figure(name="core taken by the sender", values=tuple(busy)),
    ]


if __name__ == "__main__":
    sys.stdout.write(table(TITLE, asyncio.run(measure())))

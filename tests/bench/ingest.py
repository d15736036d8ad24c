"""How many callbacks a second are accepted, beside a handler that only reads the body.

Ours is the listener over the store, as the daemon runs it: the secret and the signature of each
callback are checked, its body is understood, and it is on disk before it is answered. The inbox
grows and is not read, because the other side has no consumer either. The other
side is an aiohttp handler that reads the body and answers. Both serve the same requests over 64
kept connections from one process that uses less of a core than the server (its share is shown),
each in a process of its own, in turns within one run. Each callback names another run.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec import Struct

from tests.bench.figures import Figure, ratios, table
from tests.bench.load import Order
from tests.bench.processes import send_callbacks, serving
from tests.bench.slowed import held_to

TITLE = "Callback ingest, durable and checked"
_SECRET, _KEY = "secret", "key"


class Sizes(Struct, frozen=True, kw_only=True):
    """Sizes of the measurement."""

    repetitions: int = 5
    seconds: float = 2.0
    connections: int = 64
    share: float = 1.0  # of all cores, that each server may use


async def measure(sizes: Sizes | None = None) -> list[Figure]:
    """Return both rates and their ratio."""
    sizes = sizes or Sizes()
    ours: list[float] = []
    theirs: list[float] = []
    busy: list[float] = []
    async with AsyncExitStack() as stack:
        store = str(Path(stack.enter_context(TemporaryDirectory())) / "state.db")
        minimal = await stack.enter_async_context(serving("minimal_servers", "handler"))
        listener = await stack.enter_async_context(
            serving("listener_process", store, _SECRET, _KEY)
        )
        for server in (minimal, listener):
            stack.enter_context(held_to(sizes.share, server.process_id))
        for number in range(-1, sizes.repetitions):
            for server, rates in ((minimal, theirs), (listener, ours)):
                order = Order(
                    port=server.port,
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
    them = Figure(name="minimal handler", values=tuple(theirs), unit="/s", better="higher")
    return [
        us,
        them,
        ratios("ours over minimal", us, them, target=0.55),
        Figure(name="core taken by the sender", values=tuple(busy)),
    ]


if __name__ == "__main__":
    sys.stdout.write(table(TITLE, asyncio.run(measure())))

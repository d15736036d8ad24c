"""The listener for callbacks over the durable store, as a process: the inbox is not read.

``python -m tests.bench.listener_process FILE SECRET SIGNING_KEY`` prints its port and serves until
ended.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from prometheus_client import CollectorRegistry

from monitor import logs
from monitor.bus.sqlite.store import SqliteBus
from monitor.callbacks.listener import CallbackListener
from monitor.callbacks.settings import CallbackSettings, ListenerSettings, SignatureMode
from monitor.model.clock import SystemClock
from monitor.model.secrets import Secret

_INBOX_BOUND = 10_000_000  # it is not read


async def main(path: str, secret: str, signing_key: str) -> None:
    """Accept callbacks until cancelled."""
    logs.configure(level="warning")
    clock, registry = SystemClock(), CollectorRegistry()
    bus = await SqliteBus.open(Path(path), clock=clock, registry=registry)
    settings = CallbackSettings(
        secret=Secret(secret),
        signature=SignatureMode.REQUIRE,
        signing_secret=Secret(signing_key),
        inbox_bound=_INBOX_BOUND,
    )
    listener = CallbackListener(
        settings=ListenerSettings(listen="127.0.0.1:0"),
        workspaces={"acme": settings},
        receive=bus.receive,
        clock=clock,
        registry=registry,
    )
    sys.stdout.write(f"{await listener.start()}\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

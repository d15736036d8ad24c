"""The servers that ours is compared with: they do the least possible.

``python -m tests.bench.minimal_servers handler`` only reads the body; with ``bridge PORT`` it also
publishes the body at QoS 1 and answers when the broker has acknowledged. Neither checks or stores
anything. Each prints its port and serves until it is ended.
"""

from __future__ import annotations

import asyncio
import socket
import sys

import aiomqtt
from aiohttp import web

_CONNECTIONS = 64  # of the sender: so many messages may be on their way at once


async def _read_only(request: web.Request) -> web.Response:
    await request.read()
    return web.Response(status=204)


async def _serve(client: aiomqtt.Client | None) -> None:
    async def publish(request: web.Request) -> web.Response:
        body = await request.read()
        if client is not None:
            await client.publish("minimal/event", body, qos=1)
        return web.Response(status=204)

    app = web.Application()
    app.router.add_post("/hooks/{workspace}", _read_only if client is None else publish)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, backlog=1024).start()
    sys.stdout.write(f"{runner.addresses[0][1]}\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


async def main(what: str, *broker: str) -> None:
    """Serve as a handler or, with a broker's port, as a bridge."""
    if what == "handler":
        await _serve(None)
        return
    no_delay = [(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)]
    async with aiomqtt.Client("127.0.0.1", int(broker[0]), socket_options=no_delay) as client:
        client.pending_calls_threshold = _CONNECTIONS  # aiomqtt warns above it, of what is meant
        await _serve(client)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

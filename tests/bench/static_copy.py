"""A page as files in memory, as a process: ``python -m tests.bench.static_copy FILE``.

The file has a JSON object of `Copy` by path. What a browser may ask for besides is not found.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec
from aiohttp import web
from msgspec import Struct


class Copy(Struct, frozen=True, kw_only=True):
    """One answer, as another server gave it."""

    body: bytes
    headers: dict[str, str]


async def main(copies: Mapping[str, Copy]) -> None:
    """Serve until cancelled."""

    async def serve(request: web.Request) -> web.Response:
        copy = copies.get(request.path_qs)
        if copy is None:
            return web.Response(status=404)
        return web.Response(body=copy.body, headers=copy.headers)

    app = web.Application()
    app.router.add_get("/{path:.*}", serve)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    sys.stdout.write(f"{runner.addresses[0][1]}\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=dict[str, Copy])))

"""What the first view weighs, and when a browser shows it, beside the same bytes as plain files.

One daemon as it is installed, with 300 pipelines. The other side is a process that serves the very
answers of the daemon from memory: page, scripts and styles, with the same headers. A browser with
an empty cache loads both in turns; compared is the time to its first paint of content. The daemon
keeps a rendering until something has changed, for 10 s at most: the load after that renders again.
"""

from __future__ import annotations

import asyncio
import re
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import aiohttp
import msgspec
from msgspec import Struct
from playwright.async_api import Browser

from tests.bench.daemons import REQUESTS_PER_MINUTE, knowing
from tests.bench.figures import Figure, ratios, table
from tests.bench.processes import serving
from tests.bench.static_copy import Copy
from tests.browser.screens import launched, screen

TITLE = "The first view of the page"
_FIRST_ID = 1_000_000
_PARTS = re.compile(r'(?:src|href)="(/static/[^"]+)"')
_FIRST_CONTENT = """() => new Promise((resolve) => new PerformanceObserver((list) => {
  for (const entry of list.getEntriesByName("first-contentful-paint")) resolve(entry.startTime);
}).observe({ type: "paint", buffered: true }))"""


class Sizes(Struct, frozen=True, kw_only=True):
    """Sizes of the measurement."""

    repetitions: int = 9
    requests_per_minute: float = REQUESTS_PER_MINUTE
    pipelines: int = 300
    runs: int = 6_000
    path: str = "/"


async def measure(sizes: Sizes | None = None) -> list[Figure]:
    """Return the bytes of the first view, and both times to first content with their ratio."""
    sizes = sizes or Sizes()
    ours: list[float] = []
    theirs: list[float] = []
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        daemon = await stack.enter_async_context(
            knowing(
                folder / "daemon",
                first_id=_FIRST_ID,
                runs=20,
                flows=sizes.pipelines,
                ended_runs=sizes.runs,
                ended_flows=sizes.pipelines,
                requests_per_minute=sizes.requests_per_minute,
            )
        )
        url = f"http://127.0.0.1:{daemon.server_port}"
        copies = await _copies(url, sizes.path)
        (folder / "copies").write_bytes(msgspec.json.encode(copies))
        copy = await stack.enter_async_context(serving("static_copy", str(folder / "copies")))
        browser = await stack.enter_async_context(launched())
        for number in range(-1, sizes.repetitions):
            for base, times in ((url, ours), (f"http://127.0.0.1:{copy.port}", theirs)):
                milliseconds = await _first_content(browser, base + sizes.path)
                if number >= 0:  # the first repetition only warms up
                    times.append(milliseconds)
    weight = sum(len(copy.body) for copy in copies.values()) / 1e3
    us = Figure(name="ours: first content", values=tuple(ours), unit="ms")
    them = Figure(name="plain files: first content", values=tuple(theirs), unit="ms")
    return [
        Figure(name="bytes, compressed", values=(weight,), unit="kB", target=150),
        Figure(name="files", values=(float(len(copies)),)),
        us,
        them,
        ratios("first content, ours over plain files", us, them, target=1.5),
    ]


async def _copies(url: str, path: str) -> dict[str, Copy]:
    """Return what a browser loads for a page, by path, as it is sent."""
    async with aiohttp.ClientSession(auto_decompress=False) as session:
        page = await _copy(session, url, path, "identity")
        paths = sorted(set(_PARTS.findall(page.body.decode())))
        return {each: await _copy(session, url, each, "gzip") for each in (path, *paths)}


async def _copy(session: aiohttp.ClientSession, url: str, path: str, encoding: str) -> Copy:
    async with session.get(url + path, headers={"Accept-Encoding": encoding}) as answer:
        if answer.status != 200:
            raise RuntimeError(f"{path} answered {answer.status}")
        kept = ("Content-Type", "Content-Encoding", "Content-Security-Policy", "Cache-Control")
        headers = {name: answer.headers[name] for name in kept if name in answer.headers}
        return Copy(body=await answer.read(), headers=headers)


async def _first_content(browser: Browser, url: str) -> float:
    async with screen(browser) as shown:
        await shown.page.goto(url)
        return float(await shown.page.evaluate(_FIRST_CONTENT))


if __name__ == "__main__":
    sys.stdout.write(table(TITLE, asyncio.run(measure())))

"""A real browser, as tests drive it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp

from tests.app.eventually import eventually
from tests.servers import program

_START_SECONDS = 30.0
_ANSWER_SECONDS = 10.0
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--enable-logging=stderr",
    # Its own way to print a page does so before any script had its second to live.
    "--remote-debugging-port=0",
)


class Browser:
    """A browser with one page open. ``console`` is its log about the page."""

    def __init__(self, page: aiohttp.ClientWebSocketResponse, console: list[str]) -> None:
        self._page = page
        self._number = 0
        self.console = console

    async def evaluate(self, expression: str) -> str:
        """Return the value of a JavaScript expression within the page."""
        self._number += 1
        parameters = {"expression": f"String({expression})"}
        await self._page.send_json(
            {"id": self._number, "method": "Runtime.evaluate", "params": parameters}
        )
        async with asyncio.timeout(_ANSWER_SECONDS):
            while (message := await self._page.receive_json()).get("id") != self._number:
                pass
        return str(message["result"]["result"]["value"])

    async def section(self, heading: str) -> str:
        """Return the text of the section of that id, or that a heading names."""
        return await self.evaluate(
            f"document.querySelector('#{heading}, [aria-labelledby={heading}]').innerText"
        )

    async def is_live(self) -> bool:
        return await self.evaluate("document.getElementById('link')?.dataset.state") == "live"

    def logged(self, words: str) -> bool:
        return any(words in line for line in self.console)


@contextlib.asynccontextmanager
async def browser(url: str, profile: Path, *flags: str) -> AsyncIterator[Browser]:
    """Open a page in a browser of its own, which ends with the test."""
    process = await asyncio.create_subprocess_exec(
        program("chromium"),
        *_FLAGS,
        *flags,
        f"--user-data-dir={profile}",
        url,
        stdout=DEVNULL,
        stderr=PIPE,
        start_new_session=True,
    )
    lines: list[str] = []
    address: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    reading = asyncio.create_task(_read(process, lines, address))
    try:
        async with asyncio.timeout(_START_SECONDS):
            debugger = await address
        async with aiohttp.ClientSession() as session:
            pages: list[str] = []

            async def has_page() -> bool:
                async with session.get(f"http://{debugger}/json/list") as answer:
                    targets = [target for target in await answer.json() if target["type"] == "page"]
                pages.extend(target["webSocketDebuggerUrl"] for target in targets)
                return bool(pages)

            await eventually(has_page, why="the browser has opened no page")
            async with session.ws_connect(pages[0]) as page:
                yield Browser(page, lines)
    finally:
        # The whole group: a browser is many processes, and all of them are ours.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
        await reading


async def _read(process: Process, console: list[str], address: asyncio.Future[str]) -> None:
    """Collect the log of the browser about the page, and find its debugging address."""
    assert process.stderr is not None
    async for raw in process.stderr:
        line = raw.decode(errors="replace").rstrip()
        listening = re.search(r"DevTools listening on ws://([^/]+)/", line)
        if listening is not None and not address.done():
            address.set_result(listening[1])
        if ":CONSOLE" in line:
            console.append(line)

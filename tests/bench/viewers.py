"""People who keep a page open, as a process: ``python -m tests.bench.viewers URL NUMBER``.

Each viewer does what the page's script does in a browser: it loads the page, listens to the live
stream, and asks for the page again after a report, one request at a time, with the entity tag of
what it has. Prints ``ready`` when all of them have the page and listen, and how much they asked for
when its input ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass

import aiohttp
import msgspec
from msgspec import Struct

from tests.bench.processes import END_SECONDS, START_SECONDS, ended

_HEADERS = {"Accept-Encoding": "gzip"}


class Watched(Struct, frozen=True):
    """What all viewers together asked for after they had the page."""

    requests: int
    unchanged: int
    body_bytes: int


@dataclass
class _Viewer:
    """A page that is open."""

    url: str
    tag: str = ""
    requests: int = 0
    unchanged: int = 0
    body_bytes: int = 0

    async def watch(self, is_ready: asyncio.Event) -> None:
        timeout = aiohttp.ClientTimeout(total=None)
        async with aiohttp.ClientSession(timeout=timeout, auto_decompress=False) as session:
            await self._ask(session, {})
            self.requests = self.unchanged = self.body_bytes = 0
            base = self.url[: self.url.index("/", len("http://"))]
            async with session.get(f"{base}/live") as stream:
                async for line in stream.content:
                    if line.startswith(b"data:"):
                        await self._ask(session, {"HX-Request": "true"})
                        is_ready.set()

    async def _ask(self, session: aiohttp.ClientSession, more: dict[str, str]) -> None:
        headers = {**_HEADERS, **more}
        if self.tag and more:
            headers["If-None-Match"] = self.tag
        async with session.get(self.url, headers=headers) as answer:
            if answer.status not in (200, 304):
                raise RuntimeError(f"{self.url} answered {answer.status}")
            self.body_bytes += len(await answer.read())
            self.requests += 1
            self.unchanged += answer.status == 304
            self.tag = answer.headers["ETag"] if more else ""


class Viewers:
    """The process of viewers."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def leave(self) -> Watched:
        """Let all of them close the page, and return what they asked for."""
        async with asyncio.timeout(END_SECONDS):
            out, _ = await self._process.communicate(b"")  # closes its input
        return msgspec.json.decode(out, type=Watched)


@contextlib.asynccontextmanager
async def viewing(url: str, number: int) -> AsyncIterator[Viewers]:
    """Let so many people keep a page open; yield once all of them have it."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.bench.viewers", url, str(number)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(START_SECONDS):
            if await process.stdout.readline() != b"ready\n":
                raise RuntimeError("the viewers cannot see the page")
        yield Viewers(process)
    finally:
        await ended(process)


async def main(url: str, number: str) -> None:
    """View until the input ends."""
    viewers = [_Viewer(url) for _ in range(int(number))]
    loop = asyncio.get_running_loop()
    async with asyncio.TaskGroup() as group:
        ready = [asyncio.Event() for _ in viewers]
        tasks = [
            group.create_task(viewer.watch(event), name="viewer")
            for viewer, event in zip(viewers, ready, strict=True)
        ]
        await asyncio.gather(*(event.wait() for event in ready))
        _print("ready")
        await loop.run_in_executor(None, sys.stdin.read)
        for task in tasks:
            task.cancel()
    watched = Watched(
        requests=sum(viewer.requests for viewer in viewers),
        unchanged=sum(viewer.unchanged for viewer in viewers),
        body_bytes=sum(viewer.body_bytes for viewer in viewers),
    )
    _print(msgspec.json.encode(watched).decode())


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

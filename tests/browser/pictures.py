"""Takes the pictures of README from the demo, in light and dark: ``make pictures``.

Waits until the demo's three alerts fire, which takes three minutes, so that the pictures show what
the text beside them says.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from asyncio.subprocess import DEVNULL
from collections.abc import AsyncIterator
from pathlib import Path

from playwright.async_api import Browser

from tests.app.daemon_http import Face
from tests.app.eventually import eventually
from tests.browser.screens import launched, screen
from tests.browser.views import LIVE
from tests.servers import free_port

_FOLDER = Path(__file__).parent.parent / "pictures"
_ALERTS = 3
_ALERT_SECONDS = 300.0
_END_SECONDS = 30.0
# Each picture: its name, the path that is opened, and how much of it is shown.
_PICTURES = (("overview", "/", (1280, 1240)),)
_LARGEST_BYTES = 250_000


async def main() -> None:
    """Take all pictures."""
    async with _demo() as face, launched() as browser:
        sys.stdout.write("==> waiting for the three alerts of the demo\n")
        await eventually(
            lambda: _has_alerts(face), why="too few alerts", within_seconds=_ALERT_SECONDS
        )
        for name, path, size in _PICTURES:
            for scheme, ending in (("light", ""), ("dark", "-dark")):
                file = _FOLDER / f"{name}{ending}.png"
                await _take(browser, face.url + path, file, size, scheme)


@contextlib.asynccontextmanager
async def _demo() -> AsyncIterator[Face]:
    port = free_port()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "monitor.cli.main", "demo", "--port", str(port), "--no-events"),
        stdout=DEVNULL,
    )
    try:
        face = Face(port)
        await eventually(face.answers, why="the demo does not start")
        yield face
    finally:
        process.terminate()
        async with asyncio.timeout(_END_SECONDS):
            await process.wait()


async def _has_alerts(face: Face) -> bool:
    alerts = (await face.json("/api/v1/alerts"))["data"]
    firing = [alert for alert in alerts if alert["state"] == "firing"]
    return len(firing) >= _ALERTS and all(alert["notified_at"] for alert in firing)


async def _take(browser: Browser, url: str, file: Path, size: tuple[int, int], scheme: str) -> None:
    width, height = size
    async with screen(browser, width=width, color_scheme=scheme, locale="en-GB") as shown:
        await shown.page.set_viewport_size({"width": width, "height": height})
        await shown.page.goto(url)
        await shown.until(LIVE)
        picture = await shown.page.screenshot(path=file)
    if len(picture) > _LARGEST_BYTES:
        raise RuntimeError(f"{file.name} has {len(picture)} bytes; at most {_LARGEST_BYTES:,}")
    sys.stdout.write(f"==> {file.name}: {len(picture):,} bytes\n")


if __name__ == "__main__":
    asyncio.run(main())

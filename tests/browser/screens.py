"""Pages in a real browser, and what people, axe-core and the console say about them."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from importlib import resources
from typing import Any

from playwright.async_api import Browser, Page, Playwright, async_playwright

from tests.servers import program

PHONE, TABLET, DESKTOP, WIDE = 390, 1024, 1280, 1920
_LIMIT_MS = 60_000  # on a slow machine that does something else
_FLAGS = (
    "--no-sandbox",
    "--disable-quic",
    # Names of others, whose DNS leads to this machine.
    "--host-resolver-rules=MAP *.example 127.0.0.1",
)
_LEVELS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
_AXE = (resources.files("axe_playwright_python") / "axe.min.js").read_text()
_RUN_AXE = """async (options) => (await axe.run(options)).violations.flatMap((violation) =>
    violation.nodes.map((node) => `${violation.id}: ${node.target}: ${node.failureSummary}`))"""
# What sticks out of the window to the right, unless it stands in something that scrolls. What is
# folded is unfolded: a browser does not lay it out again when the window changes.
_STICKING_OUT = """() => {
  for (const folded of document.querySelectorAll("details")) folded.open = true;
  const width = document.documentElement.clientWidth;
  const scrolls = (element) => {
    for (let parent = element.parentElement; parent; parent = parent.parentElement) {
      if (getComputedStyle(parent).overflowX !== "visible") return true;
    }
    return false;
  };
  return [...document.querySelectorAll("body *")]
    .filter((element) => element.getBoundingClientRect().right > width + 1 && !scrolls(element))
    .map((element) => `${element.tagName} ${element.id} ${element.className}: from`
      + ` ${element.getBoundingClientRect().left} to ${element.getBoundingClientRect().right}`
      + ` in ${width}`);
}"""
# The frame after a resize, in which what observes sizes has answered to it.
_NEXT_FRAME = """() => new Promise((next) =>
    requestAnimationFrame(() => requestAnimationFrame(() => next())))"""


@contextlib.asynccontextmanager
async def launched() -> AsyncIterator[Browser]:
    """Yield a browser of the system, without a window."""
    playwright: Playwright
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=program("chromium"), args=list(_FLAGS)
        )
        try:
            yield browser
        finally:
            await browser.close()


class Screen:
    """A page that is open. ``console`` has what the browser complains about."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.console: list[str] = []
        page.on("console", lambda line: self._log(line.type, line.text))
        page.on("pageerror", lambda error: self._log("error", str(error)))

    def _log(self, level: str, text: str) -> None:
        if level in ("error", "warning"):
            self.console.append(text)

    async def violations(self, *rules: str) -> list[str]:
        """Return what axe-core finds wrong by WCAG 2.2 AA, or by these of its rules alone."""
        if not await self.page.evaluate("() => 'axe' in window"):
            await self.page.evaluate(_AXE)
        chosen: dict[str, Any] = {"type": "tag", "values": _LEVELS}
        if rules:
            chosen = {"type": "rule", "values": list(rules)}
        options = {"runOnly": chosen, "resultTypes": ["violations"]}
        return list(await self.page.evaluate(_RUN_AXE, options))

    async def sticking_out(self) -> list[str]:
        """Return what stands outside of the window, and the page itself if it scrolls sideways."""
        wide = "() => document.documentElement.scrollWidth > document.documentElement.clientWidth"
        elements = list(await self.page.evaluate(_STICKING_OUT))
        return [*elements, "the page"] if await self.page.evaluate(wide) else elements

    async def told(self, promise: str) -> str:
        """Return what a promise of the page comes to, or the name of its error."""
        return str(await self.page.evaluate(f"{promise}.then(String, (error) => error.name)"))

    async def resize(self, width: int) -> None:
        await self.page.set_viewport_size({"width": width, "height": 900})
        await self.page.evaluate(_NEXT_FRAME)

    async def until(self, condition: str, *, argument: object = None) -> None:
        """Return when a JavaScript expression holds; ``argument`` is known to it as such."""
        script = f"(argument) => Boolean({condition})"
        await self.page.wait_for_function(script, arg=argument)

    async def until_text(self, words: str) -> None:
        """Return when the page shows these words."""
        await self.until(f"document.body.innerText.includes({json.dumps(words)})")


@contextlib.asynccontextmanager
async def screen(
    browser: Browser, *, width: int = DESKTOP, **options: Any
) -> AsyncIterator[Screen]:
    """Yield an empty page with cookies and a cache of its own."""
    options = {"viewport": {"width": width, "height": 900}, "reduced_motion": "reduce", **options}
    context = await browser.new_context(**options)
    context.set_default_timeout(_LIMIT_MS)
    try:
        yield Screen(await context.new_page())
    finally:
        await context.close()

"""The page as a real browser shows it."""

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
from aiohttp import web

from monitor.sandbox.engine.engine import Order, Outcome
from monitor.sandbox.sandbox import Sandbox
from tests.app import stage
from tests.app.daemon_http import Face
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
        """Return the text of the section that a heading names."""
        return await self.evaluate(
            f"document.querySelector('[aria-labelledby={heading}]').innerText"
        )

    async def is_live(self) -> bool:
        return (await self.evaluate("document.getElementById('link')?.innerText")).startswith(
            "live, "
        )

    def logged(self, words: str) -> bool:
        return any(words in line for line in self.console)


@contextlib.asynccontextmanager
async def browser(url: str, profile: Path) -> AsyncIterator[Browser]:
    """Open a page in a browser of its own, which ends with the test."""
    process = await asyncio.create_subprocess_exec(
        program("chromium"),
        *_FLAGS,
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


async def _is_listed(face: Face, run_id: str, status: str) -> bool:
    rows = (await face.json("/api/v1/runs"))["data"]
    return any((row["id"], row["status"]) == (run_id, status) for row in rows)


async def _has_steps(page: Browser) -> bool:
    return await page.evaluate("document.getElementById('steps') !== null") == "true"


def _start(workspace: Sandbox, outcome: Outcome) -> str:
    world = workspace.world
    recipe = next(recipe for recipe in world.recipes.live() if world.outputs_of(recipe.id))
    workspace.engine.order(Order(outcome=outcome, work_seconds=1, queue_seconds=1))
    return str(workspace.engine.start_job_group(recipe, by=recipe.creator_id).id)


async def test_a_browser_shows_a_living_page(tmp_path: Path) -> None:
    """Alerts, workspace, active and ended runs stand there; scripts live, nothing is blocked."""
    workspace = stage.sandbox()
    async with stage.started(workspace) as url:
        settings = stage.configuration(tmp_path, stage.workspace_configuration(workspace, url))
        async with stage.daemon(settings) as face:
            await eventually(lambda: face.is_following("acme"), why="not followed")
            active, ended = _start(workspace, Outcome.HANG), _start(workspace, Outcome.FAILED)
            await eventually(lambda: _is_listed(face, active, "running"), why="not running")
            await eventually(lambda: _is_listed(face, ended, "failed"), why="not ended")
            async with browser(face.url, tmp_path / "profile") as page:
                await eventually(page.is_live, why=lambda: f"not live: {page.console}")
                workspaces = await page.section("workspaces")
                running, recent = await page.section("active"), await page.section("recent")
                alerts = await page.section("alerts")
                assert page.console == []
            question = f"{face.url}/explain?run=acme/job_group/{ended}"
            async with browser(question, tmp_path / "another") as page:
                await eventually(lambda: _has_steps(page), why="nothing is explained")
                steps = await page.section("steps")
                assert page.console == []
    assert "acme reachable" in workspaces
    assert f"job group {active}" in running
    assert f"job group {ended}" in recent
    assert (ended in running, active in recent) == (False, False)
    assert "run_failed" in alerts
    assert "condition not met" in steps


async def test_a_browser_logs_what_a_policy_blocks(tmp_path: Path) -> None:
    """The console would not be silent about a blocked script, so its silence means something."""

    async def page(_: web.Request) -> web.Response:
        text = "<script>document.title = 'inline'</script>"
        policy = {"Content-Security-Policy": "default-src 'self'"}
        return web.Response(text=text, content_type="text/html", headers=policy)

    app = web.Application()
    app.router.add_get("/{path:.*}", page)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        async with browser(url, tmp_path / "profile") as opened:
            await eventually(
                lambda: opened.logged("Content Security Policy"), why="nothing was logged"
            )
            assert await opened.evaluate("document.title") != "inline"
    finally:
        await runner.cleanup()

"""The page as a real browser shows it."""

from __future__ import annotations

from pathlib import Path

from aiohttp import web

from monitor.sandbox.running.engine import Order, Outcome
from monitor.sandbox.sandbox import Sandbox
from tests.app import stage
from tests.app.daemon_http import Face
from tests.app.eventually import eventually
from tests.web.browser import Browser, browser


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
    """Alerts, active runs and pipelines stand there; scripts live, nothing is blocked."""
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
                running = await page.section("running")
                alerts = await page.section("attention")
                pipelines = await page.section("pipelines")
                assert page.console == []
            question = f"{face.url}/explain?run=acme/job_group/{ended}"
            async with browser(question, tmp_path / "another") as page:
                await eventually(lambda: _has_steps(page), why="nothing is explained")
                steps = await page.section("steps")
                assert page.console == []
    assert f"job group {active}" in running
    assert ended not in running
    assert f"job group {ended}" in alerts
    assert "failing" in pipelines
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

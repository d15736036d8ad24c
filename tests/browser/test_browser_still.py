"""A page of a busy workspace holds still: no click hits a row that has just moved there."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, Locator, Route

from monitor.model.clock import SystemClock
from monitor.sandbox.running.engine import Outcome
from monitor.sandbox.sandbox import Sandbox
from monitor.sandbox.settings import SandboxSettings, TrafficSettings, WorkSettings
from tests.app import fixture
from tests.app.daemon_http import Face
from tests.app.eventually import eventually, pause
from tests.browser.living_workspace import LivingWorkspace, settings_of
from tests.browser.screens import DESKTOP, Screen, screen
from tests.browser.views import LIVE

pytestmark = pytest.mark.asyncio(loop_scope="session")

_GOOD = 0.1  # the most that the browser's maker calls good; here of all shifts together
# Chromium's own figure. What people cause by a click or a key does not count.
_SHIFTS = """(() => {
  window.shifts = [];
  new PerformanceObserver((list) => {
    for (const shift of list.getEntries()) {
      if (!shift.hadRecentInput) window.shifts.push([shift.value, ...shift.sources.map(({ node }) =>
        node?.closest?.("[id]")?.id ?? node?.parentElement?.closest("[id]")?.id ?? "gone")]);
    }
  }).observe({ type: "layout-shift", buffered: true });
  window.changes = 0;
  document.addEventListener("htmx:afterSettle", () => { window.changes += 1; });
})()"""
_FIRST = "#runs tbody tr"
_TRAFFIC = TrafficSettings(
    flow_runs_per_hour=40, plan_runs_per_hour=20, job_groups_per_hour=60, samples_per_hour=0
)


@contextlib.asynccontextmanager
async def busy_daemon(folder: Path, *, flows: int = 300) -> AsyncIterator[Face]:
    """Yield a daemon of a workspace in which some run begins or ends each second."""
    sandbox = Sandbox(
        SandboxSettings(flows=flows, traffic=_TRAFFIC, work=WorkSettings(speed=60)), SystemClock()
    )
    async with (
        fixture.started(sandbox) as url,
        fixture.daemon(settings_of(folder, {"acme": (sandbox, url)})) as face,
    ):
        await eventually(lambda: face.is_following("acme"), why="not followed")
        yield face


async def opened(shown: Screen, url: str) -> None:
    """Open a page that counts how far what it shows has moved."""
    await shown.page.add_init_script(_SHIFTS)
    await shown.page.goto(url)
    await shown.until(LIVE)


async def shifts(shown: Screen) -> list[list[Any]]:
    """Return each shift: its figure, and the ids of what has moved."""
    return list(await shown.page.evaluate("() => window.shifts"))


def end(living: LivingWorkspace, run_id: str) -> None:
    """Let a job group be over without an alert that fires or is resolved."""
    job_group = living.sandbox.world.job_groups.get(int(run_id))
    assert job_group is not None
    living.sandbox.engine.cancel_job_group(job_group)


async def top(row: Locator) -> float:
    """Return where a row begins in the window."""
    box = await row.bounding_box()
    assert box is not None
    return box["y"]


def figure(found: list[list[Any]]) -> float:
    return float(sum(value for value, *_ in found))


class Changes:
    """Answers each request of an open page with other rows of what runs: 0 to 4 new ones on top."""

    def __init__(self) -> None:
        self.count = 0

    async def answer(self, route: Route) -> None:
        if "hx-request" not in route.request.headers:
            await route.continue_()
            return
        self.count += 1
        response = await route.fetch()
        before, running, after = (await response.text()).partition('id="running"')
        new = range(7 * self.count % 5)
        rows = "".join(f'<tr id="running-new-{number}"><td>new</td></tr>' for number in new)
        body = before + running + after.replace("<tbody>", f"<tbody>{rows}", 1)
        await route.fulfill(response=response, body=body)


async def test_rows_come_and_go_and_nothing_moves(
    living: LivingWorkspace, browser: Browser
) -> None:
    """Of fifteen changes at once, in which a list grows and shrinks, the boxes below see none."""
    async with screen(browser, viewport={"width": DESKTOP, "height": 1400}) as shown:
        changes = Changes()
        await shown.page.route("**/?groups=1", changes.answer)
        await opened(shown, living.url("/?groups=1"))
        for _ in range(15):
            seen = await shown.page.evaluate("() => window.changes")
            await shown.page.evaluate("() => htmx.trigger('#main', 'sse:changed')")
            await shown.until("window.changes > argument", argument=seen)
        found = await shifts(shown)
        assert changes.count >= 15
        assert figure(found) < _GOOD, found
        assert shown.console == []


async def test_new_rows_wait_while_a_pointer_is_in_their_list(
    living: LivingWorkspace, browser: Browser
) -> None:
    """The row under the pointer stays there; a button says how many wait, and shows them."""
    async with screen(browser) as shown:
        await opened(shown, living.url("/runs"))
        row = shown.page.locator(_FIRST).first
        await row.hover()
        before, place = await row.get_attribute("id"), await top(row)
        run_id = living.start(Outcome.HANG, number=25)
        button = shown.page.get_by_role("button", name="new, show")
        await button.wait_for()
        assert await row.get_attribute("id") == before
        assert await top(row) == pytest.approx(place, abs=2)
        assert await shown.violations() == []

        await button.click()
        await shown.page.locator(f"#run-acme-job_group-{run_id}").wait_for()
        assert await button.count() == 0
        assert await row.get_attribute("id") != before
        assert shown.console == []


async def test_a_row_that_has_gone_keeps_its_place(
    living: LivingWorkspace, browser: Browser
) -> None:
    """Where a pointer is in a list, a run that has ended stays in it, struck through."""
    async with screen(browser) as shown:
        run_id = living.start(Outcome.HANG, number=26)
        await eventually(lambda: living.shows(run_id, "running"), why="no new run")
        row = shown.page.locator(f"#running-acme-job_group-{run_id}")

        async def is_shown() -> bool:  # what was rendered before may be shown for a moment
            await opened(shown, living.url("/?runs=200"))
            return await row.count() == 1

        await eventually(is_shown, why="the page does not show the run")
        await row.hover()
        place = await top(row)
        end(living, run_id)
        await shown.until(
            "document.getElementById(argument)?.classList.contains('past')",
            argument=f"running-acme-job_group-{run_id}",
        )
        assert await top(row) == pytest.approx(place, abs=2)


@pytest.mark.soak
@pytest.mark.parametrize("path", ["/", "/runs", "/alerts"])
async def test_a_busy_page_holds_still(browser: Browser, tmp_path: Path, path: str) -> None:
    """Ten minutes of a workspace in which everything goes on move less than is called good."""
    async with busy_daemon(tmp_path) as face, screen(browser) as shown:
        await opened(shown, face.url + path)
        await pause(600)
        found = await shifts(shown)
        assert await shown.page.evaluate("() => window.changes") > 100
        assert figure(found) < _GOOD, found

"""A page that stays open: it follows what happens, keeps what people do there, and says so."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.async_api import Browser

from monitor.sandbox.running.engine import Outcome
from tests.app import fixture
from tests.app.eventually import eventually
from tests.browser.living_workspace import LivingWorkspace, settings_of, workspace_of
from tests.browser.screens import DESKTOP, Screen, screen
from tests.browser.views import LIVE, VIEWS
from tests.servers import free_port

pytestmark = pytest.mark.asyncio(loop_scope="session")

PAGE = next(iter(VIEWS))
_SENTENCE = "document.querySelector('#status .sentence').firstChild.data"
# Lets a page believe that its tab is in the background, and counts its live links.
_HIDDEN_AT_WILL = """(() => {
  const links = [];
  const Link = window.EventSource;
  window.EventSource = class extends Link {
    constructor(...options) { super(...options); links.push(this); }
  };
  window.links = () => links;
  window.openLinks = () => links.filter((link) => link.readyState === Link.OPEN).length;
  window.hide = (isHidden) => {
    Object.defineProperty(document, "hidden", { value: isHidden, configurable: true });
    document.dispatchEvent(new Event("visibilitychange"));
  };
})()"""
_LINK = "document.getElementById('link')"
_LOW = {"width": DESKTOP, "height": 400}
_PLACE = "document.getElementById('running-title').getBoundingClientRect().top"
_FIELD = "document.activeElement.getBoundingClientRect().top"


async def _sentence(living: LivingWorkspace) -> str:
    return str((await living.face.json("/api/v1/status"))["sentence"])


async def _start_another(living: LivingWorkspace, number: int) -> None:
    """Let one more run go on, and return when the daemon knows it."""
    run_id = living.start(Outcome.HANG, number=number)
    await eventually(lambda: living.shows(run_id, "running"), why="the daemon saw no new run")


async def _until_shown(living: LivingWorkspace, shown: Screen) -> None:
    """Return when the page says what the daemon says now."""

    async def is_shown() -> bool:
        return bool(await shown.page.evaluate(f"() => {_SENTENCE}") == await _sentence(living))

    await eventually(is_shown, why="the page shows what was")


async def _opened(living: LivingWorkspace, shown: Screen, path: str = PAGE) -> None:
    await shown.page.goto(living.face.url + path)
    await shown.until(LIVE)


async def test_a_change_appears_without_a_reload(living: LivingWorkspace, browser: Browser) -> None:
    """A run that starts is in the sentence of the page that was open before."""
    async with screen(browser) as shown:
        await _opened(living, shown)
        await shown.page.evaluate("() => { window.isTheSame = true; }")
        await _start_another(living, 10)
        await _until_shown(living, shown)
        assert await shown.page.evaluate("() => window.isTheSame")
        assert shown.console == []


async def test_work_of_people_on_a_page_stays(living: LivingWorkspace, browser: Browser) -> None:
    """A change leaves the focus, what was typed, what is selected, and what is in view."""
    async with screen(browser, viewport=_LOW) as shown:
        await _opened(living, shown)
        search = shown.page.get_by_role("searchbox")
        await search.fill("sales")
        owner = shown.page.get_by_label("Folder")
        await owner.focus()
        await shown.page.keyboard.type("Mar")
        await shown.page.evaluate("() => document.getElementById('running-title').scrollIntoView()")
        place = await shown.page.evaluate(f"() => {_PLACE}")
        assert await shown.page.evaluate(f"() => {_FIELD} > window.innerHeight")
        await _start_another(living, 12)
        await _until_shown(living, shown)
        assert await shown.page.evaluate("() => document.activeElement.name") == "folder"
        assert (await search.input_value(), await owner.input_value()) == ("sales", "Mar")
        # Not scrollY: alerts above come and go, and the browser scrolls by as much as they take.
        assert await shown.page.evaluate(f"() => {_PLACE}") == pytest.approx(place, abs=1)

        heading = "document.getElementById('pipelines-title')"
        await shown.page.evaluate(f"() => getSelection().selectAllChildren({heading})")
        selected = await shown.page.evaluate("() => String(getSelection())")
        await _start_another(living, 13)
        await _until_shown(living, shown)
        assert selected.startswith("Pipelines")
        assert await shown.page.evaluate("() => String(getSelection())") == selected


async def test_a_paused_page_stands_still(living: LivingWorkspace, browser: Browser) -> None:
    """Paused, a page ignores what another shows at once; resumed, it shows it too."""
    async with screen(browser) as shown, screen(browser) as another:
        await _opened(living, shown)
        await _opened(living, another)
        await shown.page.get_by_role("button", name="Pause").click()
        await shown.until_text("Paused at")
        before = await shown.page.evaluate(f"() => {_SENTENCE}")
        await _start_another(living, 11)
        await _until_shown(living, another)
        assert await shown.page.evaluate(f"() => {_SENTENCE}") == before
        assert "Paused at" in await shown.page.locator("#link").inner_text()

        await shown.page.get_by_role("button", name="Resume").click()
        await _until_shown(living, shown)
        await shown.until(LIVE)


async def test_a_hidden_page_holds_no_connection(living: LivingWorkspace, browser: Browser) -> None:
    """Of many tabs only those in sight are live: a browser opens six connections to a server."""
    async with screen(browser) as shown:
        await shown.page.clock.install()
        await shown.page.add_init_script(_HIDDEN_AT_WILL)
        await _opened(living, shown)
        await shown.page.evaluate("() => window.hide(true)")
        await shown.page.clock.fast_forward(60_000)
        assert await shown.page.evaluate("() => window.openLinks()") == 0
        await _start_another(living, 14)
        await shown.page.evaluate("() => window.hide(false)")
        await shown.page.clock.fast_forward(2_000)
        await shown.until("window.openLinks() === 1")
        await shown.until(LIVE)
        await _until_shown(living, shown)


async def test_a_page_in_the_background_keeps_its_title(
    living: LivingWorkspace, browser: Browser
) -> None:
    """Of a tab in the background people see title and icon: they follow without a live link."""
    async with screen(browser) as shown:
        await shown.page.clock.install()
        await shown.page.add_init_script(_HIDDEN_AT_WILL)
        await _opened(living, shown)
        await shown.page.evaluate("() => window.hide(true)")
        await shown.page.evaluate("() => { document.title = 'old \u00b7 Overview \u00b7 here'; }")

        async def follows() -> bool:
            # Other tests start runs meanwhile: the title is compared with what is said now.
            await shown.page.clock.fast_forward(35_000)
            short = (await living.face.json("/api/v1/status"))["short"]
            return await shown.page.title() == f"{short} \u00b7 Overview \u00b7 here"

        await eventually(follows, why="the title is that of before")
        assert await shown.page.evaluate("() => window.openLinks()") == 0


async def test_a_silent_link_is_opened_again(living: LivingWorkspace, browser: Browser) -> None:
    """A daemon that is frozen, or a network that is gone, closes no link: silence says so."""
    async with screen(browser) as shown:
        await shown.page.clock.install()
        await shown.page.add_init_script(_HIDDEN_AT_WILL)
        await _opened(living, shown)
        await shown.page.evaluate("() => { window.first = window.links()[0]; }")
        await shown.page.clock.fast_forward(40_000)
        await shown.until("window.first.readyState === EventSource.CLOSED")
        await shown.page.clock.run_for(2_000)
        await shown.until("window.openLinks() === 1")
        await shown.until(LIVE)


async def test_a_page_outlives_its_daemon(browser: Browser, tmp_path: Path) -> None:
    """The daemon goes: a red banner says so. It comes back: the page is live, not reloaded."""
    sandbox = workspace_of(flows=3, past=None)
    port = free_port()
    async with fixture.started(sandbox) as url, screen(browser) as shown:
        settings = settings_of(tmp_path, {"acme": (sandbox, url)}, port=port)
        async with fixture.daemon(settings) as face:
            await shown.page.goto(face.url + PAGE)
            await shown.until(LIVE)
            await shown.page.evaluate("() => { window.isTheSame = true; }")
        await shown.until("!document.getElementById('gone').hidden")
        banner = await shown.page.get_by_role("alert").inner_text()
        state = await shown.page.evaluate(f"() => {_LINK}.dataset.state")
        assert "The daemon does not answer. What you see is from " in banner
        assert state == "lost"
        async with fixture.daemon(settings):
            await shown.until(LIVE)
            await shown.until("document.getElementById('gone').hidden")
            assert await shown.page.evaluate("() => window.isTheSame")


async def test_a_page_without_script_refreshes_itself(
    living: LivingWorkspace, browser: Browser
) -> None:
    """Without JavaScript the same is shown, loaded again every 30 s, which the page says."""
    async with screen(browser, java_script_enabled=False) as shown:
        await shown.page.goto(living.face.url + PAGE)
        refresh = shown.page.locator("meta[http-equiv=refresh]")
        assert await refresh.get_attribute("content") == "30"
        assert "Refreshed every 30 s" in await shown.page.locator(".top").inner_text()
        assert "running" in await shown.page.locator("#status").inner_text()
        assert await shown.page.get_by_role("button", name="Pause").count() == 0

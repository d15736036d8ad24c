"""Every page in a real browser: nothing is blocked, nothing sticks out, everybody can use it."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.async_api import Browser

from monitor.web.settings import ServerSettings
from tests.browser.living_workspace import LivingWorkspace
from tests.browser.screens import PHONE, TABLET, WIDE, screen
from tests.browser.views import LIVE, VIEWS
from tests.web.serving import serving

pytestmark = pytest.mark.asyncio(loop_scope="session")

_STOPS = 40  # of the key Tab; a page may have hundreds
# What can be acted upon, in the order in which Tab goes through it.
_REACHABLE = """() => [...document.querySelectorAll(
    "a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex]")]
  .filter((element) => element.checkVisibility({ visibilityProperty: true }) && !element.disabled
    && element.tabIndex >= 0)
  .map((element) => element.outerHTML.slice(0, 200))"""
_FOCUSED = """() => {
  const element = document.activeElement;
  const style = getComputedStyle(element);
  const seen = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2;
  const box = element.getBoundingClientRect();
  return [element.outerHTML.slice(0, 200), seen && box.width > 0 && box.left >= 0];
}"""
# What looks as if a mouse could act upon it, and no key can. A run in a drawing stands beside a
# link that leads to all of them.
_MOUSE_ONLY = """() => [...document.querySelectorAll(
    `a:not([href]), [onclick], [role=button]:not(button),
    [tabindex]:not([tabindex='0'], #main, svg a)`)]
  .map((element) => element.outerHTML.slice(0, 200))"""
_TABLES_OF_ROWS = """() => [...document.querySelectorAll("table")]
  .filter((table) => getComputedStyle(table).display === "table" && !table.closest(".scroll"))
  .map((table) => table.outerHTML.slice(0, 200))"""


async def test_every_page_is_tested_here(tmp_path: Path) -> None:
    """A page that is registered and stands in no test of this room fails this one."""
    async with serving(tmp_path, ServerSettings(listen="127.0.0.1:0")) as site:
        assert {page.path for page in site.server._views.pages} == VIEWS.keys()


@pytest.mark.parametrize("path", VIEWS)
async def test_a_page_opens_without_complaint(
    living: LivingWorkspace, browser: Browser, path: str
) -> None:
    """The console is silent, no box fails, and axe-core finds nothing in light, dark and phone."""
    async with screen(browser, color_scheme="light") as shown:
        answer = await shown.page.goto(living.url(VIEWS[path]))
        await shown.until(LIVE)
        assert answer is not None
        assert answer.status == 200
        assert await shown.page.locator(".failed-box").all_inner_texts() == []
        assert await shown.page.locator("h1").count() == 1
        assert await shown.violations() == []
        for width in (TABLET, WIDE):
            await shown.resize(width)
            assert await shown.sticking_out() == []
        await shown.page.emulate_media(color_scheme="dark")
        assert await shown.violations("color-contrast") == []
        await shown.resize(PHONE)
        assert await shown.sticking_out() == []
        assert await shown.page.evaluate(_TABLES_OF_ROWS) == []  # on a phone they are cards
        assert await shown.violations() == []
        assert shown.console == []


@pytest.mark.parametrize("path", VIEWS)
async def test_a_page_is_used_without_a_mouse(
    living: LivingWorkspace, browser: Browser, path: str
) -> None:
    """Tab goes through all that can be acted upon, in its order, each with a visible focus."""
    async with screen(browser) as shown:
        await shown.page.goto(living.url(VIEWS[path]))
        await shown.until(LIVE)
        await shown.page.get_by_role("button", name="Pause").click()  # so that nothing moves
        await shown.page.evaluate("() => document.activeElement.blur()")
        assert await shown.page.evaluate(_MOUSE_ONLY) == []
        expected = (await shown.page.evaluate(_REACHABLE))[:_STOPS]
        await shown.page.mouse.click(1, 1)  # Tab begins at the top again
        reached = []
        for _ in expected:
            await shown.page.keyboard.press("Tab")
            reached.append(await shown.page.evaluate(_FOCUSED))
        assert reached == [[element, True] for element in expected]


async def test_a_key_skips_the_menu(living: LivingWorkspace, browser: Browser) -> None:
    """The first stop leads into the content: the next one is behind the menu."""
    async with screen(browser) as shown:
        await shown.page.goto(living.url(next(iter(VIEWS))))
        await shown.page.keyboard.press("Tab")
        assert await shown.page.evaluate("() => document.activeElement.innerText") == (
            "Skip to content"
        )
        await shown.page.keyboard.press("Enter")
        assert await shown.page.evaluate("() => document.activeElement.id") == "main"


@pytest.mark.parametrize("path", VIEWS)
async def test_names_that_harm_are_shown_as_text(
    living: LivingWorkspace, browser: Browser, path: str
) -> None:
    """Markup, controls, right-to-left text and 5,000 characters do nothing, and break nothing."""
    async with screen(browser) as shown:
        await shown.page.goto(living.url(VIEWS[path], living.hostile_ids))
        await shown.until(LIVE)
        for width in (PHONE, TABLET, WIDE):
            await shown.resize(width)
            assert await shown.sticking_out() == []
        assert await shown.page.locator("main :is(script, iframe, [onerror])").count() == 0
        assert await shown.page.get_by_role("heading", name="owned", exact=True).count() == 0
        assert "owned" not in (await shown.page.title()).split(" · ")
        assert shown.console == []


@pytest.mark.parametrize("path", VIEWS)
async def test_what_is_not_known_has_a_way_back(
    living: LivingWorkspace, browser: Browser, path: str
) -> None:
    """An unknown filter, and an unknown id, are a sentence on a page with a menu and a link."""
    nothing = dict.fromkeys(living.ids, "nothing") | {"kind": "job_group"}
    urls = {living.url(VIEWS[path]) + ("&" if "?" in VIEWS[path] else "?") + "nonsense=1": 400}
    if "{" in VIEWS[path]:
        urls[living.url(VIEWS[path], nothing)] = 404
    async with screen(browser) as shown:
        for url, status in urls.items():
            answer = await shown.page.goto(url)
            assert answer is not None
            assert answer.status == status
            assert await shown.page.locator(".reason").count() == 1
            assert await shown.page.locator("main a").first.get_attribute("href")
            assert await shown.violations() == []
            home = await shown.page.goto(living.face.url + "/")
            assert home is not None
            assert home.status == 200

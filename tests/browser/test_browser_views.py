"""Every page in a real browser: nothing is blocked, nothing sticks out, everybody can use it."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
import pytest_asyncio
from playwright.async_api import Browser

from monitor.web.settings import ServerSettings
from tests.browser.living_workspace import HOSTILE_NAMES, LivingWorkspace
from tests.browser.screens import DESKTOP, PHONE, TABLET, WIDE, Screen, screen
from tests.browser.views import LIVE, MORE, VIEWS
from tests.web.serving import serving

pytestmark = pytest.mark.asyncio(loop_scope="session")

_STOPS = 25  # of the key Tab; a page may have hundreds
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
# What looks as if a mouse could act upon it, and no key can. The cells of a picture are many, and
# what they lead to is linked beside them or on the page behind.
_MOUSE_ONLY = """() => [...document.querySelectorAll(
    `a:not([href]), [onclick], [role=button]:not(button),
     [tabindex]:not([tabindex='0'], #main, svg a)`)]
  .map((element) => element.outerHTML.slice(0, 200))"""
_TABLES_OF_ROWS = """() => [...document.querySelectorAll("table")]
  .filter((table) => getComputedStyle(table).display === "table" && !table.closest(".scroll"))
  .map((table) => table.outerHTML.slice(0, 200))"""


async def injected(shown: Screen) -> list[str]:
    """Return what names that harm have put into the page."""
    markup = shown.page.locator("main :is(script, iframe, [onerror], h1 h1)")
    title = [part for part in (await shown.page.title()).split(" · ") if part == "owned"]
    return [*await markup.evaluate_all("(found) => found.map((each) => each.outerHTML)"), *title]


async def test_every_page_is_tested_here(tmp_path: Path) -> None:
    """A page that is registered and stands in no test of this room fails this one."""
    async with serving(tmp_path, ServerSettings(listen="127.0.0.1:0")) as site:
        assert {page.path for page in site.server.sites.whole.views.pages} == VIEWS.keys()


@pytest_asyncio.fixture(scope="module", loop_scope="session", params=VIEWS)
async def opened(
    living: LivingWorkspace, browser: Browser, request: pytest.FixtureRequest
) -> AsyncIterator[Screen]:
    """Open each page once for the tests below, which takes as long as they do."""
    async with screen(browser) as shown:
        answer = await shown.page.goto(living.url(VIEWS[request.param]))
        await shown.until(LIVE)
        assert answer is not None
        assert answer.status == 200
        yield shown


async def test_a_page_opens_without_complaint(opened: Screen) -> None:
    """The console is silent, no box fails, there is one title, and no name is taken as markup."""
    assert opened.console == []
    assert await opened.page.locator(".failed-box").all_inner_texts() == []
    assert await opened.page.locator("h1").count() == 1
    assert await injected(opened) == []


async def test_everybody_can_use_a_page(opened: Screen) -> None:
    """axe-core finds nothing in light, in dark and on a phone."""
    await opened.resize(DESKTOP)
    await opened.page.emulate_media(color_scheme="light")
    assert await opened.violations() == []
    await opened.page.emulate_media(color_scheme="dark")
    assert await opened.violations("color-contrast") == []
    await opened.resize(PHONE)
    assert await opened.violations() == []


async def test_nothing_sticks_out_of_a_page(opened: Screen) -> None:
    """From phone to wide screen the page scrolls down only; on a phone tables are cards."""
    for width in (WIDE, TABLET, PHONE):
        await opened.resize(width)
        assert await opened.sticking_out() == []
    assert await opened.page.evaluate(_TABLES_OF_ROWS) == []


async def test_a_page_is_used_without_a_mouse(opened: Screen) -> None:
    """Tab goes through all that can be acted upon, in its order, each with a visible focus."""
    await opened.resize(DESKTOP)
    pause = opened.page.locator("#pause")
    is_live = await pause.is_visible()  # a report is not
    if is_live:
        await pause.click()  # so that nothing moves
    assert await opened.page.evaluate(_MOUSE_ONLY) == []
    expected = (await opened.page.evaluate(_REACHABLE))[:_STOPS]
    await opened.page.mouse.click(1, 1)  # Tab begins at the top again
    reached = []
    for _ in expected:
        await opened.page.keyboard.press("Tab")
        reached.append(await opened.page.evaluate(_FOCUSED))
    if is_live:
        await pause.click()
    assert reached == [[element, True] for element in expected]


async def test_a_key_skips_the_menu(living: LivingWorkspace, browser: Browser) -> None:
    """The first stop leads into the content: the next one comes after the menu."""
    async with screen(browser) as shown:
        await shown.page.goto(living.url(next(iter(VIEWS))))
        await shown.page.keyboard.press("Tab")
        assert await shown.page.evaluate("() => document.activeElement.innerText") == (
            "Skip to content"
        )
        await shown.page.keyboard.press("Enter")
        assert await shown.page.evaluate("() => document.activeElement.id") == "main"


@pytest.mark.parametrize("path", [path for path in VIEWS if "{" in path])
async def test_names_that_harm_are_shown_as_text(
    living: LivingWorkspace, browser: Browser, path: str
) -> None:
    """Markup, controls, right-to-left text and 5,000 characters do nothing, and break nothing.

    The pages without an id show the names of both workspaces, in the tests above.
    """
    async with screen(browser) as shown:
        await shown.page.goto(living.url(VIEWS[path], living.hostile_ids))
        await shown.until(LIVE)
        for width in (WIDE, TABLET, PHONE):
            await shown.resize(width)
            assert await shown.sticking_out() == []
        assert await injected(shown) == []
        assert shown.console == []


async def test_each_name_that_harms_fits_the_page_of_its_pipeline(
    living: LivingWorkspace, browser: Browser
) -> None:
    """With its runs, parts and alerts; only some names are those of the pages above."""
    rows = (await living.face.json("/api/v1/pipelines?workspace=hostile&limit=100"))["data"]
    kinds = [row["kind"] for row in rows]
    assert (kinds.count("flow"), kinds.count("plan") > 0) == (len(HOSTILE_NAMES), True)
    async with screen(browser) as shown:
        for row in rows:
            await shown.page.goto(
                f"{living.face.url}/pipelines/hostile/{row['kind']}/{row['pipeline_id']}"
            )
            for width in (WIDE, TABLET, PHONE):
                await shown.resize(width)
                assert (row["pipeline_id"], await shown.sticking_out()) == (row["pipeline_id"], [])


async def test_no_box_fails_for_any_kind(living: LivingWorkspace) -> None:
    """Runs of each kind, active ones, plans, and filters that find nothing show all boxes."""
    for ids in (living.ids, living.hostile_ids):
        for template in MORE:
            text = await living.face.text(template.format_map(ids))
            assert (template, "failed-box" in text) == (template, False)
            assert (template, "problem+json" in text) == (template, False)


@pytest.mark.parametrize("path", VIEWS)
async def test_an_unknown_address_has_a_way_back(living: LivingWorkspace, path: str) -> None:
    """An unknown filter, and an unknown id, are a sentence on a page with a link."""
    nothing = dict.fromkeys(living.ids, "nothing") | {"kind": "job_group"}
    urls = {living.url(VIEWS[path]) + ("&" if "?" in VIEWS[path] else "?") + "nonsense=1": 400}
    if "{" in VIEWS[path]:
        urls[living.url(VIEWS[path], nothing)] = 404 if "{" in path else 400
    async with aiohttp.ClientSession(headers={"Accept": "text/html"}) as session:
        for url, status in urls.items():
            async with session.get(url) as answer:
                text = await answer.text()
            assert (url, answer.status) == (url, status)
            assert text.count('class="reason"') == 1
            assert re.search(r'<a href="/[^"]*">', text.partition("<main")[2])


async def test_the_way_back_is_a_link(living: LivingWorkspace, browser: Browser) -> None:
    """From a filter that is not known, a link leads to the page without it."""
    path = next(iter(VIEWS))
    async with screen(browser) as shown:
        await shown.page.goto(living.url(f"{path}?nonsense=1"))
        assert await shown.violations() == []
        await shown.page.locator("main a").first.click()
        await shown.until(LIVE)
        assert shown.page.url == living.url(path)

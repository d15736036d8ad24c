"""Open pages are told of changes: soon, and seldom enough to cost little."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from monitor.web.page.live import LivePages
from tests.app.eventually import eventually
from tests.web.site import Site


@contextlib.asynccontextmanager
async def open_pages(site: Site, count: int) -> AsyncIterator[LivePages]:
    """Keep so many pages open, each with its first message."""
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(count):
            answer = await stack.enter_async_context(site.session.get(f"{site.url}/live"))
            assert (await answer.content.readline()).startswith(b"event: changed")
        yield site.server.sites.whole.live


async def _change(site: Site, pages: LivePages, run_id: str) -> None:
    """Let a run start, and return when the pages are due for it."""
    before = pages.version
    await site.observe(site.run(run_id))
    await eventually(
        lambda: pages.version > before or pages._has_news.is_set(), why="no page is due"
    )


async def _next_change_after(site: Site, pages: LivePages, seconds: float) -> None:
    """Expect the next change when the clock has moved so far, and not before."""
    version = pages.version
    await site.clock.advance(seconds - 0.1)
    assert pages.version == version
    await site.clock.advance(0.2)
    await eventually(lambda: pages.version == version + 1, why="the change was not reported")


async def test_a_flood_of_events_is_a_change_every_two_seconds(site: Site) -> None:
    """The first event is reported at once, those after it together."""
    async with open_pages(site, 1) as pages:
        await _change(site, pages, "1")
        await eventually(lambda: pages.version == 1, why="the change was not reported")
        for number in range(2, 20):
            await _change(site, pages, str(number))
        await _next_change_after(site, pages, 2.06)


async def test_many_open_pages_are_updated_less_often(site: Site) -> None:
    """Fifty pages ask again every five seconds, so that they do not slow down what they show."""
    async with open_pages(site, 50) as pages:
        await _change(site, pages, "1")
        await eventually(lambda: pages.version == 1, why="the change was not reported")
        await _change(site, pages, "2")
        await _next_change_after(site, pages, 5.0)


async def test_a_page_that_goes_away_frees_its_place(site: Site) -> None:
    """Closing it is noticed with one of the next changes."""
    async with open_pages(site, 3) as pages:
        assert len(pages._open) == 3

    def are_gone() -> bool:
        pages.touch()
        return not pages._open

    await eventually(are_gone, why="closed pages keep their places")

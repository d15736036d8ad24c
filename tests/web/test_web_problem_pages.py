"""Problems as a browser shows them, and as scripts get them."""

from __future__ import annotations

from typing import Any

import aiohttp
import pytest
from aiohttp import web

from monitor.model.errors import BusUnavailableError
from monitor.model.secrets import Secret
from monitor.web.http.problem_details import errors_as_problems
from monitor.web.page.live import LivePages
from monitor.web.page.shell import PageShell, problems_as_pages
from monitor.web.settings import ServerSettings
from monitor.web.views.overview.status import StateSummary
from monitor.web.views.view import NoParameters, View
from tests.clocks import ManualClock
from tests.web.site import Answer, Site

BROWSER = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
GUARDED = ServerSettings(
    listen="127.0.0.1:0", username="operator", password=Secret("a password for people")
)
FEW = ServerSettings(listen="127.0.0.1:0", writes_per_minute=1)


def page(answer: Answer) -> str:
    """Return the text of an answer that must be a page that runs nothing and leads back."""
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert "script-src 'self'" in answer.headers["Content-Security-Policy"]
    assert answer.headers["Cache-Control"] == "no-store"
    assert '<a href="/">' in answer.text
    assert answer.text.count("<h1") == 1
    return answer.text


async def test_a_page_of_a_problem_is_never_unchanged(site: Site) -> None:
    """A wrong filter stays one, also for a browser that holds the page which says so."""
    wrong = await site.get("/?state=sideways", headers={"Accept": "text/html"})
    known = {"Accept": "text/html", "If-None-Match": wrong.headers.get("Etag", "*")}
    assert (wrong.status, (await site.get("/?state=sideways", headers=known)).status) == (400, 400)


@pytest.mark.parametrize("path", ["/nothing", "/nothing?x=<b>", "//evil.example/x?y", "/runs/a/b"])
async def test_an_unknown_address_is_a_page_with_a_way_back(site: Site, path: str) -> None:
    """A browser shows a sentence, the menu and the state of everything; scripts get JSON."""
    answer = await site.get(path, headers=BROWSER)
    assert answer.status == 404
    text = page(answer)
    assert '<h1 class="title">There is no such page</h1>' in text
    assert "There is nothing under this address" in text
    assert 'aria-label="Pages"' in text
    assert "evil.example" not in text
    assert "<b>" not in text
    for accept in ("*/*", "application/json", "text/event-stream"):
        script = await site.get(path, headers={"Accept": accept})
        assert (script.status, script.document["status"]) == (404, 404)


@pytest.mark.parametrize("path", ["/api/v1/nothing", "/api/v1/runs?limit=x", "/schemas/none.json"])
async def test_the_api_answers_browsers_in_json_too(site: Site, path: str) -> None:
    """A user who follows a link to the API reads what a script reads."""
    answer = await site.get(path, headers=BROWSER)
    assert answer.headers["Content-Type"] == "application/problem+json"


async def test_a_wrong_method_is_a_page(site: Site) -> None:
    """It says which method there is, as the header does."""
    answer = await site.post("/", headers=BROWSER)
    assert answer.status == 405
    assert "POST is not allowed here, only GET, HEAD" in page(answer)
    assert answer.headers["Allow"] == "GET, HEAD"


@pytest.mark.parametrize("settings", [GUARDED], ids=["guarded"])
async def test_strangers_see_no_state(site: Site) -> None:
    """Without credentials, by another name or from another origin a page has its problem alone."""
    asked = await site.get("/", headers=BROWSER)
    assert asked.status == 401
    assert asked.headers["WWW-Authenticate"] == 'Basic realm="dataprep-monitor"'
    renamed = await site.get("/", headers={**BROWSER, "Host": "evil.example"})
    foreign = await site.post("/silences", headers={**BROWSER, "Origin": "https://evil.example"})
    assert (renamed.status, foreign.status) == (421, 403)
    for answer, sentence in (
        (asked, "This server needs a bearer token or a password."),
        (renamed, "This server has another name; add the name to hosts in [server]."),
        (foreign, "A page of another origin may change nothing here."),
    ):
        text = page(answer)
        assert sentence in text
        assert 'id="status"' not in text
        assert "healthy" not in text


@pytest.mark.parametrize("settings", [FEW], ids=["few writes"])
async def test_too_many_writes_are_a_page(site: Site) -> None:
    """It says how many there may be, and the header when to try again."""
    await site.post("/silences", headers=BROWSER)
    answer = await site.post("/silences", headers=BROWSER)
    assert answer.status == 429
    assert int(answer.headers["Retry-After"]) > 0
    assert "A source, and a user, may write 1 times a minute." in page(answer)


async def test_a_failed_answer_is_a_page() -> None:
    """A store that fails is said, although the state of everything cannot be read either."""

    async def fail(_: object) -> Any:
        raise BusUnavailableError("the disk is full")

    clock = ManualClock()
    status = View(
        name="status", summary="", api="/", query=NoParameters, answer=StateSummary, read=fail
    )
    shell = PageShell(
        (), status=status, live=LivePages(clock=clock, kept_seconds=lambda: 0), clock=clock
    )
    app = web.Application(
        middlewares=[
            problems_as_pages(shell, lambda _: shell),
            errors_as_problems(shell.outage),
        ]
    )
    app.router.add_get("/page", fail)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}/page"
    async with aiohttp.ClientSession() as session, session.get(url, headers=BROWSER) as response:
        text = await response.text()
    await runner.cleanup()
    assert response.status == 503
    assert "This cannot be shown now" in text
    assert "The disk is full." in text
    assert "The state cannot be shown" not in text  # it is a page about the problem alone

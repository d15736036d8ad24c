"""Serves pages: reads their boxes, renders them, keeps the rendering, and sends it.

A box that fails shows its error in its own place; the rest of the page stands. Fifty viewers of one
page cost one rendering. Problems are pages too: people in a browser get a sentence with a way back,
scripts get JSON.
"""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from http import HTTPStatus
from itertools import islice
from typing import Any

import msgspec
import structlog
from aiohttp import hdrs, web
from aiohttp.typedefs import Middleware
from markupsafe import Markup
from msgspec import Struct

from monitor import __version__
from monitor.model.bounded_memory import BoundedMemory
from monitor.model.clock import Clock
from monitor.model.errors import BusError
from monitor.web.access.routes import Routes
from monitor.web.http.problem_details import (
    Handler,
    ProblemDetails,
    ProblemDocument,
    StoreOutage,
    is_for_people,
)
from monitor.web.http.request_parsing import parse_queries, url_of
from monitor.web.http.response_writing import holds, tag_of, takes_gzip
from monitor.web.page import charts
from monitor.web.page.compiled_templates import templates_of_page
from monitor.web.page.lanes import LANE_FILTERS
from monitor.web.page.live import LivePages
from monitor.web.page.static_files import StaticFiles
from monitor.web.page.svg import SVG_FILTERS
from monitor.web.page.template_filters import FILTERS, linked, pipeline_path, run_path
from monitor.web.principals import Role
from monitor.web.settings import ServerSettings
from monitor.web.views.outage_stretches import outage_path
from monitor.web.views.overview.status import StateSummary
from monitor.web.views.view import NoParameters, View, WebPage

log = structlog.get_logger()

_PAGES = 128
_FRESH_SECONDS = 10.0
_LEVEL = 4  # a third of the time of the usual 9, and 5 % more bytes

# The page loads nothing from other origins, and runs no inline script or style.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_TEXTS_IN_A_SLICE = 300  # of those that a template is made of, some dozens a row
_LONGEST_URL = 2_000
NOT_SHOWN = "This cannot be shown"
_TITLES = {
    401: "You are not logged in",
    403: "This was refused",
    404: "There is no such page",
    405: "This cannot be done here",
    421: "This server has another name",
    429: "Too many requests at once",
    503: "This cannot be shown now",
}
# Answered before it is known who asks: their page shows no state.
_OF_STRANGERS = (401, 403, 421)
_KEPT = (hdrs.WWW_AUTHENTICATE, hdrs.RETRY_AFTER, hdrs.ALLOW)


class RenderedPage(Struct, frozen=True, kw_only=True):
    """A page as it is sent. ``tag`` is its entity tag."""

    status: int
    body: bytes
    compressed: bytes
    tag: str


_Rendering = tuple[int, float, asyncio.Task[RenderedPage]]  # version, begun at (monotonic)


class RenderedPages:
    """The newest rendering of each URL. A request for what is being rendered waits for it."""

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self._pages: BoundedMemory[str, _Rendering] = BoundedMemory(_PAGES)

    async def get(
        self, key: str, version: int, render: Callable[[], Awaitable[tuple[int, bytes]]]
    ) -> RenderedPage:
        """Return the page of this version, rendering it where it is not there yet."""
        kept = self._pages.get(key)
        now = self._clock.monotonic()
        if kept is None or kept[0] != version or now - kept[1] > _FRESH_SECONDS:
            task = asyncio.create_task(_rendered(render), name="page rendering")
            kept = (version, now, task)
            self._pages.put(key, kept)
        try:
            # Shielded: one viewer who goes away must not take the page from the others.
            return await asyncio.shield(kept[2])
        except BaseException:
            if kept[2].done() and self._pages.get(key) is kept:
                self._pages.forget(key)
            raise


async def _rendered(render: Callable[[], Awaitable[tuple[int, bytes]]]) -> RenderedPage:
    status, body = await render()
    compressed = await asyncio.to_thread(gzip.compress, body, _LEVEL, mtime=0)
    return RenderedPage(status=status, body=body, compressed=compressed, tag=tag_of(body))


class PageShell:
    """Renders pages. Every text in them is escaped: names and errors come from outside."""

    def __init__(
        self,
        pages: Sequence[WebPage],
        *,
        status: View,
        live: LivePages,
        clock: Clock,
        url: str | None = None,
        settings: Callable[[], ServerSettings] = ServerSettings,
    ) -> None:
        """``url``: of the overview, as links from elsewhere have it; the page's own go without.

        ``settings`` are those of now: a reload may change who is let in.
        """
        self._pages = pages
        self.outage = StoreOutage(clock)  # of the JSON API too
        self._status = status
        self._live = live
        self._files = files = StaticFiles()
        self._clock = clock
        self._rendered = RenderedPages(clock=clock)
        self.templates = templates_of_page()
        self.templates.filters.update(FILTERS | SVG_FILTERS | LANE_FILTERS, linked=linked)
        self.templates.globals.update(
            url_of=url_of,
            static=files.urls.__getitem__,
            version=__version__,
            own_url=url or "",
            settings=settings,
            menu=[page for page in pages if page.in_menu],
            run_path=run_path,
            pipeline_path=pipeline_path,
            outage_path=outage_path,
            charts=charts,
        )
        for name in self.templates.list_templates():
            self.templates.get_template(name)  # compiled now, which takes longer than a step may

    def add_routes(self, routes: Routes) -> None:
        for page in self._pages:
            serve = partial(self._serve, page)
            routes.add("GET", page.path, serve, page.role, is_whole=page.is_whole)
        self._files.add_routes(routes)
        routes.add("GET", "/live", self._live.serve, Role.READ)

    async def _serve(self, page: WebPage, request: web.Request) -> web.Response:
        is_part = "HX-Request" in request.headers
        key = f"{'part' if is_part else 'page'} {request.path_qs}"
        render = partial(self._render, page, request, is_part=is_part)
        if len(key) > _LONGEST_URL:
            raise ProblemDetails(414, f"the address is longer than {_LONGEST_URL} characters")
        return answer_page(request, await self._rendered.get(key, self._live.version, render))

    async def _render(
        self, page: WebPage, request: web.Request, *, is_part: bool
    ) -> tuple[int, bytes]:
        try:
            queries = parse_queries(
                [box.query for box in page.boxes], request.match_info, request.query.items()
            )
            boxes = [
                await self._box(box, query, page)
                for box, query in zip(page.boxes, queries, strict=True)
            ]
        except ProblemDetails as problem:
            return problem.status, await self.problem(problem, url=request.path_qs)
        document = "" if page.document is None else await asyncio.to_thread(page.document)
        body = await self.text(
            "page.html",
            is_part=is_part,
            page=page,
            title=_title(page, queries),
            boxes=boxes,
            document=document,
            url=request.path_qs,
            apis=[url_of(box.api, query) for box, query in zip(page.boxes, queries, strict=True)],
        )
        return 200, body

    async def problem(
        self, problem: ProblemDetails, *, url: str | None = None, title: str = NOT_SHOWN
    ) -> bytes:
        """Return the page that says why something cannot be shown, with a way back.

        ``url``: the same page without filters may be shown.
        """
        return await self.text(
            "problem.html",
            page=WebPage(path="", title="", boxes=(), is_live=False),
            title=title,
            problem=problem,
            url=url,
            apis=(),
        )

    def refusal(self, problem: ProblemDetails, *, title: str) -> bytes:
        """Return the page for a user who may see nothing, not even the state of everything."""
        refused = self.templates.get_template("refused.html")
        return refused.render(problem=problem, title=title).encode()

    async def text(
        self, template: str, *, is_part: bool = False, has_state: bool = True, **shown: Any
    ) -> bytes:
        """Return a page with the state of everything: whole, or its title and main part."""
        status = await self._read_status() if has_state else None
        now = self._clock.now()
        texts = self.templates.get_template(template).generate(
            now=now, status=status, is_part=is_part, **shown
        )
        return (await _joined(texts)).encode()

    async def _read_status(self) -> StateSummary | None:
        try:
            answer = await self._status.read(NoParameters())
        except BusError as exc:
            self.outage.refuse(f"box {self._status.name}", exc)
            return None
        except Exception:
            log.exception("box failed", box=self._status.name)
            return None
        self.outage.serve(f"box {self._status.name}")
        assert isinstance(answer, StateSummary)  # noqa: S101 - for the type checker
        return answer

    async def _box(self, box: View, query: Struct, page: WebPage) -> Markup:
        """Return a box as HTML; its error, where it fails."""
        template = self.templates.get_template(f"boxes/{box.name}.html")
        try:
            answer = await box.read(query)
            texts = template.generate(
                view=answer, query=query, page=page, box=box, now=self._clock.now()
            )
            made = Markup(await _joined(texts))  # noqa: S704 - the template has escaped it
        except ProblemDetails:
            raise
        except BusError as exc:
            self.outage.refuse(f"box {box.name}", exc)
            return self._failed_box(box, why=f"the store does not answer: {exc}")
        except Exception as exc:
            # Whatever is wrong in one box, people must still see the others.
            log.exception("box failed", box=box.name)
            return self._failed_box(box, error=type(exc).__name__)
        self.outage.serve(f"box {box.name}")
        return made

    def _failed_box(self, box: View, *, error: str | None = None, why: str | None = None) -> Markup:
        failed = self.templates.get_template("failed_box.html")
        return Markup(failed.render(box=box, error=error, why=why))  # noqa: S704 - it is escaped


def answer_page(request: web.Request, page: RenderedPage) -> web.Response:
    """Return the answer that sends a rendered page, compressed where the client takes that."""
    headers = {
        "Content-Security-Policy": POLICY,
        "Cache-Control": "no-cache, private",
        "ETag": page.tag,
        "Vary": "HX-Request, Accept-Encoding",
    }
    if page.status == HTTPStatus.OK and holds(request, page.tag):
        return web.Response(status=304, headers=headers)
    body = page.body
    if takes_gzip(request):
        headers["Content-Encoding"], body = "gzip", page.compressed
    return web.Response(
        status=page.status, body=body, content_type="text/html", charset="utf-8", headers=headers
    )


def page_of_its_own(body: bytes, status: int) -> web.Response:
    """Return the answer that sends a page for one reader, which is never kept."""
    return web.Response(
        status=status,
        body=body,
        content_type="text/html",
        charset="utf-8",
        headers={"Content-Security-Policy": POLICY, "Cache-Control": "no-store"},
    )


async def _joined(texts: Any) -> str:
    """Return the text that a template makes, and let other tasks run between its pieces."""
    pieces: list[str] = []
    while some := list(islice(texts, _TEXTS_IN_A_SLICE)):
        pieces.append("".join(some))
        await asyncio.sleep(0)  # hundreds of rows must not hold up a callback
    return "".join(pieces)


def _title(page: WebPage, queries: Sequence[Struct]) -> str:
    if callable(page.title):
        return page.title(queries[0])
    values = [item for query in queries for item in msgspec.structs.asdict(query).items()]
    return page.title.format_map({name: str(value) for name, value in values})


def problems_as_pages(
    whole: PageShell, shell_of: Callable[[web.Request], PageShell | None]
) -> Middleware:
    """Return the middleware that turns problem details into a page, where a browser asked.

    ``shell_of`` returns what shows a page with the state of everything that this user sees; None:
    it is not known who asks, and the page shows the problem alone.
    """

    @web.middleware
    async def show(request: web.Request, handler: Handler) -> web.StreamResponse:
        answer = await handler(request)
        if answer.content_type != "application/problem+json" or not is_for_people(request):
            return answer
        assert isinstance(answer, web.Response)  # noqa: S101 - for the type checker
        return await _page(whole, shell_of(request), answer)

    return show


async def _page(whole: PageShell, shell: PageShell | None, answer: web.Response) -> web.Response:
    body = answer.body
    assert isinstance(body, bytes)  # noqa: S101 - for the type checker
    document = msgspec.json.decode(body, type=ProblemDocument)
    problem = ProblemDetails(document.status, document.detail)
    title = _TITLES.get(document.status, NOT_SHOWN)
    if shell is None or document.status in _OF_STRANGERS:
        body = whole.refusal(problem, title=title)
    else:
        body = await shell.problem(problem, title=title)
    page = page_of_its_own(body, document.status)
    page.headers.update({name: answer.headers[name] for name in _KEPT if name in answer.headers})
    return page

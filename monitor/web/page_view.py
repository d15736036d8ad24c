"""The page: rendered here, kept fresh by a small script that asks for the state again."""

from __future__ import annotations

from datetime import UTC, datetime
from importlib import resources

from aiohttp import web
from jinja2 import Environment, PackageLoader

from monitor.web.overview import Overview
from monitor.web.pictures import RunPicture
from monitor.web.problems import Handler

NOTHING = "\N{EN DASH}"
_RECENT = 50
_READ = 300
_MINUTE = 60
_HOUR = 3600
# Nothing from elsewhere is loaded and nothing inline runs.
_POLICY = "default-src 'self'; object-src 'none'; base-uri 'none'; frame-ancestors 'none'"


class PageView:
    """Renders the page. Every text in it is escaped: names and errors come from outside."""

    def __init__(self, overview: Overview) -> None:
        self._overview = overview
        self._templates = Environment(
            loader=PackageLoader("monitor.web", "page"), autoescape=True, trim_blocks=True
        )
        self._templates.filters.update(
            instant=_instant, duration=_duration, words=_words, name=_name
        )

    def add_routes(self, router: web.UrlDispatcher) -> None:
        router.add_get("/", self._page)
        router.add_get("/state", self._state)
        router.add_get("/page.css", self._asset("page.css", "text/css"))
        router.add_get("/page.js", self._asset("page.js", "text/javascript"))

    async def _page(self, _: web.Request) -> web.Response:
        return await self._render("index.html")

    async def _state(self, _: web.Request) -> web.Response:
        return await self._render("state.html")

    async def _render(self, template: str) -> web.Response:
        runs = await self._overview.runs(limit=_READ)
        text = self._templates.get_template(template).render(
            now=self._overview.now(),
            workspaces=self._overview.workspaces(),
            pipelines=self._overview.pipelines(),
            active=self._overview.active_runs(),
            recent=_ended_lately(runs),
        )
        headers = {
            "Content-Security-Policy": _POLICY,
            "Cache-Control": "no-store",
            "X-As-Of": _instant(self._overview.now()),
        }
        return web.Response(text=text, content_type="text/html", headers=headers)

    def _asset(self, name: str, content_type: str) -> Handler:
        text = resources.files("monitor.web").joinpath("page", name).read_text()

        async def serve(_: web.Request) -> web.StreamResponse:
            headers = {"Cache-Control": "no-cache"}
            return web.Response(text=text, content_type=content_type, headers=headers)

        return serve


def _ended_lately(runs: list[RunPicture]) -> list[RunPicture]:
    ended = [run for run in runs if run.last_status.is_terminal]
    ended.sort(key=lambda run: run.finished_at or run.confirmed_at, reverse=True)
    return ended[:_RECENT]


def _instant(at: datetime | None) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC") if at is not None else NOTHING


def _duration(seconds: float | None) -> str:
    if seconds is None:
        return NOTHING
    if seconds < _MINUTE:
        return f"{seconds:.1f} s"
    if seconds < _HOUR:
        return f"{seconds // _MINUTE:.0f} min {seconds % _MINUTE:.0f} s"
    return f"{seconds // _HOUR:.0f} h {seconds % _HOUR // _MINUTE:.0f} min"


def _words(kind: str) -> str:
    return kind.replace("_", " ")


def _name(run: RunPicture) -> str:
    return f"{_words(run.kind)} {run.id}"

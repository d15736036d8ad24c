"""The page that explains why somebody was notified, or why not."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from importlib import resources
from itertools import islice
from typing import Any

from aiohttp import web
from jinja2 import Environment, PackageLoader, StrictUndefined

from monitor.alerting.explain.explanation import REASONS
from monitor.web.api.explain_api import ExplainApi
from monitor.web.http.problems import Handler, ProblemDetails
from monitor.web.views.overview import Overview

NOTHING = "\N{EN DASH}"
_TEXTS_IN_A_SLICE = 500  # of those that a template is made of, some dozens a row
_MINUTE = 60
_HOUR = 3600
# The page loads nothing from other origins and runs no inline script.
_POLICY = "default-src 'self'; object-src 'none'; base-uri 'none'; frame-ancestors 'none'"


class PageView:
    """Renders the page. Every text in it is escaped: names and errors come from outside."""

    def __init__(self, overview: Overview, explain: ExplainApi | None) -> None:
        self._overview = overview
        self._explain_api = explain
        self._templates = Environment(
            loader=PackageLoader("monitor.web.page"),
            autoescape=True,
            trim_blocks=True,
            undefined=StrictUndefined,  # a renamed attribute fails, instead of showing nothing
        )
        self._templates.filters.update(
            instant=_instant,
            duration=_duration,
            words=_words,
        )
        for name in self._templates.list_templates(
            filter_func=lambda name: name.startswith("old/")
        ):
            self._templates.get_template(name)  # compiled now, which takes longer than a step may

    def add_routes(self, router: web.UrlDispatcher) -> None:
        router.add_get("/explain", self._explain)
        router.add_get("/old.css", self._asset("old.css", "text/css"))

    async def _explain(self, request: web.Request) -> web.Response:
        if self._explain_api is None:
            raise web.HTTPNotFound
        try:
            explanation = await self._explain_api.explanation(request)
        except ProblemDetails as problem:
            return await self._answer("old/problem.html", status=problem.status, problem=problem)
        return await self._answer("old/explain.html", explanation=explanation, reasons=REASONS)

    async def _answer(self, template: str, *, status: int = 200, **shown: Any) -> web.Response:
        now = self._overview.now()
        texts = self._templates.get_template(template).generate(now=now, **shown)
        body = bytearray()
        while some := list(islice(texts, _TEXTS_IN_A_SLICE)):
            body += "".join(some).encode()
            await asyncio.sleep(0)  # thousands of rows must not hold up a callback
        headers = {
            "Content-Security-Policy": _POLICY,
            "Cache-Control": "no-store",
            "X-As-Of": _instant(now),
        }
        return web.Response(
            status=status,
            body=body,
            content_type="text/html",
            charset="utf-8",
            headers=headers,
        )

    def _asset(self, name: str, content_type: str) -> Handler:
        text = resources.files("monitor.web.page").joinpath("static", name).read_text()

        async def serve(_: web.Request) -> web.StreamResponse:
            headers = {"Cache-Control": "no-cache"}
            return web.Response(text=text, content_type=content_type, headers=headers)

        return serve


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

"""The page: rendered here, refreshed by a small script that requests the state again."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from importlib import resources
from itertools import islice
from typing import Any

from aiohttp import web
from jinja2 import Environment, PackageLoader, StrictUndefined

from monitor.model.alerts import Alert, AlertState
from monitor.model.slices import in_slices
from monitor.web.http.problems import Handler
from monitor.web.views.overview import Overview, worst_first
from monitor.web.views.view_models import RunView

NOTHING = "\N{EN DASH}"
_RECENT = 50
_READ = 300
_TEXTS_IN_A_SLICE = 500  # of those that a template is made of, some dozens a row
_ALERTS = 200  # rows of each kind; the API has them all
# Labels of subjects other than pipelines.
_SUBJECT_LABELS = ("schedule", "output", "token_id", "part")
_MINUTE = 60
_HOUR = 3600
# The page loads nothing from other origins and runs no inline script.
_POLICY = "default-src 'self'; object-src 'none'; base-uri 'none'; frame-ancestors 'none'"


class PageView:
    """Renders the page. Every text in it is escaped: names and errors come from outside."""

    def __init__(self, overview: Overview) -> None:
        self._overview = overview
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
            name=_name,
            subject=_subject,
            unjudged=overview.why_unjudged,
        )
        for name in self._templates.list_templates(
            filter_func=lambda name: name.startswith("old/")
        ):
            self._templates.get_template(name)  # compiled now, which takes longer than a step may

    def add_routes(self, router: web.UrlDispatcher) -> None:
        router.add_get("/", self._page)
        router.add_get("/state", self._state)
        router.add_get("/old.css", self._asset("old.css", "text/css"))
        router.add_get("/old.js", self._asset("old.js", "text/javascript"))

    async def _page(self, _: web.Request) -> web.Response:
        return await self._render("old/index.html")

    async def _state(self, _: web.Request) -> web.Response:
        return await self._render("old/state.html")

    async def _render(self, template: str) -> web.Response:
        runs = await self._overview.runs(limit=_READ)
        return await self._answer(
            template,
            workspaces=self._overview.workspaces(),
            pipelines=await self._overview.pipelines(),
            active=await self._overview.active_runs(),
            recent=_recently_ended(runs),
            **await self._of_alerting(),
        )

    async def _of_alerting(self) -> dict[str, Any]:
        alerting = self._overview.alerting()
        by_state: dict[AlertState, list[Alert]] = {state: [] for state in AlertState}
        async for alert in in_slices(await worst_first(alerting.alerts)):
            by_state[alert.state].append(alert)
        firing, pending = by_state[AlertState.FIRING], by_state[AlertState.PENDING]
        return {
            "firing": firing[:_ALERTS],
            "hidden": max(0, len(firing) - _ALERTS),
            "firing_count": len(firing),
            "pending": pending[:_ALERTS],
            "pending_count": len(pending),
            "resolved": by_state[AlertState.RESOLVED][:_ALERTS],
            "silences": [
                silence for silence in alerting.silences if silence.ends_at > self._overview.now()
            ],
            "rules": alerting.rules,
            "failing_rules": alerting.failing_rules,
        }

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


def _recently_ended(runs: list[RunView]) -> list[RunView]:
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


def _name(run: RunView) -> str:
    return f"{_words(run.kind)} {run.id}"


def _subject(alert: Alert) -> str:
    """Return the subject of an alert for people: a pipeline, another object or the workspace."""
    labels = alert.labels
    if (pipeline := labels.get("pipeline")) is not None:
        return f"{pipeline} ({_words(alert.kind)})" if alert.kind is not None else pipeline
    subjects = (labels[name] for name in _SUBJECT_LABELS if name in labels)
    return next(subjects, alert.workspace)

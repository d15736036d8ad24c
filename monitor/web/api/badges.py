"""``/badge``: the state of a workspace or a pipeline as a small picture, for wikis and READMEs."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from types import MappingProxyType
from typing import Annotated

from aiohttp import web
from markupsafe import Markup
from msgspec import Meta, Struct

from monitor.model.alerts import Severity
from monitor.model.runs import PipelineKind
from monitor.web.api.route_types import RawRoute
from monitor.web.http.problem_details import Handler, ProblemDetails
from monitor.web.http.request_parsing import SHOWN, one_line, parse_query
from monitor.web.http.response_writing import answer_bytes
from monitor.web.views.overview.overview import Overview
from monitor.web.views.overview.pipeline_state import PipelineCondition
from monitor.web.views.overview.recent_overview import RecentOverview
from monitor.web.views.overview.status import why_unseen
from monitor.web.views.view import ViewSources

_GREEN, _RED, _BROWN, _GREY = "#17703f", "#b3261e", "#7d4f00", "#535e70"  # white is read on all
_SHOWN_AS = MappingProxyType(
    {
        PipelineCondition.FAILING: ("failing", _RED),
        PipelineCondition.MISSED: ("missed start", _RED),
        PipelineCondition.WARNING: ("warning", _BROWN),
        PipelineCondition.UNKNOWN: ("unknown", _GREY),
        PipelineCondition.CANCELED: ("canceled", _BROWN),
        PipelineCondition.HEALTHY: ("healthy", _GREEN),
        PipelineCondition.NEW: ("no run yet", _GREY),
    }
)
# What a workspace says of its pipelines, the worst first; of the others only if none is so.
_TROUBLED = tuple(state for state in PipelineCondition if state not in ("healthy", "new"))
_WORST_COLOR_FIRST = (_RED, _BROWN, _GREY, _GREEN)
_LONGEST_NAME = 40  # characters
_LETTER, _NARROW_LETTER, _WIDE_LETTER, _PADDING = 7, 4, 12, 6  # pixels
_NARROW_ONES = frozenset("fijlrt.,:;'!|()[] ")
_SVG = Markup(
    '<svg xmlns="http://www.w3.org/2000/svg" width="{all}" height="20" role="img" '
    'aria-label="{name}: {state}"><title>{name}: {state}</title>'
    '<rect width="{all}" height="20" rx="3" fill="#30363f"/>'
    '<rect x="{left}" width="{right}" height="20" rx="3" fill="{color}"/>'
    '<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">'
    '<text x="{padding}" y="14" textLength="{name_pixels}">{name}</text>'
    '<text x="{state_at}" y="14" textLength="{state_pixels}">{state}</text></g></svg>'
)

SvgImage = Annotated[
    str,
    Meta(
        description="A picture with the name and its state in words, which are its title too.",
        extra_json_schema={"contentMediaType": "image/svg+xml"},
    ),
]


class WorkspaceBadgeQuery(Struct, frozen=True, kw_only=True):
    """Whose pipelines."""

    workspace: str


class PipelineBadgeQuery(Struct, frozen=True, kw_only=True):
    """Which pipeline."""

    workspace: str
    kind: Annotated[PipelineKind, Meta(description="Flow or plan.")]
    pipeline_id: Annotated[str, Meta(description="Id of the flow or plan.")]


class Badges:
    """Draws badges from the overview."""

    def __init__(self, sources: ViewSources) -> None:
        self._sources = sources
        self._recent = sources.shared(RecentOverview)

    def routes(self) -> tuple[RawRoute, RawRoute]:
        return (
            _route(
                "workspace_badge",
                "The state of a workspace's pipelines as a picture.",
                "/badge/{workspace}.svg",
                WorkspaceBadgeQuery,
                self._of_workspace,
            ),
            _route(
                "pipeline_badge",
                "The state of a pipeline as a picture.",
                "/badge/{workspace}/{kind}/{pipeline_id}.svg",
                PipelineBadgeQuery,
                self._of_pipeline,
            ),
        )

    async def _of_workspace(self, request: web.Request) -> web.Response:
        query = parse_query(WorkspaceBadgeQuery, request.match_info, request.query.items())
        self._sources.refuse_unknown(query.workspace, status=404)
        overview = await self._recent.get()
        troubled = [
            *_troubled(overview, query.workspace),
            *self._beside(overview, query.workspace),
        ]
        healthy, new = (
            overview.count(state, query.workspace)
            for state in (PipelineCondition.HEALTHY, PipelineCondition.NEW)
        )
        if troubled:
            words = ", ".join(words for words, _ in troubled)
            color = min((color for _, color in troubled), key=_WORST_COLOR_FIRST.index)
        elif healthy:
            words = f"{healthy} healthy, {new} without a run" if new else "all healthy"
            color = _GREEN
        else:
            words, color = "no run yet" if new else "no pipelines", _GREY
        return await _answer(request, query.workspace, words, color)

    def _beside(self, overview: Overview, workspace: str) -> Iterator[tuple[str, str]]:
        """Yield in words, with colours, why a workspace of healthy pipelines may not be well."""
        alerts = [alert for alert in overview.other_alerts if alert.workspace == workspace]
        if alerts:
            is_critical = any(alert.severity is Severity.CRITICAL for alert in alerts)
            words = "1 other alert" if len(alerts) == 1 else f"{len(alerts)} other alerts"
            yield words, _RED if is_critical else _BROWN
        status = self._sources.live.workspace(workspace)
        is_counted = overview.count(PipelineCondition.UNKNOWN, workspace) > 0
        is_seen = status is None or why_unseen(self._sources.live, overview, status) is None
        if not is_seen and not is_counted:
            yield "not wholly seen", _GREY
        if self._sources.alerting.snapshot().failing_rules:
            yield "not all rules evaluated", _GREY

    async def _of_pipeline(self, request: web.Request) -> web.Response:
        query = parse_query(PipelineBadgeQuery, request.match_info, request.query.items())
        overview = await self._recent.get()
        row = overview.rows.get((query.workspace, query.kind, query.pipeline_id))
        if row is None:
            shown = one_line(query.pipeline_id[:SHOWN])
            raise ProblemDetails(404, f"{query.kind} {shown!r} is not known")
        return await _answer(request, row.pipeline, *_SHOWN_AS[row.state])


def _troubled(overview: Overview, workspace: str) -> list[tuple[str, str]]:
    """Return how many pipelines are not well, in words, and their colours."""
    counts = {state: overview.count(state, workspace) for state in _TROUBLED}
    return [
        (f"{count} {_SHOWN_AS[state][0]}", _SHOWN_AS[state][1])
        for state, count in counts.items()
        if count
    ]


def _route(name: str, summary: str, api: str, query: type[Struct], serve: Handler) -> RawRoute:
    return RawRoute(
        name=name,
        summary=summary,
        api=api,
        query=query,
        content_type="image/svg+xml",
        answer=SvgImage,
        has_tag=True,
        serve=serve,
    )


async def _answer(request: web.Request, name: str, state: str, color: str) -> web.Response:
    svg = badge(name, state, color).encode()
    answer = await answer_bytes(request, svg, content_type="image/svg+xml")
    answer.headers["Content-Security-Policy"] = "default-src 'none'"
    answer.headers["Cross-Origin-Resource-Policy"] = "cross-origin"  # pages of others show it
    return answer


def badge(name: str, state: str, color: str) -> str:
    """Return a picture of a name and its state. The name may be any text."""
    name = one_line(name)
    if len(name) > _LONGEST_NAME:
        name = f"{name[: _LONGEST_NAME - 1]}\N{HORIZONTAL ELLIPSIS}"
    name_pixels, state_pixels = _pixels(name), _pixels(state)
    left, right = name_pixels + 2 * _PADDING, state_pixels + 2 * _PADDING
    return _SVG.format(
        name=name,
        state=state,
        color=color,
        all=left + right,
        left=left,
        right=right,
        padding=_PADDING,
        name_pixels=name_pixels,
        state_at=left + _PADDING,
        state_pixels=state_pixels,
    )


def _pixels(text: str) -> int:
    """Return the room of a text. Viewers stretch it to that, whatever font they have."""
    return sum(map(_letter_pixels, text))


def _letter_pixels(letter: str) -> int:
    if unicodedata.east_asian_width(letter) in "WF":
        return _WIDE_LETTER
    return _NARROW_LETTER if letter in _NARROW_ONES else _LETTER

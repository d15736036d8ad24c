"""The JSON API of runs and pipelines."""

from __future__ import annotations

from collections.abc import Sequence

from aiohttp import web
from msgspec import Struct

from monitor.model.runs import RunKey, RunKind, Status
from monitor.web.http.problems import ProblemDetails, number
from monitor.web.http.request_parsing import (
    answer_json,
    answer_rows,
    choice,
    refuse_unknown,
)
from monitor.web.views.overview import Overview

_DEFAULT_LIMIT = 100
_MOST = 1_000


class Api:
    """The handlers of ``/api/v1``."""

    def __init__(self, *, overview: Overview) -> None:
        self._overview = overview

    def add_routes(self, router: web.UrlDispatcher) -> None:
        prefix = "/api/v1"
        router.add_get(f"{prefix}/pipelines", self._pipelines)
        router.add_get(f"{prefix}/runs", self._runs)
        router.add_get(f"{prefix}/runs/{{workspace}}/{{kind}}/{{id}}", self._run)

    async def _pipelines(self, request: web.Request) -> web.Response:
        workspace = request.query.get("workspace")
        return await self._answer_of(workspace, await self._overview.pipelines(workspace))

    async def _runs(self, request: web.Request) -> web.Response:
        workspace = request.query.get("workspace")
        runs = await self._overview.runs(
            workspace=workspace,
            kind=choice(request, "kind", RunKind),
            status=choice(request, "status", Status),
            limit=_number(request, "limit", default=_DEFAULT_LIMIT, most=_MOST),
        )
        return await self._answer_of(workspace, runs)

    async def _answer_of(self, workspace: str | None, rows: Sequence[Struct]) -> web.Response:
        if not rows:
            refuse_unknown(workspace, self._overview.workspace_names())
        return await answer_rows(rows)

    async def _run(self, request: web.Request) -> web.Response:
        path = request.match_info
        if path["kind"] not in list(RunKind):
            raise ProblemDetails(
                404, f"kind: {path['kind'][:40]!r} is none of {', '.join(RunKind)}"
            )
        key = RunKey(path["workspace"], RunKind(path["kind"]), path["id"])
        result = await self._overview.run(key)
        if result is None:
            refuse_unknown(key.workspace, self._overview.workspace_names(), status=404)
            raise ProblemDetails(404, f"run {str(key)[:120]} is not known, or was forgotten")
        run, children = result
        return answer_json({"run": run, "children": children})


def _number(request: web.Request, name: str, *, default: int, most: int) -> int:
    text = request.query.get(name)
    return default if text is None else number(name, text, most=most)

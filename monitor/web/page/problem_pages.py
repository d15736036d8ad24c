"""Problems as pages: people in a browser get a sentence with a way back, scripts get JSON."""

from __future__ import annotations

import msgspec
from aiohttp import hdrs, web
from aiohttp.typedefs import Middleware

from monitor.web.http.problem_details import Handler, ProblemDetails, ProblemDocument
from monitor.web.page.shell import NOT_SHOWN, POLICY, PageShell

_TITLES = {
    401: "You are not logged in",
    403: "This was refused",
    404: "There is no such page",
    405: "This cannot be done here",
    421: "This server has another name",
    429: "Too many changes at once",
    503: "This cannot be shown now",
}
# Answered before it is known who asks: their page shows no state.
_OF_STRANGERS = (401, 403, 421)
_FOR_SCRIPTS = ("/api/", "/schemas", "/metrics", "/healthz", "/readyz")
_KEPT = (hdrs.WWW_AUTHENTICATE, hdrs.RETRY_AFTER, hdrs.ALLOW)


def problems_as_pages(shell: PageShell) -> Middleware:
    """Return the middleware that turns problem details into a page, where a browser asked."""

    @web.middleware
    async def show(request: web.Request, handler: Handler) -> web.StreamResponse:
        answer = await handler(request)
        if answer.content_type != "application/problem+json" or not _is_for_people(request):
            return answer
        assert isinstance(answer, web.Response)  # noqa: S101 - for the type checker
        return await _page(shell, answer)

    return show


def _is_for_people(request: web.Request) -> bool:
    return "text/html" in request.headers.get(hdrs.ACCEPT, "") and not request.path.startswith(
        _FOR_SCRIPTS
    )


async def _page(shell: PageShell, answer: web.Response) -> web.Response:
    body = answer.body
    assert isinstance(body, bytes)  # noqa: S101 - for the type checker
    document = msgspec.json.decode(body, type=ProblemDocument)
    problem = ProblemDetails(document.status, document.detail)
    title = _TITLES.get(document.status, NOT_SHOWN)
    if document.status in _OF_STRANGERS:
        body = shell.refusal(problem, title=title)
    else:
        body = await shell.problem(problem, title=title)
    kept: dict[str, str] = {name: answer.headers[name] for name in _KEPT if name in answer.headers}
    return web.Response(
        status=document.status,
        body=body,
        content_type="text/html",
        charset="utf-8",
        headers=kept | {"Content-Security-Policy": POLICY, "Cache-Control": "no-store"},
    )

"""``/api/v1/explain``: parses the question, and returns the explanation."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from aiohttp import web

from monitor.alerting.explain.explanation import Explanation
from monitor.model.runs import PipelineKind, RunKey, RunKind
from monitor.web.alerts_api import AlertingRequests, no_alert
from monitor.web.problems import ProblemDetails
from monitor.web.request_parsing import SHOWN, answer_json, one_line, parse_word, refuse_unknown

_FORMS = {"alert": "FINGERPRINT", "run": "WORKSPACE/KIND/ID", "pipeline": "WORKSPACE/KIND/ID"}
_ID_SHOWN = 120


class ExplainApi:
    """The handler of ``/api/v1/explain``, also for the page."""

    def __init__(
        self, requests: AlertingRequests, *, workspaces: Callable[[], Sequence[str]]
    ) -> None:
        self._requests = requests
        self._workspaces = workspaces

    def add_routes(self, router: web.UrlDispatcher) -> None:
        router.add_get("/api/v1/explain", self._explain)

    async def explanation(self, request: web.Request) -> Explanation:
        """Return the answer to a query.

        Raises:
            ProblemDetails: the query is wrong, or what it names is not known.
        """
        named = [name for name in _FORMS if name in request.query]
        if len(named) != 1:
            forms = ", ".join(f"{name}={form}" for name, form in _FORMS.items())
            raise ProblemDetails(400, f"name one of {forms}")
        name, text = named[0], request.query[named[0]]
        if name == "alert":
            explanation = await self._requests.explain_alert(text)
            if explanation is None:
                raise no_alert(text, self._requests.snapshot())
            return explanation
        workspace, kind, key = _parts(name, text)
        if name == "run":
            run = RunKey(workspace, parse_word(f"{name}: kind", kind, RunKind), key)
            explanation = await self._requests.explain_run(run)
        else:
            of = parse_word(f"{name}: kind", kind, PipelineKind)
            explanation = await self._requests.explain_pipeline(workspace, of, key)
        if explanation is None:
            refuse_unknown(workspace, self._workspaces())
            shown = one_line(text)[:_ID_SHOWN]
            raise ProblemDetails(404, f"{name} {shown} is not known, or was forgotten")
        return explanation

    async def _explain(self, request: web.Request) -> web.Response:
        return answer_json(await self.explanation(request))


def _parts(name: str, text: str) -> tuple[str, str, str]:
    workspace, _, rest = text.partition("/")
    kind, _, key = rest.partition("/")
    if not (workspace and kind and key) or "/" in key:
        raise ProblemDetails(400, f"{name}: {text[:SHOWN]!r} is not {_FORMS[name]}")
    return workspace, kind, key

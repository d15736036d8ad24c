"""``/api/v1/explain``: parses the question, and returns the explanation."""

from __future__ import annotations

from aiohttp import web

from monitor.alerting.explain.explanation import Explanation
from monitor.model.runs import PipelineKind, RunKey, RunKind
from monitor.web.api.alerts_api import no_alert
from monitor.web.api.explained_names import ExplainedNames, ExplainedThing
from monitor.web.http.problems import ProblemDetails
from monitor.web.http.request_parsing import SHOWN, answer_json, parse_word
from monitor.web.requests import AlertingRequests

_FORMS = {
    "name": "NAME",
    "alert": "FINGERPRINT",
    "run": "WORKSPACE/KIND/ID",
    "pipeline": "WORKSPACE/KIND/ID",
}


class ExplainApi:
    """The handler of ``/api/v1/explain``, also for the page."""

    def __init__(self, requests: AlertingRequests, *, names: ExplainedNames) -> None:
        self._requests = requests
        self._names = names

    def add_routes(self, router: web.UrlDispatcher) -> None:
        router.add_get("/api/v1/explain", self._explain)

    async def explanation(self, request: web.Request) -> Explanation:
        """Return the answer to a query.

        Raises:
            ProblemDetails: the query is wrong, or what it names is not known.
        """
        thing = await self._thing(request)
        if thing.kind is None:
            explanation = await self._requests.explain_alert(thing.id)
            if explanation is None:
                raise no_alert(thing.id, self._requests.snapshot())
        elif isinstance(thing.kind, RunKind):
            run = RunKey(thing.workspace, thing.kind, thing.id)
            explanation = await self._requests.explain_run(run)
            if explanation is None:
                raise await self._names.unknown_run(thing.kind, thing.id, [thing.workspace])
        else:
            explanation = await self._requests.explain_pipeline(
                thing.workspace, thing.kind, thing.id
            )
            if explanation is None:  # it was removed meanwhile
                raise ProblemDetails(404, f"{thing.kind} {thing.id[:SHOWN]!r} is not known")
        return explanation

    async def _explain(self, request: web.Request) -> web.Response:
        return answer_json(await self.explanation(request))

    async def _thing(self, request: web.Request) -> ExplainedThing:
        named = [name for name in _FORMS if name in request.query]
        if len(named) != 1:
            forms = ", ".join(f"{name}={form}" for name, form in _FORMS.items())
            raise ProblemDetails(400, f"name one of {forms}")
        name, text = named[0], request.query[named[0]]
        if name == "name":
            return await self._names.find(text, request.query.get("workspace"))
        if name == "alert":
            return ExplainedThing(text)
        workspace, kind, key = _parts(name, text)
        if name == "run":
            run_kind = parse_word("run: kind", kind, RunKind)
            if "/" in key:
                raise _malformed(name, text)
            return ExplainedThing(key, run_kind, workspace)
        pipeline_kind = parse_word("pipeline: kind", kind, PipelineKind)
        return await self._names.of_kind(pipeline_kind, key, workspace)


def _parts(name: str, text: str) -> tuple[str, str, str]:
    workspace, _, rest = text.partition("/")
    kind, _, key = rest.partition("/")
    if not (workspace and kind and key):
        raise _malformed(name, text)
    return workspace, kind, key


def _malformed(name: str, text: str) -> ProblemDetails:
    return ProblemDetails(400, f"{name}: {text[:SHOWN]!r} is not {_FORMS[name]}")

"""Explains why people were notified of an alert, a run or a pipeline, or why not."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from monitor.alerting.explain.explanation import Explanation
from monitor.model.runs import PipelineKind, RunKey, RunKind
from monitor.web.http.problem_details import ProblemDetails
from monitor.web.http.request_parsing import SHOWN, parse_word
from monitor.web.views.alerts.alert_details import no_alert
from monitor.web.views.alerts.explained_names import ExplainedNames, ExplainedThing
from monitor.web.views.sources import ViewSources
from monitor.web.views.view import view

_FORMS = {
    "name": "NAME",
    "alert": "FINGERPRINT",
    "run": "WORKSPACE/KIND/ID",
    "pipeline": "WORKSPACE/KIND/ID",
}


class ExplainQuery(Struct, frozen=True, kw_only=True):
    """One of the first four says what to explain; ``workspace`` narrows a name."""

    name: Annotated[str, Meta(description="Anything, by its id or name.")] | None = None
    alert: Annotated[str, Meta(description="The fingerprint of an alert.")] | None = None
    run: Annotated[str, Meta(description="A run: `WORKSPACE/KIND/ID`.")] | None = None
    pipeline: Annotated[str, Meta(description="A flow or plan: `WORKSPACE/KIND/ID`.")] | None = None
    workspace: str | None = None


@view("explain", "/api/v1/explain", "Why people were notified, or not.")
async def explain_view(sources: ViewSources, query: ExplainQuery) -> Explanation:
    """Return the answer to a query.

    Raises:
        ProblemDetails: the query is wrong, or what it names is not known.
    """
    thing = await _thing(sources, query)
    if thing.kind is None:
        explanation = await sources.alerting.explain_alert(thing.id)
        if explanation is None:
            raise no_alert(thing.id, sources.alerting.snapshot().alerts)
    elif isinstance(thing.kind, RunKind):
        run = RunKey(thing.workspace, thing.kind, thing.id)
        explanation = await sources.alerting.explain_run(run)
        if explanation is None:
            raise await ExplainedNames(sources).unknown_run(thing.kind, thing.id, [thing.workspace])
    else:
        explanation = await sources.alerting.explain_pipeline(thing.workspace, thing.kind, thing.id)
        if explanation is None:  # it was removed meanwhile
            raise ProblemDetails(404, f"{thing.kind} {thing.id[:SHOWN]!r} is not known")
    return sources.as_read(explanation)


async def _thing(sources: ViewSources, query: ExplainQuery) -> ExplainedThing:
    named = {name: text for name in _FORMS if (text := getattr(query, name)) is not None}
    if len(named) != 1:
        forms = ", ".join(f"{name}={form}" for name, form in _FORMS.items())
        raise ProblemDetails(400, f"name one of {forms}")
    ((name, text),) = named.items()
    if name == "name":
        return await ExplainedNames(sources).find(text, query.workspace)
    if name == "alert":
        return ExplainedThing(text)
    workspace, kind, key = _parts(name, text)
    if name == "run":
        run_kind = parse_word("run: kind", kind, RunKind)
        if "/" in key:
            raise _malformed(name, text)
        return ExplainedThing(key, run_kind, workspace)
    pipeline_kind = parse_word("pipeline: kind", kind, PipelineKind)
    return await ExplainedNames(sources).of_kind(pipeline_kind, key, workspace)


def _parts(name: str, text: str) -> tuple[str, str, str]:
    workspace, _, rest = text.partition("/")
    kind, _, key = rest.partition("/")
    if not (workspace and kind and key):
        raise _malformed(name, text)
    return workspace, kind, key


def _malformed(name: str, text: str) -> ProblemDetails:
    return ProblemDetails(400, f"{name}: {text[:SHOWN]!r} is not {_FORMS[name]}")

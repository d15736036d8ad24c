"""Explains why people were notified of an alert, a run or a pipeline, or why not."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Annotated

from msgspec import Meta, Struct

from monitor.alerting.explain.explanation import Explanation
from monitor.model.live_state import NamedPipeline
from monitor.model.runs import PipelineKind, RunKey, RunKind
from monitor.model.suggestions import did_you_mean
from monitor.web.http.problem_details import ProblemDetails
from monitor.web.http.request_parsing import SHOWN, one_line, parse_word
from monitor.web.views.alerts.alert_details import no_alert
from monitor.web.views.view import ViewSources, view

_NEAREST = 3
_CHOICES = 10  # names that fit into a line
_COMPARED = 200  # characters of a name that nothing has
_KINDS: dict[str, RunKind | PipelineKind] = {kind: kind for kind in (*RunKind, *PipelineKind)}

_FORMS = {
    "name": "NAME",
    "alert": "FINGERPRINT",
    "run": "WORKSPACE/KIND/ID",
    "pipeline": "WORKSPACE/KIND/ID",
}


class ExplainedThing(Struct, frozen=True):
    """An alert by its fingerprint (``kind`` None), or a run or pipeline of a workspace."""

    id: str
    kind: RunKind | PipelineKind | None = None
    workspace: str = ""


class ExplainedNames:
    """Looks names up among alerts, known pipelines and stored runs."""

    def __init__(self, sources: ViewSources) -> None:
        self._sources = sources

    async def find(self, text: str, workspace: str | None) -> ExplainedThing:
        """Return what a text names in any of its forms.

        Raises:
            ProblemDetails: it names nothing that is known, or several things.
        """
        of, _, rest = text.partition(":")
        kind, _, name = rest.partition(":")
        if kind in _KINDS:
            return await self.of_kind(_KINDS[kind], name, of)
        kind, _, name = text.partition("/")
        if kind in _KINDS:
            return await self.of_kind(_KINDS[kind], name, workspace)
        if not text.strip():
            raise ProblemDetails(400, "name: name an alert, a run, a flow or a plan")
        pipelines, names = self._pipelines(workspace), self._workspaces(workspace)
        found = [*self._alerts(text), *_named(pipelines, text)]
        found += await self._runs(text, RunKind, names)
        if not found:
            self._sources.refuse_unknown(workspace)
            alerts = [alert.fingerprint for alert in self._sources.alerting.snapshot().alerts]
            raise ProblemDetails(
                404,
                f"{_shown(text)} is not known: searched the fingerprints of "
                f"{_count(len(alerts), 'alert')}, the ids and names of {len(pipelines)} flows and "
                f"plans, and the stored runs of {', '.join(names)}"
                f"{await _nearest(text, [*map(_name, pipelines), *alerts])}",
            )
        return _the_only(found, _shown(text))

    async def of_kind(
        self, kind: RunKind | PipelineKind, text: str, workspace: str | None
    ) -> ExplainedThing:
        """Return a run by its id, or a flow or plan by its id or name.

        Raises:
            ProblemDetails: it names no pipeline that is known, or several things.
        """
        names = self._workspaces(workspace)
        if isinstance(kind, RunKind):
            if len(names) == 1:
                return ExplainedThing(text, kind, names[0])  # the log may hold a forgotten one
            runs = await self._runs(text, [kind], names)
            if not runs:
                raise await self.unknown_run(kind, text, names)
            return _the_only(runs, f"{kind} {_shown(text)}")
        pipelines = [known for known in self._pipelines(workspace) if known.kind is kind]
        # An id is clear, also where another one has it as its name.
        found = [_thing(known) for known in pipelines if known.id == text]
        found = found or _named(pipelines, text)
        if not found:
            self._sources.refuse_unknown(workspace)
            raise ProblemDetails(
                404,
                f"{kind} {_shown(text)} is not known: searched the ids and names of "
                f"{_count(len(pipelines), kind)} of {', '.join(names)}"
                f"{await _nearest(text, map(_name, pipelines))}",
            )
        return _the_only(found, f"{kind} {_shown(text)}")

    async def unknown_run(
        self, kind: RunKind, text: str, workspaces: Sequence[str]
    ) -> ProblemDetails:
        """Return the problem that no such run is known, with one of another kind if there is."""
        if len(workspaces) == 1:
            self._sources.refuse_unknown(workspaces[0])
        others = await self._runs(text, RunKind, self._workspaces(None))
        there = f"; there is {', '.join(_clear_names(others))}" if others else ""
        path = f"{kind}/{text}" if len(workspaces) > 1 else f"{workspaces[0]}/{kind}/{text}"
        return ProblemDetails(
            404,
            f"run {one_line(path)[:_COMPARED]} is not known: it is neither among the stored runs "
            f"of {', '.join(workspaces)}, where ended ones are kept for `runs_seconds`, nor in the "
            f"event log{there}",
        )

    def _workspaces(self, workspace: str | None) -> list[str]:
        if workspace is not None:
            return [workspace]
        return self._sources.workspace_names

    def _pipelines(self, workspace: str | None) -> list[NamedPipeline]:
        return [
            pipeline
            for pipeline in self._sources.live.pipelines()
            if workspace in (None, pipeline.workspace)
        ]

    def _alerts(self, text: str) -> list[ExplainedThing]:
        """Return the alert of a fingerprint, which may follow the rule's name as in topics."""
        key = text.rpartition("/")[2]
        is_known = any(
            alert.fingerprint == key for alert in self._sources.alerting.snapshot().alerts
        )
        return [ExplainedThing(key)] if is_known or self._sources.alerting.ended(key) else []

    async def _runs(
        self, text: str, kinds: Iterable[RunKind], workspaces: Iterable[str]
    ) -> list[ExplainedThing]:
        keys = [RunKey(name, kind, text) for name in workspaces for kind in kinds]
        stored = await self._sources.runs.runs(keys)
        return [ExplainedThing(key.id, key.kind, key.workspace) for key in keys if key in stored]


def _named(pipelines: Sequence[NamedPipeline], text: str) -> list[ExplainedThing]:
    """Return the pipelines with that id or name; in another case where none has it as it is."""
    found = [known for known in pipelines if text in (known.id, known.name, known.label)]
    folded = text.casefold()
    found = found or [known for known in pipelines if _name(known).casefold() == folded]
    return [_thing(known) for known in found]


def _the_only(found: Sequence[ExplainedThing], named: str) -> ExplainedThing:
    if len(found) > 1:
        choices = ", ".join(_clear_names(found))
        raise ProblemDetails(400, f"{named} is ambiguous: name one of {choices}")
    return found[0]


def _clear_names(things: Sequence[ExplainedThing]) -> list[str]:
    """Return a name for each that fits no other; with its workspace where there are several."""
    has_several = len({thing.workspace for thing in things if thing.kind}) > 1
    return [
        thing.id
        if thing.kind is None
        else f"{thing.workspace}:{thing.kind}:{thing.id}"
        if has_several
        else f"{thing.kind}/{thing.id}"
        for thing in things[:_CHOICES]
    ]


async def _nearest(text: str, names: Iterable[str]) -> str:
    # In a thread: it compares every name, and there may be thousands.
    known = dict.fromkeys(names)
    return await asyncio.to_thread(did_you_mean, text[:_COMPARED], known, most=_NEAREST)


def _thing(pipeline: NamedPipeline) -> ExplainedThing:
    return ExplainedThing(pipeline.id, pipeline.kind, pipeline.workspace)


def _name(pipeline: NamedPipeline) -> str:
    return pipeline.name or pipeline.label


def _shown(text: str) -> str:
    return repr(one_line(text[:SHOWN]))


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


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
    thing = await _asked(sources, query)
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


async def _asked(sources: ViewSources, query: ExplainQuery) -> ExplainedThing:
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

"""Checks whether flows and plans exist that the globs of the configuration match.

A match that fits nothing looks like one whose pipelines are all well. Where globs name flows,
plans or folders, the lists of the workspace are read whole; no daemon is asked.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TypeVar, cast

from msgspec import Struct
from msgspec.structs import asdict

from monitor.alerting.alerts.silences import SilenceSettings, matcher
from monitor.catalogue.capabilities import Capability
from monitor.config import Configuration
from monitor.model.checks import CheckLine, ok, warning
from monitor.model.errors import NotAvailableError
from monitor.model.globs import EXCLUDES, fits_some, parse_globs
from monitor.model.runs import RUN_KINDS, PipelineKind
from monitor.outputs.notify.settings import NotifySettings
from monitor.workspace.client import Priority, WorkspaceClient
from monitor.workspace.payloads import FlowRow, Page

READ_SECONDS = 60.0  # for the lists of one workspace
_MOST_PAGES = 200  # of one list
_MOST_NAMED = 5  # globs of one key in one line
_SUBJECT = "match"
_NOUNS = {"pipeline": "flow or plan", "folder": "folder of a flow"}
_TOGETHER = "each of its globs fits something, but no flow or plan fits all its keys"
_HINT = (
    "correct its match; the token may not see it either, and what is still to be made fits later"
)
_OF_LABELS = {"workspace": "workspace", "pipeline": "pipeline", "pipeline_id": "pipeline"}

_Row = TypeVar("_Row")


class ListedPipeline(Struct, frozen=True, kw_only=True):
    """One flow or plan, as globs match it."""

    kind: PipelineKind
    names: tuple[str, ...]  # its name and its id
    folder: str | None = None

    def words(self, key: str) -> tuple[str, ...]:
        if key == "pipeline":
            return self.names
        if key == "kind":
            return RUN_KINDS[self.kind]
        return () if self.folder is None else (self.folder,)


class _Table(Struct, frozen=True, kw_only=True):
    """The globs of one table of the configuration, by the keys of its match."""

    name: str
    globs: Mapping[str, tuple[str, ...]]

    @property
    def keys(self) -> list[str]:
        """The keys about flows and plans that it has."""
        return [key for key in _NOUNS if self.globs.get(key)]

    def is_about(self, workspace: str) -> bool:
        return parse_globs(self.globs.get("workspace", ())).match([workspace])

    def problem(self, pipelines: Sequence[ListedPipeline]) -> str | None:
        """Return what fits none of the pipelines; None where one of them fits all."""
        problems: list[str] = []
        for key in self.keys:
            words = dict.fromkeys(word for listed in pipelines for word in listed.words(key))
            included = [glob for glob in self.globs[key] if not glob.startswith(EXCLUDES)]
            unfit = [glob for glob in included if not parse_globs([glob]).match(words)]
            # Looking for the closest name takes long where there are thousands.
            if (problem := fits_some(unfit[:_MOST_NAMED], words, _NOUNS[key])) is not None:
                problems.append(problem)
            if len(unfit) > _MOST_NAMED:
                problems.append(f"{len(unfit) - _MOST_NAMED:,} more fit no {_NOUNS[key]}")
        if problems:
            return "; and ".join(problems)
        parsed = {key: parse_globs(self.globs.get(key, ())) for key in (*_NOUNS, "kind")}
        fits = any(
            all(globs.match(listed.words(key)) for key, globs in parsed.items())
            for listed in pipelines
        )
        return None if fits else _TOGETHER


class MatchChecks:
    """Compares the globs of the configuration with what its workspaces list."""

    def __init__(self, configuration: Configuration, *, now: datetime) -> None:
        self._workspaces = [workspace.name for workspace in configuration.workspaces]
        self._tables = [table for table in _tables(configuration, now) if table.keys]
        self._listed: dict[str, Sequence[ListedPipeline]] = {}  # of those that were read whole

    async def read(
        self, client: WorkspaceClient, capabilities: frozenset[Capability]
    ) -> list[CheckLine]:
        """Read the lists of a workspace where they are needed; return no lines."""
        about = [table for table in self._tables if table.is_about(client.name)]
        can_list = Capability.LIST_FLOWS in capabilities and (
            Capability.LIST_PLANS in capabilities or Capability.LIST_PLAN_RUNS not in capabilities
        )
        if about and can_list:
            with_folders = any("folder" in table.keys for table in about)
            listed = await _listed(client, capabilities, with_folders=with_folders)
            if listed is not None:
                self._listed[client.name] = listed
        return []

    def lines(self) -> list[CheckLine]:
        """Return a warning for each table that fits nothing; may take a second."""
        lines: list[CheckLine] = []
        unlisted: dict[str, None] = {}
        for table in self._tables:
            about = [name for name in self._workspaces if table.is_about(name)]
            if missing := [name for name in about if name not in self._listed]:
                unlisted |= dict.fromkeys(missing)
                continue
            problem = table.problem([listed for name in about for listed in self._listed[name]])
            if problem is not None:
                lines.append(warning(f"{_SUBJECT} of {table.name}", problem, _HINT))
        if unlisted:
            names = ", ".join(unlisted)
            lines.append(ok(_SUBJECT, f"not compared where it is about {names}: no whole lists"))
        elif self._tables and not lines:
            lines.append(ok(_SUBJECT, f"{len(self._tables)} that name flows or plans fit some"))
        return lines


def _tables(configuration: Configuration, now: datetime) -> Iterator[_Table]:
    alerting, notify = configuration.alerting, configuration.output(NotifySettings)
    for rule in alerting.rules:
        yield _Table(name=f"rule {rule.name}", globs=asdict(rule.match))
    for channel in () if notify is None else notify.channels:
        yield _Table(name=f"channel {channel.name}", globs=asdict(channel.match))
    for report in configuration.reports:
        yield _Table(name=f"report {report.name}", globs=asdict(report.match))
    for silence in alerting.silences:
        if silence.ends_at > now:
            yield _of_silence(silence)


def _of_silence(silence: SilenceSettings) -> _Table:
    globs: dict[str, tuple[str, ...]] = {}
    for text in silence.matchers:
        parsed = matcher(text, labels=None)
        if parsed.is_wanted and (key := _OF_LABELS.get(parsed.label)) is not None:
            globs[key] = (*globs.get(key, ()), parsed.glob)
    return _Table(name=f"silence {', '.join(silence.matchers)}", globs=globs)


async def _listed(
    client: WorkspaceClient, capabilities: frozenset[Capability], *, with_folders: bool
) -> list[ListedPipeline] | None:
    """Return all flows and plans; None where there are too many to read."""
    pipelines, priority = client.pipelines, Priority.CHANGES
    flows = await _rows(pipelines.flows(priority=priority))
    can_list_plans = Capability.LIST_PLANS in capabilities
    plans = await _rows(pipelines.plans(priority=priority)) if can_list_plans else []
    if flows is None or plans is None:
        return None
    folders = await _folders(client, flows) if with_folders else {}
    found = [
        ListedPipeline(
            kind=PipelineKind.FLOW,
            names=_names(flow.name, flow.id),
            folder=flow.folder_name or folders.get(flow.folder_id or "", flow.folder_id),
        )
        for flow in flows
    ]
    # A snapshot has the name of its plan, and an id that no run is shown under.
    plans = [plan for plan in plans if not plan.is_snapshot]
    found += (
        ListedPipeline(kind=PipelineKind.PLAN, names=_names(plan.name, plan.id)) for plan in plans
    )
    return found


async def _folders(client: WorkspaceClient, flows: Sequence[FlowRow]) -> dict[str, str]:
    """Return names by id, where the flows show ids alone."""
    if all(flow.folder_name is not None or flow.folder_id is None for flow in flows):
        return {}
    try:
        rows = await _rows(client.pipelines.folders(priority=Priority.CHANGES)) or []
    except NotAvailableError:
        return {}  # the id stands in, as it does for the daemon
    return {row.id: row.name for row in rows if row.name is not None}


async def _rows(pages: AsyncIterator[Page[_Row]]) -> list[_Row] | None:
    """Return the rows of a whole list; None where it has more pages than are read."""
    generator = cast("AsyncGenerator[Page[_Row], None]", pages)
    rows: list[_Row] = []
    read = 0
    async with contextlib.aclosing(generator) as reading:
        async for page in reading:
            rows += page.rows
            read += 1
            if read == _MOST_PAGES:
                return None
    return rows


def _names(name: str | None, row_id: str) -> tuple[str, ...]:
    return (row_id,) if name is None else (name, row_id)

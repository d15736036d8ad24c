"""The declaration of a view, a box of a page and a route of the JSON API in one; its sources."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any, TypeVar, get_type_hints

import msgspec
from markupsafe import Markup
from msgspec import Struct

from monitor.alerting.explain.explanation import Explanation
from monitor.bus.contract import StoredLog, StoredRuns
from monitor.bus.shards import ClusterStatus
from monitor.model.alert_texts import with_texts
from monitor.model.alerts import Alert
from monitor.model.clock import Clock
from monitor.model.live_state import WorkspaceStatus
from monitor.web.audit.audit_log import AuditLog
from monitor.web.health import ClusterProblems, DaemonStatus, ReadChecks
from monitor.web.http.problem_details import ProblemDetails
from monitor.web.http.request_parsing import unknown
from monitor.web.principals import Role
from monitor.web.requests import AlertingRequests
from monitor.web.settings import ServerSettings
from monitor.web.shown_shards import ShardDirectory, ShownLiveState

T = TypeVar("T")


def sees_everything(workspace: str) -> bool:
    """Show every workspace."""
    del workspace
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewSources:
    """Live state, store, alerting and health of all shards, as the daemon hands them in."""

    shards: ShardDirectory
    runs: StoredRuns
    log: StoredLog
    audit: AuditLog
    live_state: Callable[[], ShownLiveState]
    clock: Clock
    settings: ServerSettings
    checks: ReadChecks
    alerting_requests: Callable[[], AlertingRequests]
    daemon: Callable[[], DaemonStatus]
    cluster: Callable[[], Awaitable[ClusterStatus | None]]
    cluster_problems: Callable[[], ClusterProblems]
    is_shared: bool  # other daemons may share the store
    sees: Callable[[str], bool] = sees_everything  # whether a workspace is shown
    made: dict[Any, Any] = field(default_factory=dict, repr=False)  # by `shared`

    def shared(self, make: Callable[[ViewSources], T]) -> T:
        """Return what is made of these sources once, for all views and all who look."""
        if make not in self.made:
            self.made[make] = make(self)
        found: T = self.made[make]
        return found

    @property
    def live(self) -> ShownLiveState:
        """The live state of now; with one shard that shard's own."""
        return self.live_state()

    @property
    def alerting(self) -> AlertingRequests:
        """The requests of alerting and outputs now; with one shard that shard's own."""
        return self.alerting_requests()

    @property
    def workspace_names(self) -> list[str]:
        """The workspaces that are followed, in the order of the configuration."""
        return [status.workspace for status in self.live.workspaces()]

    def refuse_unknown(
        self, workspace: str | None, *, status: int = 400, also: Sequence[str] = ()
    ) -> None:
        """Raise a problem where a request names a workspace that is not known, nor one of ``also``.

        For requests that found nothing: of a former workspace there may still be runs and alerts.
        """
        known = [*self.workspace_names, *also]
        if workspace is not None and workspace not in known:
            raise ProblemDetails(status, f"workspace: {unknown(workspace, known)}")

    def workspaces(self, name: str | None) -> list[WorkspaceStatus]:
        """Return the workspace of that name, or all of them.

        Raises:
            ProblemDetails: there is none of that name.
        """
        self.refuse_unknown(name)
        return [status for status in self.live.workspaces() if name in (None, status.workspace)]

    def time_of(self, alert: Alert) -> datetime:
        """Return the present by the clock of what an alert is about."""
        return self.live.time_of(alert, self.clock.now())

    def as_read(self, explanation: Explanation) -> Explanation:
        """Return the explanation with the texts of its alerts as they read now."""
        alerts = [with_texts(alert, self.time_of(alert)) for alert in explanation.alerts]
        return msgspec.structs.replace(explanation, alerts=tuple(alerts))


class NoParameters(Struct, frozen=True, kw_only=True):
    """No parameters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """One read, shown as a box of a page and as JSON.

    ``read`` gets the parsed query and returns the view model. The fields of ``query`` are the
    parameters of the URL, those named in the path among them; each has a default but for those of
    the path. The box's template is ``boxes/{name}.html``.

    Raises, from ``read``:
        ProblemDetails: what the query names does not exist, or fits nothing.
    """

    name: str  # lower case, with underscores; also the id of the box
    summary: str  # one sentence: what it shows
    api: str  # its route, such as "/api/v1/runs/{workspace}/{kind}/{id}"
    query: type[Struct]
    answer: type[Struct]
    role: Role = Role.READ  # that who reads it needs
    is_whole: bool = False  # about the daemon: not for who sees some workspaces only
    read: Callable[[Any], Awaitable[Struct]]  # of ``query``, which a type cannot say here


def view(
    name: str, api: str, summary: str, *, role: Role = Role.READ, is_whole: bool = False
) -> Callable[[Callable[[ViewSources, Any], Awaitable[Struct]]], Callable[[ViewSources], View]]:
    """Make a view of a function that reads it: of the sources, by a query of the type it names."""

    def declare(
        read: Callable[[ViewSources, Any], Awaitable[Struct]],
    ) -> Callable[[ViewSources], View]:
        _, query, answer = get_type_hints(read).values()

        def made(sources: ViewSources) -> View:
            return View(
                name=name,
                summary=summary,
                api=api,
                query=query,
                answer=answer,
                role=role,
                is_whole=is_whole,
                read=partial(read, sources),
            )

        return made

    return declare


@dataclass(frozen=True, slots=True, kw_only=True)
class WebPage:
    """A page: boxes under one URL, which share its query."""

    path: str  # such as "/runs/{workspace}/{kind}/{id}"
    # Such as "Run {id}", with fields of the query in braces; or what names the query's object.
    title: str | Callable[[Any], str]
    boxes: tuple[View, ...]
    in_menu: str | None = None  # the word of the menu that leads here
    scripts: tuple[str, ...] = ()  # files of ``static`` that this page needs beside the usual ones
    styles: tuple[str, ...] = ()
    is_live: bool = True  # refreshed whenever something has changed
    role: Role = Role.READ  # that who reads it needs
    is_whole: bool = False  # as of a view
    document: Callable[[], Markup] | None = None  # below the boxes; may take longer than a step

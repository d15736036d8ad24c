"""The workspaces: whether they answer, what they can do, what is not watched and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta

import msgspec
from msgspec import Struct

from monitor.alerting.explain.never_shown import why_no_progress
from monitor.catalogue.capabilities import Capability
from monitor.model.inventory import Figures, Inventory
from monitor.model.live_state import (
    Authentication,
    ClockSetBack,
    DoubtedList,
    HistoryRead,
    Reachability,
    ReachabilityStretch,
    TokenStatus,
    UnreadableRun,
    WorkspaceStatus,
)
from monitor.model.public_shapes import filled
from monitor.model.runs import PipelineKind
from monitor.model.slices import in_slices
from monitor.web.views.view import NoParameters, ViewSources, view
from monitor.web.views.watching import Unwatched, unlisted, unwatched, without_progress

_SHOWN = timedelta(days=7)

# What each is good for, for people.
_CAPABILITIES = {
    Capability.LIST_CHANGES: "list the runs that have changed",
    Capability.FOLLOW_BY_ID: "read a run by its id",
    Capability.READ_JOBS: "read the jobs of a run: progress and errors",
    Capability.FOLLOW_FLOW_RUNS: "follow flow runs",
    Capability.LIST_PLAN_RUNS: "list plan runs",
    Capability.MAP_PLAN_SNAPSHOTS: "find the plan of a plan run",
    Capability.LIST_FLOWS: "list flows, for their names",
    Capability.LIST_PLANS: "list plans, for their names",
    Capability.READ_SCHEDULES: "read schedules",
    Capability.CREATE_WEBHOOK_TASKS: "register webhook tasks, for callbacks",
    Capability.TEST_WEBHOOKS: "test webhooks",
    Capability.KNOW_THE_PERSON: "know the owner of the token",
    Capability.COUNT_OBJECTS: "count objects",
    Capability.READ_CONNECTIONS: "read connections",
    Capability.READ_TOKENS: "read access tokens, for their expiry",
    Capability.READ_CONFIGURATION: "read the workspace's settings",
    Capability.READ_USAGE: "read compute usage",
    Capability.READ_PROFILES: "read profiles, for the quality of outputs",
}


class WorkspaceQuery(Struct, frozen=True, kw_only=True):
    """One workspace, by its name."""

    workspace: str


class WorkspaceView(Struct, frozen=True, kw_only=True):
    """One workspace. Instants are ours, but for ``followed_since`` and ``history``."""

    workspace: str
    reachability: str
    since: datetime | None
    known_at: datetime | None
    does_not_answer: str | None  # in words; then ``reason`` has the details
    reason: str | None
    edition: str | None
    edition_reason: str | None
    capabilities: tuple[str, ...]
    clock_skew_seconds: float | None
    followed_since: datetime | None
    history: HistoryRead | None  # of this life: how far back runs are known; workspace time
    reading: tuple[str, ...]  # what is read for the first time and not known yet
    authentication: Authentication | None  # None: its holder shows it
    refreshed_token: TokenStatus | None  # of a pair that this daemon refreshes; never a token
    active_runs: int
    webhook_tasks: dict[str, int]
    callbacks_missed: int
    schedules_watched: int  # those that the token can see; others are not guessed
    schedules_of: str | None  # their owner
    # Kinds of runs, and "schedules", without news now; "unlisted_" and a kind with runs that no
    # list shows; "progress_of_job_group".
    unwatched: tuple[str, ...]
    unwatched_because: tuple[Unwatched, ...]  # the same, each with the reason
    is_here: bool  # False: another daemon holds it, or none; shown as it is stored
    holder: str | None  # id of that daemon
    holder_url: str | None  # of its page, which alone shows polls and budgets
    as_of: datetime | None  # when it was read from the store; None: it is not


class WorkspaceList(Struct, frozen=True, kw_only=True):
    """The workspaces in the order of the configuration."""

    data: tuple[WorkspaceView, ...]
    next: str | None = None


class CapabilityView(Struct, frozen=True, kw_only=True):
    """What the monitor can do there. ``state`` is available, refused or missing.

    Refused is what the workspace gave before; ``since`` (ours) and ``reason`` are of that.
    """

    capability: str
    in_words: str
    state: str
    since: datetime | None = None
    reason: str | None = None


class TokenView(Struct, frozen=True, kw_only=True):
    """An access token of the workspace. ``expires_at`` is workspace time."""

    id: str
    expires_at: datetime


class WorkspaceDetails(WorkspaceView, frozen=True, kw_only=True):
    """One workspace in full. Instants are ours, but for ``followed_since`` and of tokens."""

    capabilities_in_words: tuple[CapabilityView, ...]
    doubted: tuple[DoubtedList, ...]
    unreadable: tuple[UnreadableRun, ...]  # runs whose every read fails
    clock_set_back: ClockSetBack | None
    is_remembered: bool  # as before the start; nothing has confirmed it since
    flows: int
    plans: int
    tokens: tuple[TokenView, ...]
    objects: dict[str, float]  # type -> how many; empty where the inventory is off
    usage: dict[str, float]  # measure -> as served
    connections: dict[str, bool]  # name -> whether it could be opened


class _Active(Struct, kw_only=True):
    """How many runs are active in a workspace, and the ids of those that show no progress."""

    status: WorkspaceStatus
    runs: int = 0
    without_progress: dict[str, str] = {}  # by id, with the reason


@view("workspaces", "/api/v1/workspaces", "The workspaces, and whether they answer.")
async def workspaces_view(sources: ViewSources, _: NoParameters) -> WorkspaceList:
    statuses = sources.live.workspaces()
    active = await _active_in(sources, statuses)
    return WorkspaceList(data=tuple(_view(sources, status, active) for status in statuses))


@view(
    "workspace",
    "/api/v1/workspaces/{workspace}",
    "One workspace: edition, capabilities, what is not watched and why, inventory.",
)
async def workspace_details_view(sources: ViewSources, query: WorkspaceQuery) -> WorkspaceDetails:
    sources.refuse_unknown(query.workspace, status=404)
    (status,) = sources.workspaces(query.workspace)
    active = await _active_in(sources, [status], query.workspace)
    kinds: Counter[PipelineKind] = Counter()
    async for pipeline in in_slices(sources.live.pipelines()):  # ten thousand
        kinds[pipeline.kind] += pipeline.workspace == query.workspace
    inventory, now = status.inventory, sources.clock.now()
    return WorkspaceDetails(
        **msgspec.structs.asdict(_view(sources, status, active)),
        capabilities_in_words=_capabilities(status),
        doubted=status.doubted,
        unreadable=status.unreadable,
        clock_set_back=status.clock_set_back,
        is_remembered=status.is_remembered,
        flows=kinds[PipelineKind.FLOW],
        plans=kinds[PipelineKind.PLAN],
        tokens=_tokens(inventory, now),
        objects=_valid(inventory.objects, now),
        usage=_valid(inventory.usage, now),
        connections={
            connection.name: connection.is_up
            for connection in inventory.connections
            if connection.until > now
        },
    )


async def _active_in(
    sources: ViewSources, statuses: Iterable[WorkspaceStatus], workspace: str | None = None
) -> Mapping[str, _Active]:
    """Return what is active in each of these workspaces; ``workspace``: only there."""
    found = {status.workspace: _Active(status=status) for status in statuses}
    async for active in in_slices(sources.live.active_runs(workspace)):  # thousands
        if (own := found.get(active.run.key.workspace)) is not None:
            own.runs += 1
            if (why := why_no_progress(active.run, own.status)) is not None:
                own.without_progress[active.run.key.id] = why
    return found


def _view(
    sources: ViewSources, status: WorkspaceStatus, active: Mapping[str, _Active]
) -> WorkspaceView:
    own, mirrored = active[status.workspace], sources.shards.mirrored_of(status.workspace)
    found = (
        *unwatched(sources.live, status),
        *unlisted(status),
        *without_progress(own.without_progress),
    )
    return filled(
        WorkspaceView,
        status,
        capabilities=tuple(sorted(status.capabilities)),
        reading=sources.live.first_reads(status.workspace),
        refreshed_token=status.token,
        active_runs=own.runs,
        schedules_watched=len(status.schedules),
        unwatched=tuple(known.what for known in found),
        unwatched_because=found,
        is_here=mirrored is None,
        holder=None if mirrored is None else mirrored.holder,
        holder_url=None if mirrored is None else mirrored.url,
        as_of=None if mirrored is None else mirrored.read_at,
    )


def _capabilities(status: WorkspaceStatus) -> tuple[CapabilityView, ...]:
    refused = {known.capability: known for known in status.refused}
    views: list[CapabilityView] = []
    for capability in Capability:
        known = refused.get(capability)
        state = "available" if capability in status.capabilities else "missing"
        views.append(
            CapabilityView(
                capability=capability,
                in_words=_CAPABILITIES[capability],
                state="refused" if known is not None else state,
                since=known.since if known is not None else None,
                reason=known.reason if known is not None else None,
            )
        )
    return tuple(views)


def _tokens(inventory: Inventory, now: datetime) -> tuple[TokenView, ...]:
    """Return the tokens, those that expire first before others."""
    tokens = _valid(inventory.tokens, now)
    return tuple(
        TokenView(id=token, expires_at=datetime.fromtimestamp(seconds, tz=UTC))
        for token, seconds in sorted(tokens.items(), key=lambda item: item[1])
    )


def _valid(figures: Figures | None, now: datetime) -> dict[str, float]:
    """Return figures that still count; none of those that were read too long ago."""
    return figures.values if figures is not None and figures.until > now else {}


class ReachabilityView(Struct, frozen=True, kw_only=True):
    """Stretches from the first that is known until ``until``, oldest first. Instants are ours.

    In stretches that are ``unknown`` it was not watched; the ratio is of the time in which it was.
    """

    begin: datetime  # seven days before ``until``
    until: datetime
    watched_seconds: float
    reachable_ratio: float | None  # degraded is not reachable
    data: tuple[ReachabilityStretch, ...]
    next: str | None = None

    def part_of(self, at: datetime) -> float:
        """Return where an instant lies between the two ends, from 0 to 1."""
        return min(max((at - self.begin) / (self.until - self.begin), 0.0), 1.0)


@view(
    "reachability",
    "/api/v1/workspaces/{workspace}/reachability",
    "How a workspace answered in the last seven days.",
)
async def reachability_view(sources: ViewSources, query: WorkspaceQuery) -> ReachabilityView:
    live, now = sources.live, sources.clock.now()
    sources.refuse_unknown(query.workspace, status=404)
    stretches = live.reachability_history(
        query.workspace,
        now=now,
        stale_after_seconds=sources.settings.stale_after_seconds,
    )
    watched = [stretch for stretch in stretches if stretch.reachability is not Reachability.UNKNOWN]
    total = sum((stretch.until - stretch.since for stretch in watched), timedelta())
    reachable = sum(
        (
            stretch.until - stretch.since
            for stretch in watched
            if stretch.reachability is Reachability.REACHABLE
        ),
        timedelta(),
    )
    return ReachabilityView(
        begin=now - _SHOWN,
        until=now,
        watched_seconds=total.total_seconds(),
        reachable_ratio=reachable / total if total else None,
        data=stretches,
    )

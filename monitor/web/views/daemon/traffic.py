"""The traffic with workspaces: request budgets, polls, callbacks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, TypeVar

from msgspec import Meta, Struct

from monitor.model.live_state import PollStatus
from monitor.model.poll_outcomes import WELL_OUTCOMES
from monitor.model.public_shapes import filled
from monitor.model.words import counted
from monitor.web.views.view import ViewSources, view

T = TypeVar("T")

_OWN = "own"
_LOW = 0.1  # of a quota
# What each poll reads, for people.
_POLLS = {
    "changes": "runs that have changed",
    "plan_runs": "plan runs",
    "flow_runs": "ends of flow runs",
    "old_flow_runs": "ends of old flow runs",
    "derived_flow_runs": "confirmation of ends of flow runs",
    "by_id": "runs followed by their id",
    "refetch_queue": "runs to be read again",
    "plan_children": "runs that plan runs have started",
    "unlabelled_plan_runs": "plans of plan runs",
    "reasons": "reasons of failures",
    "details_left": "jobs of ended runs",
    "progress": "progress of active runs",
    "reconciliation": "runs that seem to be active",
    "relist": "all runs of the last day",
    "schedules": "schedules",
    "names": "names of flows and plans",
    "recipes": "names of recipes",
    "idle_pipelines": "last runs of idle pipelines",
    "connect": "the first connection",
    "recovery": "whether the workspace answers again",
    "probe": "what the workspace offers",
    "specification": "the served specification",
    "connections": "connections",
    "tokens": "access tokens",
    "usage": "compute usage",
    "objects": "counts of objects",
    "profiles": "profiles of outputs",
    "configuration": "settings of the workspace",
}


class TrafficQuery(Struct, frozen=True, kw_only=True):
    """Without ``workspace`` the worst of all come first, and the rest is cut."""

    workspace: str | None = None
    limit: Annotated[int, Meta(ge=1, le=1_000)] = 100


class BudgetView(Struct, frozen=True, kw_only=True):
    """What may be requested: our own limit a minute, or a quota that the workspace announced."""

    workspace: str
    scope: str
    limit: int
    remaining: int
    is_low: bool
    starved: tuple[str, ...]  # kinds of requests that found no room lately


class BudgetList(Struct, frozen=True, kw_only=True):
    """Budgets, the tightest first; ``hidden`` of them are cut."""

    data: tuple[BudgetView, ...]
    hidden: int
    elsewhere: str | None  # where workspaces are held by other daemons, whose pages alone show them
    next: str | None = None


class PollView(Struct, frozen=True, kw_only=True):
    """One poll of one workspace. Instants are ours."""

    workspace: str
    poll: str
    in_words: str
    last_attempt_at: datetime
    last_success_at: datetime | None
    last_outcome: str
    outcome_in_words: str
    is_overdue: bool
    is_failing: bool  # the last attempt did not read all that it should

    @property
    def needs_attention(self) -> bool:
        return self.is_overdue or self.is_failing


class PollList(Struct, frozen=True, kw_only=True):
    """Polls, overdue and failing ones first; ``hidden`` of them are cut."""

    data: tuple[PollView, ...]
    hidden: int
    overdue: int
    failing: int
    elsewhere: str | None  # as of `BudgetList`
    next: str | None = None


class CallbacksView(Struct, frozen=True, kw_only=True):
    """The callbacks of one workspace. ``tasks`` counts flows by the state of their webhook task."""

    workspace: str
    last_callback_at: datetime | None
    callbacks_missed: int  # since the start
    waiting: int  # stored, and not processed yet; in the shards that this daemon holds
    tasks: dict[str, int]


class CallbackList(Struct, frozen=True, kw_only=True):
    """Callbacks by workspace, most missed ones first; ``hidden`` of them are cut."""

    data: tuple[CallbacksView, ...]
    hidden: int
    elsewhere: str | None  # as of `BudgetList`
    next: str | None = None


@view("budgets", "/api/v1/monitor/budgets", "Requests that may still be sent to each workspace.")
async def budgets_view(sources: ViewSources, query: TrafficQuery) -> BudgetList:
    views = [
        filled(
            BudgetView,
            budget,
            workspace=status.workspace,
            # Our own is filled again all the time; only a quota comes to an end.
            is_low=budget.scope != _OWN and budget.remaining <= _LOW * budget.limit,
        )
        for status in sources.workspaces(query.workspace)
        for budget in status.budgets
    ]
    views.sort(key=lambda view: (not view.starved, view.remaining / max(view.limit, 1)))
    data, hidden = _cut(views, query.limit)
    return BudgetList(data=data, hidden=hidden, elsewhere=_elsewhere(sources, query))


@view(
    "polls",
    "/api/v1/monitor/polls",
    "What is read from each workspace, and when that last succeeded.",
)
async def polls_view(sources: ViewSources, query: TrafficQuery) -> PollList:
    names = {status.workspace for status in sources.workspaces(query.workspace)}
    now = sources.clock.monotonic()
    views = [_poll(poll, now=now) for poll in sources.live.polls() if poll.workspace in names]
    views.sort(
        key=lambda view: (not view.is_overdue, not view.is_failing, view.workspace, view.poll)
    )
    data, hidden = _cut(views, query.limit)
    return PollList(
        data=data,
        hidden=hidden,
        overdue=sum(view.is_overdue for view in views),
        failing=sum(view.is_failing for view in views),
        elsewhere=_elsewhere(sources, query),
    )


@view(
    "callbacks",
    "/api/v1/monitor/callbacks",
    "Callbacks of each workspace: the last one, missed ones, webhook tasks.",
)
async def callbacks_view(sources: ViewSources, query: TrafficQuery) -> CallbackList:
    statuses = sources.workspaces(query.workspace)
    inbox: Counter[str] = Counter()
    for shard in sources.shards.hosted():
        inbox.update((await shard.bus.status()).inbox)
    views = [
        filled(
            CallbacksView,
            status,
            waiting=inbox.get(status.workspace, 0),
            tasks=status.webhook_tasks,
        )
        for status in statuses
        if status.webhook_tasks or status.last_callback_at or inbox.get(status.workspace)
    ]
    views.sort(key=lambda view: (-view.callbacks_missed, view.workspace))
    data, hidden = _cut(views, query.limit)
    return CallbackList(data=data, hidden=hidden, elsewhere=_elsewhere(sources, query))


def _elsewhere(sources: ViewSources, query: TrafficQuery) -> str | None:
    """Return which of these workspaces other daemons hold, and where to look."""
    mirrored = [shard for shard in sources.shards.all() if shard.mirrored is not None]
    names = [status.workspace for shard in mirrored for status in shard.live.workspaces()]
    if query.workspace is None:
        count = f"{counted(len(names), 'workspace')} of other daemons: only their pages show it"
        return count if names else None
    found = sources.shards.mirrored_of(query.workspace)
    if found is None:
        return None
    where = f" ({found.url})" if found.url is not None else ""
    holder = f"{found.holder}{where}, and only its page shows this"
    return f"{query.workspace} is held by {holder if found.holder else 'no daemon'}"


def _cut(views: Sequence[T], limit: int) -> tuple[tuple[T, ...], int]:
    return tuple(views[:limit]), max(0, len(views) - limit)


def _poll(poll: PollStatus, *, now: float) -> PollView:
    return filled(
        PollView,
        poll,
        in_words=_POLLS.get(poll.poll, poll.poll.replace("_", " ")),
        outcome_in_words=poll.last_outcome.in_words,
        is_overdue=poll.is_overdue(now),
        is_failing=poll.last_outcome not in WELL_OUTCOMES,
    )

"""The daemons that share the store: who holds which shard since when, and shards without holder."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

from msgspec import Meta, Struct

from monitor.bus.shards import ClusterStatus, DaemonRecord, ShardRecord
from monitor.model.errors import BusError
from monitor.model.public_shapes import filled
from monitor.model.words import counted, listed
from monitor.web.http.problem_details import ProblemDetails
from monitor.web.http.request_parsing import unknown
from monitor.web.shown_shards import page_url
from monitor.web.views.overview.status import Level
from monitor.web.views.view import ViewSources, view

_NAMED = 3  # shards or daemons in a sentence
_ALONE = "The store is a file: no other daemon shares it"


class ClusterQuery(Struct, frozen=True, kw_only=True):
    """Which shards: those without a holder come first, then those that are furthest behind."""

    holder: Annotated[str | None, Meta(description="Id of a daemon; its shards only.")] = None
    limit: Annotated[int, Meta(ge=1, le=100_000, description="Shards in an answer.")] = 200


class DaemonView(Struct, frozen=True, kw_only=True):
    """One daemon. Instants are the database's; ``url`` is of its page."""

    id: str
    host: str
    process_id: int
    version: str
    url: str | None
    started_at: datetime
    last_heartbeat_at: datetime
    heartbeat_age_seconds: float
    is_alive: bool
    is_this: bool  # the one that answers
    shards: int  # that it holds


class ShardView(Struct, frozen=True, kw_only=True):
    """One shard. ``backlog`` are events that its slowest consumer has not read.

    ``held_since`` is when its holder got it, in the way that ``last_change`` says: claimed, handed
    over, taken over. ``taken_over_at`` is when a daemon last took it from one that was gone.
    ``as_of`` is when this daemon last read it from the store; None: it holds the shard itself, or
    has not read it yet.
    """

    name: str
    workspaces: tuple[str, ...]
    holder: str | None
    holder_url: str | None
    is_here: bool
    held_since: datetime | None
    epoch: int
    newest_position: int
    backlog: int
    inbox: int  # callbacks that its holder has not processed yet
    last_change: str
    taken_over_at: datetime | None
    as_of: datetime | None


class ClusterOverview(Struct, frozen=True, kw_only=True):
    """Daemons by id and shards, and in one sentence what needs people.

    ``hidden`` are shards that are cut. Without an answer of the store, ``at`` is when it gave what
    is shown here, and None where it never did.
    """

    level: Level
    sentence: str
    is_shared: bool  # False: the store is a file
    this: str
    at: datetime | None
    schema: int
    lease_seconds: float
    last_takeover_at: datetime | None
    daemons: tuple[DaemonView, ...]
    shards: tuple[ShardView, ...]
    hidden: int


class _LastAnswer:
    """What the store said last, for while it gives no answer."""

    def __init__(self, _: ViewSources) -> None:
        self.status: ClusterStatus | None = None


@view(
    "cluster",
    "/api/v1/cluster",
    "The daemons that share the store, and who holds which shard since when.",
    is_whole=True,
)
async def cluster_view(sources: ViewSources, query: ClusterQuery) -> ClusterOverview:
    last, away = sources.shared(_LastAnswer), None
    try:
        status = last.status = await sources.cluster()
    except BusError as exc:
        status, away = last.status, str(exc)
    if status is None:
        return _without_status(away)
    ids = [daemon.id for daemon in status.daemons]
    if query.holder is not None and query.holder not in ids:
        raise ProblemDetails(400, f"holder: {unknown(query.holder, ids)}")
    urls = {daemon.id: page_url(daemon.url) for daemon in status.daemons}
    records = sorted(
        (record for record in status.shards if query.holder in (None, record.holder)),
        key=_worst_first,
    )
    level, sentence = _state(status, away)
    takeovers = [record.taken_over_at for record in status.shards if record.taken_over_at]
    return filled(
        ClusterOverview,
        status,
        level=level,
        sentence=sentence,
        is_shared=True,
        last_takeover_at=max(takeovers, default=None),
        daemons=tuple(_daemon(daemon, status) for daemon in status.daemons),
        shards=tuple(
            _shard(sources, record, status, urls.get(record.holder or ""))
            for record in records[: query.limit]
        ),
        hidden=max(0, len(records) - query.limit),
    )


def _shard(
    sources: ViewSources, record: ShardRecord, status: ClusterStatus, url: str | None
) -> ShardView:
    mirrored = sources.shards.mirrored(record.name)
    return filled(
        ShardView,
        record,
        holder_url=url,
        is_here=record.holder == status.this,
        as_of=None if mirrored is None else mirrored.read_at,
    )


def without_holder(status: ClusterStatus) -> list[str]:
    """Return the names of the shards that no living daemon holds, and one is to."""
    alive = {daemon.id for daemon in status.daemons if daemon.is_alive}
    return [
        record.name
        for record in status.shards
        if record.is_configured and record.holder not in alive
    ]


def without_holder_words(shards: Sequence[str]) -> str:
    """Return that these shards have no holder, as a part of a sentence."""
    verb = "is" if len(shards) == 1 else "are"
    return (
        f"{counted(len(shards), 'shard')} {verb} held by no daemon: {listed(shards, most=_NAMED)}"
    )


def _without_status(away: str | None) -> ClusterOverview:
    return ClusterOverview(
        level=Level.OK if away is None else Level.UNKNOWN,
        sentence=_ALONE if away is None else f"The store does not answer: {away}",
        is_shared=away is not None,
        this="",
        at=None,
        schema=0,
        lease_seconds=0.0,
        last_takeover_at=None,
        daemons=(),
        shards=(),
        hidden=0,
    )


def _daemon(daemon: DaemonRecord, status: ClusterStatus) -> DaemonView:
    return filled(
        DaemonView,
        daemon,
        url=page_url(daemon.url),
        last_heartbeat_at=daemon.renewed_at,
        heartbeat_age_seconds=(status.at - daemon.renewed_at).total_seconds(),
        is_this=daemon.id == status.this,
    )


def _state(status: ClusterStatus, away: str | None) -> tuple[Level, str]:
    """Return the state of the cluster as a level and one sentence, the worst first."""
    if away is not None:
        return Level.UNKNOWN, f"The store does not answer, this is what it said last: {away}"
    alone = without_holder(status)
    gone = [daemon.id for daemon in status.daemons if not daemon.is_alive]
    parts: list[str] = []
    if alone:
        parts.append(without_holder_words(alone))
    if gone:
        parts.append(f"{counted(len(gone), 'daemon')} gone: {listed(gone, most=_NAMED)}")
    alive = len(status.daemons) - len(gone)
    held = sum(record.holder is not None and record.name not in alone for record in status.shards)
    parts.append(f"{counted(alive, 'daemon')} alive, {counted(held, 'shard')} held")
    level = Level.CRITICAL if alone else Level.WARNING if gone else Level.OK
    return level, "; ".join(parts)


def _worst_first(record: ShardRecord) -> tuple[bool, int, str]:
    return record.holder is not None, -record.backlog, record.name

"""The audit: who changed what, from where, and with which result."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from monitor.web.audit.audit_log import AuditLine
from monitor.web.http.instants import since_of, until_of
from monitor.web.http.request_parsing import cursor_after, read_cursor
from monitor.web.principals import Role
from monitor.web.views.view import ViewSources, view

_LIST = "audit"
_SINCE = "Written since: an ISO 8601 instant, or how long ago, such as 24h or 7d."
_UNTIL = "Written before, in the same forms."


class AuditQuery(Struct, frozen=True, kw_only=True):
    """Which lines."""

    since: Annotated[str, Meta(description=_SINCE)] | None = None
    until: Annotated[str, Meta(description=_UNTIL)] | None = None
    cursor: str | None = None
    limit: Annotated[int, Meta(ge=1, le=500)] = 100


class AuditLines(Struct, frozen=True, kw_only=True):
    """Audit lines, the newest first. Instants are ours; lines are kept for ``kept_seconds``."""

    data: tuple[AuditLine, ...]
    next: str | None
    kept_seconds: float


@view(
    "audit",
    "/api/v1/audit",
    "Who changed what, from where, and with which result.",
    role=Role.ADMIN,
    is_whole=True,
)
async def audit_view(sources: ViewSources, query: AuditQuery) -> AuditLines:
    key = read_cursor(_LIST, query.cursor, tuple[str])
    now = sources.clock.now()
    since = since_of(query.since, now=now)
    lines = await sources.audit.lines(
        before=None if key is None else key[0],
        since=since,
        until=until_of(query.until, since=since, now=now),
        limit=query.limit + 1,
    )
    shown = lines[: query.limit]
    return AuditLines(
        data=tuple(shown),
        next=cursor_after(_LIST, (shown[-1].id,)) if len(lines) > len(shown) else None,
        kept_seconds=sources.daemon().retention.audit_seconds,
    )

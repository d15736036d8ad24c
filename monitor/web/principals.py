"""Principals and their roles: who asks, and what he may do."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class Role(StrEnum):
    """What a principal may do; each role may do all that those before it may."""

    METRICS = "metrics"  # scrape
    READ = "read"  # see everything
    OPERATE = "operate"  # silence, acknowledge, track; run again and cancel
    ADMIN = "admin"  # webhooks, replays, dead letters, the audit

    def includes(self, needed: Role) -> bool:
        """True where who has this role may do what needs the other."""
        order = list(Role)
        return order.index(self) >= order.index(needed)


class WayIn(StrEnum):
    """How a principal was recognised."""

    ANONYMOUS = "anonymous"
    TOKEN = "token"  # noqa: S105 - a word for people
    PASSWORD = "password"  # noqa: S105 - likewise
    SESSION = "session"
    PROXY = "proxy"
    CERTIFICATE = "certificate"
    OPENID = "openid"


class Principal(Struct, frozen=True, kw_only=True):
    """Who asks. ``workspaces`` are the globs of what is shown to this user; empty: everything."""

    name: str
    role: Role
    way: WayIn
    workspaces: tuple[str, ...] = ()
    entry: str | None = None  # name of the [[access]] that gave the role


# Who may reach a server without credentials may do everything there, as its settings say.
ANYBODY = Principal(name="anonymous", role=Role.ADMIN, way=WayIn.ANONYMOUS)

"""Entries [[access]] that let no user in, or another one than it seems."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from monitor.config import Configuration, Problem
from monitor.config.problems import shown
from monitor.model.globs import fits_some
from monitor.web.settings import AccessEntry, ServerSettings

_CLIENTS = "client_ca_file of [server.tls]"


def doubtful_entries(configuration: Configuration, *, now: datetime) -> Iterator[Problem]:
    """Yield what can be used, and does not do what it seems to do."""
    server = configuration.server
    names = [each.workspace.name for each in configuration.workspaces]
    first: dict[tuple[str, str], str] = {}  # key and name -> the entry that has it
    for number, entry in enumerate(server.access):
        own = f"access[{number}]"
        for name, hint in _of_entry(entry, server, names, now):
            value = entry.expires_at if name == "expires_at" else list(getattr(entry, name))
            yield Problem(key=f"{own}.{name}", value=shown(value), hint=hint)
        for name in ("users", "groups"):
            for vouched in getattr(entry, name):
                before = first.setdefault((name, vouched), own)
                if before != own:
                    hint = f"{before} has it too, and the first entry that fits counts; remove one"
                    yield Problem(key=f"{own}.{name}", value=shown(vouched), hint=hint)


def _of_entry(
    entry: AccessEntry, server: ServerSettings, workspaces: list[str], now: datetime
) -> Iterator[tuple[str, str]]:
    """Yield keys of an entry, each with a hint."""
    if entry.expires_at is not None and entry.expires_at <= now:
        yield "expires_at", "is over, and the entry lets no user in; remove it, or set another end"
    has_certificates = server.tls is not None and server.tls.client_ca_file is not None
    if entry.users and not (server.user_header or server.oidc or has_certificates):
        yield "users", f"nothing names users; add user_header, [server.oidc] or {_CLIENTS}"
    if entry.groups and not (server.groups_header or server.oidc):
        yield "groups", "nothing names groups; add groups_header or [server.oidc]"
    if entry.workspaces and (hint := fits_some(entry.workspaces, workspaces, "workspace")):
        yield "workspaces", hint

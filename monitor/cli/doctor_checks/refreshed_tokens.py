"""Checks access tokens that the daemon refreshes, without a refresh of our own.

One refresh here would make the daemon's pair invalid.
"""

from __future__ import annotations

import asyncio
from datetime import datetime
from functools import partial
from urllib.parse import urlsplit

import msgspec

from monitor.cli.admin import AdminClient
from monitor.cli.daemon_address import address_of_server
from monitor.cli.doctor_checks.access import check_tls, expiry_line
from monitor.model.checks import Check, CheckLine, ask_all, failed, ok, warning
from monitor.web.settings import ServerSettings
from monitor.workspace.settings import OauthSettings, WorkspaceSettings

_NO_DAEMON = (
    "no daemon runs, and a refresh of doctor would make the daemon's pair invalid: not tried"
)
_START = "start the daemon, then run doctor again"


async def check_refreshed_tokens(
    settings: WorkspaceSettings,
    oauth: OauthSettings,
    server: ServerSettings,
    *,
    has_daemon: bool,
    now: datetime,
) -> list[CheckLine]:
    """Check the way to the token endpoint, and ask a running daemon for the rest."""
    token, endpoint = f"{settings.name} token", f"{settings.name} token endpoint TLS"
    at_endpoint = msgspec.structs.replace(settings, url=oauth.token_url)
    asking = partial(_ask_daemon, server, settings.name, token, has_daemon=has_daemon)
    known, tls = await ask_all(
        (
            Check(token, asking),
            Check(endpoint, partial(check_tls, at_endpoint, endpoint, now=now)),
        )
    )
    return [*tls, *known, _end_of_pair(oauth, f"{settings.name} token expiry", now)]


async def _ask_daemon(
    server: ServerSettings, workspace: str, subject: str, *, has_daemon: bool
) -> list[CheckLine]:
    if not has_daemon:
        return [warning(subject, _NO_DAEMON, _START)]
    client = AdminClient(address_of_server(server))
    details = await asyncio.to_thread(client.get, f"/api/v1/workspaces/{workspace}")
    known = details.get("refreshed_token")
    if known is None:
        found = "the daemon that runs does not refresh it: it has other settings, or another has it"
        return [warning(subject, found, "let the daemon reload; in a cluster ask the holder")]
    trouble = known.get("trouble")
    if trouble is not None:
        return [failed(subject, trouble["reason"], trouble["advice"])]
    if known.get("refreshed_at") is None:
        return [warning(subject, "the daemon has not refreshed it yet", "run doctor again later")]
    expires_at = known.get("expires_at") or "when the workspace says so"
    found = f"refreshed by the daemon at {known['refreshed_at']}, expires at {expires_at}"
    is_answering = details.get("reachability") in ("reachable", "degraded")
    if not is_answering:
        reason = details.get("reason") or "the workspace has not answered yet"
        return [warning(subject, f"{found}; {reason}", "see the workspace's page")]
    return [ok(subject, found)]


def _end_of_pair(oauth: OauthSettings, subject: str, now: datetime) -> CheckLine:
    if oauth.expires_at is None:
        return warning(
            subject,
            "nothing says when the refresh token itself ends",
            "set expires_at of [workspaces.oauth], so that token_expiring warns of it",
        )
    return expiry_line(subject, oauth.expires_at, now, new_token=_new_pair(oauth))


def _new_pair(oauth: OauthSettings) -> str:
    host = urlsplit(oauth.token_url).hostname
    return f"generate a new pair (token endpoint {host}) and put its refresh token into its place"

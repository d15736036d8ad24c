"""Checks whether the workspace reaches our listener, and the state of the webhook tasks."""

from __future__ import annotations

import asyncio
from collections import Counter

from monitor.callbacks.listener_reachability import problem_of
from monitor.callbacks.settings import CallbackSettings, SignatureMode
from monitor.callbacks.task_maintenance import TaskMaintenance
from monitor.catalogue.capabilities import Capability
from monitor.cli.admin import AdminClient
from monitor.cli.daemon_address import address_of_server
from monitor.cli.doctor_checks.callbacks_address import Listening
from monitor.model.checks import CheckLine, failed, ok, warning
from monitor.model.clock import Clock
from monitor.model.errors import NotAvailableError
from monitor.web.settings import ServerSettings
from monitor.workspace.client import WorkspaceClient
from monitor.workspace.payloads import WebhookTest

_FROM_OUTSIDE = "see from outside that a POST to {url} is answered 404, which is the listener"
_BY_HAND = "make them by hand at the flows, as the documentation of callbacks shows"
_BAD_SIGNATURE = 401
_SIGNATURE = (
    'take signature = "observe", and see in dataprep_monitor_callback_requests_total whether '
    "real callbacks have a bad_signature"
)
_TROUBLES = ("failed", "over_limit")


async def check_public_url(
    client: WorkspaceClient,
    subject: str,
    settings: CallbackSettings | None,
    *,
    capabilities: frozenset[Capability],
    listening: Listening,
    clock: Clock,
) -> list[CheckLine]:
    """Let the workspace send one test callback, without any job."""
    if settings is None:
        return [ok(subject, "none are configured: runs are followed by polling alone")]
    if settings.public_url is None or settings.secret is None:
        return [ok(subject, "accepted from webhook tasks made by hand; no public_url is set")]
    url = f"{settings.public_url.rstrip('/')}/hooks/{client.name}"
    from_outside = _FROM_OUTSIDE.format(url=url)
    if not listening.is_answering or listening.bus is None:
        why = "callbacks.listen has port 0, which no client can reach"
        return [warning(subject, f"{url} was not tried: {why}", "give callbacks.listen a port")]
    if Capability.TEST_WEBHOOKS not in capabilities:
        return [warning(subject, f"{url} cannot be tried: not offered here", from_outside)]
    maintenance = TaskMaintenance(
        client, settings=settings, bus=listening.bus, clock=clock, instance="doctor"
    )
    try:
        tested = await maintenance.test()
    except NotAvailableError as exc:
        return [warning(subject, f"{url} cannot be tried: {exc}", from_outside)]
    is_signed = settings.signature is SignatureMode.REQUIRE
    return [_judged(subject, url, tested, from_outside, is_signed=is_signed)]


def _judged(
    subject: str, url: str, tested: WebhookTest, from_outside: str, *, is_signed: bool
) -> CheckLine:
    if tested.is_ok:
        return ok(subject, f"the workspace called {url} and got {tested.status_code}")
    if tested.status_code is None and tested.error is None:
        return warning(subject, f"the workspace does not show what {url} answered", from_outside)
    if is_signed and tested.status_code == _BAD_SIGNATURE:
        # The listener was reached, and knew the secret.
        found = f"the workspace called {url} and does not sign its test call as is assumed"
        return warning(subject, found, _SIGNATURE)
    return failed(
        subject,
        f"{url} failed its test call: {problem_of(tested)}",
        "let name server, firewall and proxy route public_url to callbacks.listen, "
        "with a certificate of a public authority",
    )


async def check_tasks(
    server: ServerSettings,
    workspace: str,
    subject: str,
    settings: CallbackSettings | None,
    *,
    capabilities: frozenset[Capability],
    has_daemon: bool,
) -> list[CheckLine]:
    """Check the webhook tasks; only a running daemon knows them."""
    if settings is None or settings.public_url is None or not settings.flows:
        return [ok(subject, "none are configured: public_url or flows is not set")]
    if Capability.CREATE_WEBHOOK_TASKS not in capabilities:
        return [warning(subject, "they cannot be created here: not offered", _BY_HAND)]
    if not has_daemon:
        return [ok(subject, "they can be created; no daemon runs that keeps them")]
    client = AdminClient(address_of_server(server))
    answer = await asyncio.to_thread(client.get, "/api/v1/webhooks", {"workspace": workspace})
    rows = answer["data"]
    states = Counter(str(row["state"]) for row in rows)
    counts = ", ".join(f"{count} {state}" for state, count in sorted(states.items())) or "none yet"
    troubled = [row for row in rows if row["state"] in _TROUBLES]
    if troubled:
        reasons = "; ".join(sorted({str(row["reason"]) for row in troubled})[:3])
        hint = "fix that; the daemon tries again by itself, or at once with webhooks sync"
        return [warning(subject, f"{counts}: {reasons}", hint)]
    return [ok(subject, counts)]

"""All checks of one workspace, in the order in which they depend on each other."""

from __future__ import annotations

import asyncio
from functools import partial

import msgspec
from msgspec import Struct
from prometheus_client import CollectorRegistry

from monitor.callbacks.settings import CallbackSettings
from monitor.catalogue.capabilities import Capability
from monitor.cli.doctor_checks.access import (
    check_expiry,
    check_person,
    check_tls,
    clock_line,
    expiry_lines,
    reach,
    refused_token,
)
from monitor.cli.doctor_checks.callbacks import check_public_url, check_tasks
from monitor.cli.doctor_checks.callbacks_address import Listening
from monitor.cli.doctor_checks.capabilities import (
    FoundCapabilities,
    capabilities_line,
    check_lists,
    edition_line,
    limits_line,
)
from monitor.cli.doctor_checks.matches import READ_SECONDS, MatchChecks
from monitor.cli.doctor_checks.refreshed_tokens import check_refreshed_tokens
from monitor.cli.doctor_checks.schedules import check_schedules
from monitor.config import WorkspaceConfiguration
from monitor.model.checks import Check, CheckLine, ask_all, failed, is_failed
from monitor.model.clock import Clock
from monitor.model.errors import ConfigurationError, UnauthorizedError, WorkspaceError
from monitor.polling.discovery.probe import probe
from monitor.web.settings import ServerSettings
from monitor.workspace.client import WorkspaceClient
from monitor.workspace.settings import WorkspaceSettings

_CONNECT_SECONDS = 5.0
_REQUEST_SECONDS = 10.0
_PROBE_SECONDS = 30.0  # eight reads one after the other
_TEST_SECONDS = 40.0  # the workspace waits up to 30 s for the receiver of its test
# Some twenty requests once need not wait for the budget of a daemon that runs all day.
_REQUESTS_PER_MINUTE = 240.0


class Surroundings(Struct, frozen=True, kw_only=True):
    """What the checks of a workspace need of the rest of the set-up."""

    server: ServerSettings
    has_daemon: bool
    listening: Listening
    matches: MatchChecks
    clock: Clock


async def check_workspace(
    configuration: WorkspaceConfiguration, surroundings: Surroundings
) -> list[CheckLine]:
    """Run every check of one workspace. Each has a time limit of its own."""
    name = configuration.name
    settings = hasty(configuration.workspace)
    clock = surroundings.clock
    try:
        client = WorkspaceClient(settings, clock=clock, registry=CollectorRegistry())
    except ConfigurationError as exc:
        return [failed(f"{name} settings", str(exc), "correct that in [[workspaces]]")]
    async with client:
        tls_subject = f"{name} TLS"
        async with asyncio.TaskGroup() as group:
            reaching = group.create_task(
                reach(client, f"{name} reachability"), name=f"doctor: {name} reachability"
            )
            checking_tls = group.create_task(
                Check(
                    tls_subject, partial(check_tls, settings, tls_subject, now=clock.now())
                ).lines(),
                name=f"doctor: {tls_subject}",
            )
        reached, tls = reaching.result(), checking_tls.result()
        # A certificate that is not trusted is also why nothing answers: that is one fault.
        lines = list(tls) if is_failed(tls) else [reached, *tls]
        if is_failed(lines):
            return lines + expiry_lines(client, f"{name} token expiry", now=clock.now())
        lines.append(clock_line(client, f"{name} clock"))
        if settings.oauth is not None:
            return lines + await check_refreshed_tokens(
                settings,
                settings.oauth,
                surroundings.server,
                has_daemon=surroundings.has_daemon,
                now=clock.now(),
            )
        return lines + await _check_inside(client, configuration, surroundings)


async def _check_inside(
    client: WorkspaceClient, configuration: WorkspaceConfiguration, surroundings: Surroundings
) -> list[CheckLine]:
    name, now = client.name, surroundings.clock.now()
    token, expiry = f"{name} token", f"{name} token expiry"
    try:
        async with asyncio.timeout(_PROBE_SECONDS):
            finding = await probe(client)
    except UnauthorizedError as exc:
        # A token that has expired is refused for that: one fault.
        expires = expiry_lines(client, expiry, now=now)
        if is_failed(expires):
            return expires
        return [refused_token(token, exc, configuration.workspace), *expires]
    except (WorkspaceError, TimeoutError) as exc:
        reason = str(exc) or f"no answer to all reads within {_PROBE_SECONDS:.0f} s"
        line = failed(token, f"could not be tried: {reason}", "run doctor again later")
        return [line, *expiry_lines(client, expiry, now=now)]
    probed = FoundCapabilities(
        configured=configuration.workspace.edition,
        finding=finding,
        refused=client.requester.unavailable,
    )
    client.requester.edition = probed.edition
    return await _check_probed(client, probed, configuration, surroundings)


async def _check_probed(
    client: WorkspaceClient,
    probed: FoundCapabilities,
    configuration: WorkspaceConfiguration,
    surroundings: Surroundings,
) -> list[CheckLine]:
    name, able, now = client.name, probed.capabilities, surroundings.clock.now()
    token, expiry = f"{name} token", f"{name} token expiry"
    schedules, lists = f"{name} schedules", f"{name} flows and plans"
    person, expires, visible_schedules, visible_lists, matched = await ask_all(
        (
            Check(token, partial(check_person, client, token, able)),
            Check(expiry, partial(check_expiry, client, expiry, now=now)),
            Check(schedules, partial(check_schedules, client, schedules, able)),
            Check(lists, partial(check_lists, client, lists, able)),
            Check(f"{name} match", partial(surroundings.matches.read, client, able), READ_SECONDS),
        )
    )
    limits = limits_line(
        client,
        f"{name} rate limits",
        own_per_minute=configuration.workspace.requests_per_minute,
    )
    edition = edition_line(probed, f"{name} edition")
    # Where the edition lacks what is configured, that is the fault.
    switched_off = (
        [] if is_failed([edition]) else [capabilities_line(probed, f"{name} capabilities")]
    )
    # Last, because the answer to the test carries a quota of its own.
    called = await _check_callbacks(client, able, configuration.callbacks, surroundings)
    return [
        *person,
        *expires,
        edition,
        *switched_off,
        *visible_schedules,
        *visible_lists,
        *matched,
        limits,
        *called,
    ]


async def _check_callbacks(
    client: WorkspaceClient,
    able: frozenset[Capability],
    settings: CallbackSettings | None,
    surroundings: Surroundings,
) -> list[CheckLine]:
    callbacks, tasks = f"{client.name} callbacks", f"{client.name} webhook tasks"
    kept = partial(
        check_tasks,
        surroundings.server,
        client.name,
        tasks,
        settings,
        capabilities=able,
        has_daemon=surroundings.has_daemon,
    )
    checks = [Check(tasks, kept)]
    # Where callbacks.listen cannot be used that is the fault, and no workspace can call it.
    if not is_failed(surroundings.listening.lines):
        reached = partial(
            check_public_url,
            client,
            callbacks,
            settings,
            capabilities=able,
            listening=surroundings.listening,
            clock=surroundings.clock,
        )
        checks = [Check(callbacks, reached, _TEST_SECONDS), *checks]
    return [line for lines in await ask_all(checks) for line in lines]


def hasty(settings: WorkspaceSettings) -> WorkspaceSettings:
    """Return settings with short time limits and without a configured edition."""
    return msgspec.structs.replace(
        settings,
        edition=None,
        retries=min(settings.retries, 1),
        requests_per_minute=max(settings.requests_per_minute, _REQUESTS_PER_MINUTE),
        connect_timeout_seconds=min(settings.connect_timeout_seconds, _CONNECT_SECONDS),
        read_timeout_seconds=min(settings.read_timeout_seconds, _TEST_SECONDS),
        total_timeout_seconds=min(settings.total_timeout_seconds, _TEST_SECONDS),
        retry_total_seconds=_REQUEST_SECONDS,
    )

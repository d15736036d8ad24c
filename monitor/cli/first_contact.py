"""Log lines of `run` for a person who starts it: the page's address, and each wrong URL."""

from __future__ import annotations

import asyncio

import structlog
from prometheus_client import CollectorRegistry

from monitor.app.daemon import Addresses
from monitor.cli.doctor_checks.access import reach
from monitor.cli.doctor_checks.workspaces import hasty
from monitor.config import Configuration
from monitor.listening.settings import split_address
from monitor.model.checks import FIRST, CheckOutcome
from monitor.model.clock import Clock
from monitor.model.errors import ConfigurationError
from monitor.workspace.client import WorkspaceClient
from monitor.workspace.settings import WorkspaceSettings

log = structlog.get_logger()

_AT_ONCE = 8  # workspaces


def log_addresses(configuration: Configuration, addresses: Addresses) -> None:
    """Log the page's address, with the port that was taken."""
    server = configuration.server
    host, _ = split_address(server.reachable)
    host = f"[{host}]" if ":" in host else host
    log.info("page served", url=f"{server.scheme}://{host}:{addresses.server_port}/")


async def log_first_contacts(configuration: Configuration, clock: Clock) -> None:
    """Log each workspace whose url leads to no API, with what to do, as soon as that is known.

    The polls find out too, but only when their retries are over.
    """
    turn = asyncio.Semaphore(_AT_ONCE)

    async def contact(settings: WorkspaceSettings) -> None:
        async with turn:
            await _contact(settings, clock)

    async with asyncio.TaskGroup() as group:
        for workspace in configuration.workspaces:
            group.create_task(
                contact(workspace.workspace), name=f"first contact of {workspace.name}"
            )


async def _contact(settings: WorkspaceSettings, clock: Clock) -> None:
    try:
        client = WorkspaceClient(hasty(settings), clock=clock, registry=CollectorRegistry())
    except ConfigurationError:
        return  # the daemon has refused that itself
    async with client:
        line = await reach(client, settings.name)
    if line.outcome is CheckOutcome.FAILED:
        log.error(
            "workspace not reached",
            workspace=settings.name,
            reason=line.found,
            hint=(line.hint or "").removesuffix(FIRST),
        )

"""All checks of one configuration: asked at once, told in the same order each time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from monitor.cli.check import summary
from monitor.cli.doctor_checks.addresses import callback_address, server_address
from monitor.cli.doctor_checks.broker import check_broker
from monitor.cli.doctor_checks.lines import Line, bounded, failed, ok
from monitor.cli.doctor_checks.storage import check_storage
from monitor.cli.doctor_checks.workspaces import Surroundings, check_workspace
from monitor.config import Configuration, Fault
from monitor.model.clock import Clock
from monitor.model.errors import ConfigurationError

CONFIGURATION = "configuration"
# Each check has a limit of its own; this one is for a workspace whose every check uses it up.
_WORKSPACE_SECONDS = 120.0


def faults(found: Sequence[Fault]) -> list[Line]:
    """Return the lines of a configuration that cannot be used; nothing else can be asked."""
    return [failed(CONFIGURATION, f"{one.key} is {one.value}", one.way_out) for one in found]


def only(configuration: Configuration, workspace: str | None) -> Configuration:
    """Return the configuration with that workspace alone.

    Raises:
        ConfigurationError: there is none of that name.
    """
    if workspace is None:
        return configuration
    chosen = tuple(one for one in configuration.workspaces if one.name == workspace)
    if not chosen:
        known = ", ".join(one.name for one in configuration.workspaces)
        raise ConfigurationError(f"workspace {workspace!r} is not configured; known: {known}")
    return msgspec.structs.replace(configuration, workspaces=chosen)


async def examine(
    configuration: Configuration, path: Path, *, clock: Clock, tell: Callable[[Line], None]
) -> None:
    """Run every check and tell its lines as soon as those before them have been told."""
    tell(ok(CONFIGURATION, f"{path}: {'; '.join(summary(configuration))}"))
    async with callback_address(configuration, clock=clock) as listening:
        serving = await server_address(configuration.server)
        surroundings = Surroundings(
            server=configuration.server,
            has_daemon=serving.has_daemon,
            listening=listening,
            clock=clock,
        )
        async with asyncio.TaskGroup() as group:
            checks = {
                "store": bounded("store", check_storage(configuration.storage)),
                "mqtt connection": bounded(
                    "mqtt connection", check_broker(configuration.mqtt, clock=clock)
                ),
                **{
                    one.name: bounded(
                        one.name, check_workspace(one, surroundings), seconds=_WORKSPACE_SECONDS
                    )
                    for one in configuration.workspaces
                },
            }
            asking = [
                group.create_task(check, name=f"doctor: {subject}")
                for subject, check in checks.items()
            ]
            _tell_all(tell, [*serving.lines, *listening.lines])
            for one in asking:
                _tell_all(tell, await one)


def _tell_all(tell: Callable[[Line], None], lines: Sequence[Line]) -> None:
    for line in lines:
        tell(line)

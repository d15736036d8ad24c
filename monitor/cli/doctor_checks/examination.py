"""All checks of one configuration: run at once, reported in the same order each time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from monitor.cli.configuration_report import summary
from monitor.cli.doctor_checks.addresses import server_address
from monitor.cli.doctor_checks.callbacks_address import callback_address
from monitor.cli.doctor_checks.clear_text import check_listeners
from monitor.cli.doctor_checks.exposure import check_access
from monitor.cli.doctor_checks.matches import MatchChecks
from monitor.cli.doctor_checks.storage import check_storage
from monitor.cli.doctor_checks.workspaces import Surroundings, check_workspace
from monitor.config import Configuration, Problem, WorkspaceConfiguration
from monitor.model.checks import Check, CheckLine, failed, ok, warning
from monitor.model.clock import Clock
from monitor.model.errors import ConfigurationError
from monitor.outputs.records import RECORDS

CONFIGURATION = "configuration"
# Each check has a limit of its own; this one is for a workspace whose every check uses it up.
_WORKSPACE_SECONDS = 120.0


def problem_lines(problems: Sequence[Problem]) -> list[CheckLine]:
    """Return the lines of a configuration that cannot be used; no other check can run."""
    return [
        failed(CONFIGURATION, f"{problem.key} is {problem.value}", problem.hint)
        for problem in problems
    ]


def warning_lines(warnings: Sequence[Problem]) -> list[CheckLine]:
    """Return the lines of settings that do not do what they seem to do."""
    return [
        warning(CONFIGURATION, f"{found.key} is {found.value}", found.hint) for found in warnings
    ]


def selected_workspaces(
    configuration: Configuration, name: str | None
) -> tuple[WorkspaceConfiguration, ...]:
    """Return the workspaces to check: all, or the one of that name.

    Raises:
        ConfigurationError: there is none of that name.
    """
    selected = tuple(
        workspace for workspace in configuration.workspaces if name in (None, workspace.name)
    )
    if name is not None and not selected:
        known = ", ".join(workspace.name for workspace in configuration.workspaces)
        raise ConfigurationError(f"workspace {name!r} is not configured; known: {known}")
    return selected


async def examine(
    configuration: Configuration,
    path: Path,
    *,
    clock: Clock,
    report: Callable[[CheckLine], None],
    about: Sequence[CheckLine] = (),
    workspace: str | None = None,
) -> None:
    """Run every check and report its lines as soon as those before them are reported.

    ``about`` are further lines about the configuration and the files that it names.

    Raises:
        ConfigurationError: there is no workspace of that name.
    """
    workspaces = selected_workspaces(configuration, workspace)
    report(ok(CONFIGURATION, f"{path}: {'; '.join(summary(configuration))}"))
    _report_all(report, [*about, *await check_listeners(configuration, now=clock.now())])
    report(check_access(configuration.server))
    async with callback_address(configuration, clock=clock) as listening:
        serving = await server_address(configuration.server, configuration.storage)
        matches = MatchChecks(configuration, now=clock.now())
        surroundings = Surroundings(
            server=configuration.server,
            has_daemon=serving.has_daemon,
            listening=listening,
            matches=matches,
            clock=clock,
        )
        async with asyncio.TaskGroup() as group:
            checks = (
                Check("store", partial(check_storage, configuration, serving)),
                *_output_checks(configuration, clock=clock),
                *(
                    Check(
                        checked.name,
                        partial(check_workspace, checked, surroundings),
                        _WORKSPACE_SECONDS,
                    )
                    for checked in workspaces
                ),
            )
            running = [
                group.create_task(check.lines(), name=f"check: {check.subject}") for check in checks
            ]
            _report_all(report, [*serving.lines, *listening.lines])
            for asked in running:
                _report_all(report, await asked)
        _report_all(report, await asyncio.to_thread(matches.lines))


def _output_checks(configuration: Configuration, *, clock: Clock) -> Iterator[Check]:
    for record in RECORDS:
        name, settings = record.section, configuration.outputs.get(record.section)
        if settings is not None:
            yield Check(name, partial(record.load().check, settings, clock=clock))
        elif record.is_usual:
            yield Check(name, partial(_off, name))


async def _off(section: str) -> list[CheckLine]:
    return [ok(section, f"off: there is no section [{section}]")]


def _report_all(report: Callable[[CheckLine], None], lines: Sequence[CheckLine]) -> None:
    for line in lines:
        report(line)

"""Runs the checks of ``doctor`` and prints a line for each, without secrets."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import msgspec

from monitor import logs
from monitor.cli.doctor_checks.descriptor_limit import check_file_descriptors
from monitor.cli.doctor_checks.examination import examine, problem_lines, warning_lines
from monitor.cli.doctor_checks.file_access import check_files
from monitor.cli.settings_files import validate_file
from monitor.cli.tables import print_json
from monitor.listening.file_descriptors import descriptor_limit, raise_descriptor_limit
from monitor.logs import Redactor
from monitor.model.checks import CheckLine, CheckOutcome
from monitor.model.clock import SystemClock


def report(config: Path, *, workspace: str | None, as_json: bool) -> bool:
    """Print the line of each check; False when one failed."""
    secret_files: list[Path] = []
    result = validate_file(config, secret_files=secret_files)
    configuration = result.configuration
    secrets = () if configuration is None else configuration.secrets()
    # The lines report every failure; the log would repeat it.
    redactor = logs.configure(level="critical", secrets=secrets)
    lines: list[CheckLine] = []

    def add(line: CheckLine) -> None:
        lines.append(without_secrets(line, redactor))
        if not as_json:
            _print(lines[-1])

    if configuration is None:
        for line in problem_lines(result.problems):
            add(line)
    else:
        raise_descriptor_limit()  # as the daemon does
        about = [
            *warning_lines(result.warnings),
            *check_files(config, secret_files),
            check_file_descriptors(configuration, descriptors=descriptor_limit()),
        ]
        asyncio.run(
            examine(
                configuration,
                config,
                clock=SystemClock(),
                report=add,
                about=about,
                workspace=workspace,
            )
        )
    if as_json:
        print_json(lines)
    return all(line.outcome is not CheckOutcome.FAILED for line in lines)


def without_secrets(line: CheckLine, redactor: Redactor) -> CheckLine:
    """Return the line as it may be printed, whatever another program has put into it."""
    hint = None if line.hint is None else _one_line(redactor.text(line.hint))
    return msgspec.structs.replace(line, found=_one_line(redactor.text(line.found)), hint=hint)


def _one_line(text: str) -> str:
    """Keep a foreign text from writing lines or colours of its own on the terminal."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


def _print(line: CheckLine) -> None:
    hint = "" if line.hint is None else f"; {line.hint}"
    sys.stdout.write(f"{line.outcome:<8} {line.subject}: {line.found}{hint}\n")
    # A pipe gets each line when its check is done, too.
    sys.stdout.flush()

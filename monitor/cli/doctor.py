"""``doctor``: does the real set-up work, as far as can be seen from here?"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import typer

from monitor.cli.options import CONFIG_FILE, AsJson, ConfigFile, WorkspaceName

if TYPE_CHECKING:
    from monitor.cli.doctor_checks.lines import CheckLine
    from monitor.logs import Redactor


def doctor(
    config: ConfigFile = CONFIG_FILE,
    *,
    workspace: WorkspaceName = None,
    as_json: AsJson = False,
) -> None:
    """Ask the real workspaces, broker and listeners whether this set-up works.

    One line for each check: ok, warning or failed, what was found, and what to do. Changes
    nothing, and may run beside the daemon. Exits 1 when a check failed.
    """
    import asyncio  # noqa: PLC0415 - help must answer fast

    from monitor import logs  # noqa: PLC0415
    from monitor.cli.doctor_checks.examination import examine, problems  # noqa: PLC0415
    from monitor.cli.doctor_checks.lines import CheckOutcome  # noqa: PLC0415
    from monitor.cli.settings_files import weigh_file  # noqa: PLC0415
    from monitor.cli.tables import print_json  # noqa: PLC0415
    from monitor.model.clock import SystemClock  # noqa: PLC0415

    outcome = weigh_file(config)
    configuration = outcome.configuration
    secrets = () if configuration is None else configuration.secrets()
    # What goes wrong is told by the lines; the log would tell it a second time.
    redactor = logs.configure(level="critical", secrets=secrets)
    told: list[CheckLine] = []

    def tell(line: CheckLine) -> None:
        told.append(_without_secrets(line, redactor))
        if not as_json:
            _print(told[-1])

    if configuration is None:
        for line in problems(outcome.problems):
            tell(line)
    else:
        asyncio.run(
            examine(configuration, config, clock=SystemClock(), tell=tell, workspace=workspace)
        )
    if as_json:
        print_json(told)
    if any(line.outcome is CheckOutcome.FAILED for line in told):
        raise typer.Exit(1)


def _without_secrets(line: CheckLine, redactor: Redactor) -> CheckLine:
    import msgspec  # noqa: PLC0415 - help must answer fast

    hint = None if line.hint is None else _one_line(redactor.text(line.hint))
    return msgspec.structs.replace(line, found=_one_line(redactor.text(line.found)), hint=hint)


def _one_line(text: str) -> str:
    """Keep a foreign text from writing lines or colours of its own on the terminal."""
    return "".join(other_text if other_text.isprintable() else " " for other_text in text)


def _print(line: CheckLine) -> None:
    hint = "" if line.hint is None else f"; {line.hint}"
    sys.stdout.write(f"{line.outcome:<8} {line.subject}: {line.found}{hint}\n")
    # A pipe sees each line as it is found, too.
    sys.stdout.flush()

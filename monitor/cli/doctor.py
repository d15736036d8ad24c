"""``doctor``: does the real set-up work, as far as can be seen from here?"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import typer

from monitor.cli.options import CONFIG_FILE, AsJson, ConfigFile, WorkspaceName

if TYPE_CHECKING:
    from monitor.cli.doctor_checks.lines import Line
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
    from monitor.cli.doctor_checks.examination import examine, faults  # noqa: PLC0415
    from monitor.cli.doctor_checks.lines import Verdict  # noqa: PLC0415
    from monitor.cli.settings_files import weigh_file  # noqa: PLC0415
    from monitor.cli.tables import print_json  # noqa: PLC0415
    from monitor.model.clock import SystemClock  # noqa: PLC0415

    verdict = weigh_file(config)
    configuration = verdict.configuration
    secrets = () if configuration is None else configuration.secrets()
    # What goes wrong is told by the lines; the log would tell it a second time.
    redactor = logs.configure(level="critical", secrets=secrets)
    told: list[Line] = []

    def tell(line: Line) -> None:
        told.append(_without_secrets(line, redactor))
        if not as_json:
            _print(told[-1])

    if configuration is None:
        for line in faults(verdict.faults):
            tell(line)
    else:
        asyncio.run(
            examine(configuration, config, clock=SystemClock(), tell=tell, workspace=workspace)
        )
    if as_json:
        print_json(told)
    if any(line.verdict is Verdict.FAILED for line in told):
        raise typer.Exit(1)


def _without_secrets(line: Line, redactor: Redactor) -> Line:
    import msgspec  # noqa: PLC0415 - help must answer fast

    way_out = None if line.way_out is None else _one_line(redactor.text(line.way_out))
    return msgspec.structs.replace(
        line, found=_one_line(redactor.text(line.found)), way_out=way_out
    )


def _one_line(text: str) -> str:
    """Keep a foreign text from writing lines or colours of its own on the terminal."""
    return "".join(one if one.isprintable() else " " for one in text)


def _print(line: Line) -> None:
    way_out = "" if line.way_out is None else f"; {line.way_out}"
    sys.stdout.write(f"{line.verdict:<8} {line.subject}: {line.found}{way_out}\n")
    # A pipe sees each line as it is found, too.
    sys.stdout.flush()

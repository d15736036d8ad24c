"""The command ``dataprep-monitor``: registers the commands and turns failures into exit codes.

0 done, 1 failed while working, 2 wrong usage or configuration, 130 interrupted. Results go to
stdout, everything else to stderr.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from monitor import __version__
from monitor.cli import check, demo, doctor, operations, run, sandbox, steer
from monitor.model.errors import ConfigurationError, MonitorError

FAILED = 1
WRONG_USAGE = 2
INTERRUPTED = 130

app = typer.Typer(
    name="dataprep-monitor",
    no_args_is_help=True,
    # Plain help is printed in a third of the time, and a failure of ours is no trace for rich.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

# Each command: its name, its function, an example for its help.
COMMANDS = (
    ("demo", demo.demo, "dataprep-monitor demo --for 30"),
    ("run", run.run, "dataprep-monitor run -c /etc/dataprep-monitor/monitor.toml"),
    ("check", check.check, "dataprep-monitor check -c config/minimal.toml"),
    ("doctor", doctor.doctor, "dataprep-monitor doctor -c /etc/dataprep-monitor/monitor.toml"),
    ("operations", operations.operations, "dataprep-monitor operations --edition LE --json"),
    ("sandbox", sandbox.sandbox, "dataprep-monitor sandbox --speed 60 --fault status_500=0.05"),
    ("runs", steer.runs, "dataprep-monitor runs --status failed"),
    ("events", steer.events, "dataprep-monitor events --follow"),
    ("track", steer.track, "dataprep-monitor track job_group 7827359"),
    ("webhooks", steer.webhooks, "dataprep-monitor webhooks sync --flow 11"),
)
for _name, _function, _example in COMMANDS:
    app.command(_name, epilog=f"Example: {_example}")(_function)


def _print_version(wanted: bool) -> None:  # noqa: FBT001 - the library calls it so
    if wanted:
        sys.stdout.write(f"dataprep-monitor {__version__}\n")
        raise typer.Exit


@app.callback(epilog="Example: dataprep-monitor check -c config/minimal.toml")
def _root(
    *,
    version: Annotated[
        bool,
        typer.Option("--version", is_eager=True, callback=_print_version, help="Print it."),
    ] = False,
) -> None:
    """Follow every run of a data-preparation workspace; tell Prometheus and MQTT exactly once."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; a failure of ours is told in one line."""
    try:
        app(args=arguments, prog_name="dataprep-monitor")
    except SystemExit as exc:  # the library's way to end, wrong usage included
        return _flushed(exc.code if isinstance(exc.code, int) else 0)
    except ConfigurationError as exc:
        sys.stderr.writelines(f"{fault}\n" for fault in exc.faults)
        return WRONG_USAGE
    except MonitorError as exc:
        sys.stderr.write(f"error: {exc}\n")
        return FAILED
    except KeyboardInterrupt:
        return INTERRUPTED
    return _flushed(0)


def _flushed(code: int) -> int:
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read the results has gone; the interpreter must not flush into nothing again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    return code


if __name__ == "__main__":
    sys.exit(main())

"""The command ``dataprep-monitor``: turns arguments into a command, and failures into exit codes.

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
from monitor.cli.command_group import CommandGroup
from monitor.model.errors import ConfigurationError, MonitorError

FAILED = 1
BAD_USAGE = 2
INTERRUPTED = 130

app = typer.Typer(
    name="dataprep-monitor",
    cls=CommandGroup,
    no_args_is_help=True,
    # Plain help is printed in a third of the time, and a failure of ours is no trace for rich.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _print_version(is_given: bool) -> None:  # noqa: FBT001 - the library calls it so
    if is_given:
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
    """Follow every run of a data-preparation workspace, for Prometheus, MQTT and alerts.

    Each transition of a run is one event with one id, delivered at least once.
    """


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; a failure of ours is one line on stderr."""
    try:
        app(args=arguments, prog_name="dataprep-monitor")
    except SystemExit as exc:  # the library's way to end, wrong usage included
        return _flushed(exc.code if isinstance(exc.code, int) else 0)
    except ConfigurationError as exc:
        sys.stderr.writelines(f"{problem}\n" for problem in exc.problems)
        return BAD_USAGE
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
        # The reader has gone; the interpreter must not flush into its closed pipe at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    return code


if __name__ == "__main__":
    sys.exit(main())

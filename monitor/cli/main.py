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
from monitor.cli import (
    alerts,
    api,
    check,
    completion,
    demo,
    doctor,
    explain,
    operations,
    run,
    sandbox,
    steer,
)
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

# Each command: its name, its function, what there is to type at the end of its help.
COMMANDS = (
    ("demo", demo.demo, ("demo --for 30", "demo --edition LE --port 0")),
    ("run", run.run, ("run -c /etc/dataprep-monitor/monitor.toml",)),
    ("check", check.check, ("check -c config/minimal.toml", "check --json")),
    ("doctor", doctor.doctor, ("doctor -c /etc/dataprep-monitor/monitor.toml", "doctor -w acme")),
    (
        "operations",
        operations.operations,
        ("operations --filter 'flow run'", "operations --edition LE --json"),
    ),
    (
        "api",
        api.api,
        (
            "api GET /v4/flows -q flowsFilter=all --all",
            "api getJobGroup 7827359 -q embed=wrangledDataset.flow",
            """api runFlow 11 -d '{"runParameters": {}}'""",
            "api getFlowPackage 11 --out sales.zip",
            "api importPackage -d @sales.zip",
        ),
    ),
    (
        "sandbox",
        sandbox.sandbox,
        ("sandbox --edition open --port 8081", "sandbox --speed 60 --fault status_500=0.05"),
    ),
    ("runs", steer.runs, ("runs --status failed", "runs -w acme --kind plan_run --json")),
    ("events", steer.events, ("events --follow", "events --since 2026-11-21T10:00:00Z --json")),
    (
        "alerts",
        alerts.alerts,
        (
            "alerts",
            "alerts --state firing -w acme --json",
            "alerts backtest --since 30d -c new.toml",
        ),
    ),
    (
        "silence",
        alerts.silence,
        (
            "silence add workspace=acme pipeline='daily*' --for 2h --comment 'planned reload'",
            "silence list",
            "silence expire 5d3c1f2a9b8e7460",
        ),
    ),
    (
        "explain",
        explain.explain,
        ("explain 9f86d081884c7d65", "explain job_group 7827359 -w acme", "explain flow 11"),
    ),
    (
        "replay",
        explain.replay,
        ("replay --since 2h --to webhook", "replay --since 2026-11-21T10:00:00Z --to mqtt"),
    ),
    ("track", steer.track, ("track job_group 7827359",)),
    (
        "completion",
        completion.completion,
        (
            "completion bash > ~/.dataprep-monitor.bash",
            "completion zsh > ~/.dataprep-monitor.zsh",
            "completion fish > ~/.config/fish/completions/dataprep-monitor.fish",
        ),
    ),
    ("webhooks", steer.webhooks, ("webhooks list", "webhooks sync --flow 11")),
)
for _name, _function, _examples in COMMANDS:
    _lines = [f"Example: dataprep-monitor {_one}" for _one in _examples]
    # The mark keeps the library from making one paragraph of the lines.
    app.command(_name, epilog="\b\n" + "\n".join(_lines))(_function)


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
        sys.stderr.writelines(f"{problem}\n" for problem in exc.problems)
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

"""``check``: is this configuration right?"""

from __future__ import annotations

import typer

from monitor.cli import lazy
from monitor.cli.options import CONFIG_FILE, AsJson, ConfigFile


def check(config: ConfigFile = CONFIG_FILE, *, as_json: AsJson = False) -> None:
    """Check the configuration and report all its problems.

    Each problem names its key, the value and a hint. Reads the secrets and files that the
    configuration names, and tries to write where the store is, as the user who runs this, or to
    connect to its database; connects to neither workspace nor broker.
    """
    if not lazy.configuration_report.report(config, as_json=as_json):
        raise typer.Exit(2)

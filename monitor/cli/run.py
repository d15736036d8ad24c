"""``run``: the daemon, in the foreground."""

from __future__ import annotations

from monitor.cli import lazy
from monitor.cli.options import CONFIG_FILE, ConfigFile


def run(config: ConfigFile = CONFIG_FILE) -> None:
    """Run the daemon in the foreground.

    SIGTERM and SIGINT drain and end it; SIGHUP reloads the configuration. A configuration that is
    refused changes nothing; the log and the metrics report it.
    """
    lazy.daemon_process.run(config)

"""Commands that call a daemon load what they need, so that a script can call them often."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

TREE = Path(__file__).parents[2]

# Whole rooms and libraries that a request to a daemon and a table of its answer do without.
NEEDLESS = frozenset(
    {
        "aiohttp",
        "asyncio",
        "prometheus_client",
        "rich",
        "structlog",
        "monitor.alerting",
        "monitor.app",
        "monitor.bus",
        "monitor.callbacks",
        "monitor.catalogue",
        "monitor.outputs",
        "monitor.polling",
        "monitor.sandbox",
        "monitor.tracking",
        "monitor.web.server",
        "monitor.workspace",
    }
)
COMMANDS = (
    "status",
    "pipelines",
    "runs --status failed --since 24h",
    "workspaces",
    "outages",
    "schedules",
    "alerts",
    "silence list",
    "acknowledge 9f86d081884c7d65",
    "explain job_group 7827359",
    "replay --since 2h --to webhook",
    "dead-letters",
    "cluster",
    "webhooks list",
    "track job_group 7827359",
    "track job_group 7827359 --wait --timeout 1s",
    "events",
)
# Prints which needless modules there are after each command, in one process: a module that the
# first of them loads is reported for that one.
SCRIPT = """
import contextlib, io, json, sys
from monitor.cli.main import main
needless, commands = json.loads(sys.argv[1]), json.loads(sys.argv[2])
loaded = {}
for command in commands:
    err = io.StringIO()
    with contextlib.redirect_stderr(err):
        code = main(command)
    assert "no daemon answers" in err.getvalue(), (command, code, err.getvalue())
    loaded[" ".join(command)] = [name for name in needless if name in sys.modules]
print(json.dumps(loaded))
"""


def loaded_by(*options: str) -> dict[str, list[str]]:
    """Return the needless modules that are there after each command with these options."""
    commands = [[*command.split(), *options] for command in COMMANDS]
    words = json.dumps(sorted(NEEDLESS)), json.dumps(commands)
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *words],
        cwd=TREE,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    loaded: dict[str, list[str]] = json.loads(done.stdout)
    return loaded


def test_a_command_of_a_url_loads_no_room_of_the_daemon() -> None:
    """No event loop, HTTP server, colours or rules are loaded to print what a daemon answers."""
    found = loaded_by("--url", "http://127.0.0.1:9")
    assert found == {command: [] for command in found}


def test_a_command_of_a_configuration_reads_its_server_alone(tmp_path: Path) -> None:
    """Neither the settings of the other rooms are loaded, nor the secrets of workspaces read."""
    path = tmp_path / "monitor.toml"
    marker = tmp_path / "marker"
    path.write_text(
        '[[workspaces]]\nname = "acme"\nurl = "http://127.0.0.1:9"\n'
        '[workspaces.oauth]\ntoken_url = "http://127.0.0.1:9"\nclient_id = "c"\n'
        f'refresh_token_command = ["/usr/bin/touch", "{marker}"]\n'
        '[server]\nlisten = "127.0.0.1:9"\ntoken_file = "token"\n'
    )
    (tmp_path / "token").write_text("a-token-of-the-server")
    found = loaded_by("-c", str(path))
    assert found == {command: [] for command in found}
    assert not marker.exists()

"""A backtest of the rules that were in force finds the alerts that fired, over a whole daemon."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

from tests.app import fixture
from tests.app.eventually import eventually
from tests.app.mqtt_subscriber import counted, ends_in
from tests.cli.command_process import CommandProcess
from tests.clocks import FastClock

_CONFIGURATION = """
[[workspaces]]
name = "acme"
url = "http://127.0.0.1:9"
token_file = "token"

[server]
listen = "127.0.0.1:{port}"
"""


async def test_unchanged_rules_find_what_fired(tmp_path: Path) -> None:
    """No alert is only new or only old; one that cannot be decided says what is not recorded."""
    clock = FastClock()
    workspace = fixture.sandbox(seed=4, cancel_ratio=0.04, speed=80.0, clock=clock)
    kinds = ("flow_run", "job_group", "plan_run")
    async with fixture.started(workspace) as url:
        settings = fixture.configuration(tmp_path, fixture.workspace_configuration(workspace, url))
        async with fixture.daemon(settings, clock=clock) as face:
            await eventually(lambda: face.is_following("acme"), why="not followed")
            workspace.open_for_work()
            await fixture.until_ended(workspace, kinds, at_least=15)
            await fixture.until_quiet(workspace)
            happened = counted(ends_in(workspace.ledger, kinds))

            async def knows_all() -> bool:
                return await face.ends() == happened

            await eventually(knows_all, why="not all ends are known")
            # Alerts that wait for a link fire, or not, before a backtest reads the log.
            settled_at = clock.now() + timedelta(seconds=40)
            await eventually(lambda: clock.now() >= settled_at, why="time stands still")
            (tmp_path / "token").write_text("a token")
            config = tmp_path / "monitor.toml"
            config.write_text(_CONFIGURATION.format(port=face.url.rpartition(":")[2]))
            command = CommandProcess()
            try:
                arguments = ("alerts", "backtest", "--since", "1h", "--json")
                done = await command(*arguments, config=config)
            finally:
                command.close()
    assert done.code == 0, done.err
    rows = json.loads(done.out)
    differences = [row for row in rows if row["only_new"] or row["only_old"]]
    assert differences == []
    undecided = [each for row in rows for each in row["undecided"]]
    assert all("linked to plan_run" in each["why"] for each in undecided), undecided
    fired = sum(row["did_fire"] for row in rows if not row["not_recorded"])
    assert fired > len(undecided)

"""The command ``demo`` as a person types it."""

from __future__ import annotations

import asyncio
import re
import signal
from pathlib import Path

import pytest

from monitor.catalogue.operations import Edition
from monitor.cli.demo_settings import configuration, sandbox_settings
from monitor.model.clock import SystemClock
from monitor.sandbox.sandbox import Sandbox
from monitor.workspace.settings import WorkspaceSettings
from tests.app.processes import command, running


def entries(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


async def test_the_demo_sums_up_three_counts_that_agree() -> None:
    """In edition RL runs of every kind end, all three count the same; failures are alerts too."""
    # Long enough for a failure by chance, also on a busy machine.
    done = await command("demo", "--for", "14", "--port", "0")
    assert "the three counts agree" in done.out, done.out + done.err
    assert done.code == 0
    assert "run.started" in done.out
    assert "http://127.0.0.1:" in done.out
    assert "run.failed" in done.out
    assert re.search(r"  alert\.fired     critical  .+ failed in demo\n", done.out), done.out
    assert re.search(r"  mail            data-team@example\.com: .+\(demo\)", done.out), done.out
    assert [kind for kind in ("flow_run", "job_group", "plan_run") if kind not in done.out] == []


async def test_the_demo_refreshes_its_access_token() -> None:
    """With --oauth several access tokens end during a short demo, and no run is missed."""
    done = await command("demo", "--oauth", "--for", "14", "--port", "0", "--no-events")
    assert "the three counts agree" in done.out, done.out + done.err
    assert done.code == 0
    refreshed = re.search(r"access token refreshed (\d+) times", done.out)
    assert refreshed is not None, done.out
    assert int(refreshed[1]) >= 2


def test_the_demo_has_the_default_request_budget(tmp_path: Path) -> None:
    """The demo works within the budget that a user gets: nothing is raised so that its runs fit."""
    sandbox = Sandbox(sandbox_settings(Edition.RL, speed=60, seed=1), SystemClock())
    settings = configuration(tmp_path, sandbox, "", broker_port=1, mail_port=2, port=0, secret="s")

    (workspace,) = settings.workspaces
    default = WorkspaceSettings(name="any", url="")
    assert workspace.workspace.requests_per_minute == default.requests_per_minute


async def test_the_demo_reports_why_nothing_is_followed_in_edition_pc() -> None:
    """Edition PC has no runs: that is reported, and is no failure."""
    done = await command("demo", "--edition", "PC", "--for", "8", "--port", "0")
    assert done.code == 0, done.out + done.err
    assert "nothing can be followed here: runs cannot be followed here" in done.out


async def test_an_interrupted_demo_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C exits 130, and the folder of its store is gone."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    async with running("demo", "--port", "0") as process:
        assert process.stdout is not None
        async with asyncio.timeout(30):
            async for line in process.stdout:
                if b"run.started" in line:
                    break
            assert len(entries(tmp_path)) == 1
            process.send_signal(signal.SIGINT)
            await process.stdout.read()
            assert await process.wait() == 130
    assert entries(tmp_path) == []

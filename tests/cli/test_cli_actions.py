"""``rerun`` and ``cancel``: what they ask the daemon for, and what they print."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from monitor.cli.main import main
from monitor.model.actions import Cancel, Rerun
from monitor.model.runs import RunKind
from tests.cli.command_process import CommandProcess
from tests.cli.daemon_scenario import DaemonClientScenario, daemon_client


@pytest.fixture
async def client(
    tmp_path: Path, run_command: CommandProcess
) -> AsyncIterator[DaemonClientScenario]:
    async with daemon_client(tmp_path, run_command) as scenario:
        yield scenario


async def test_a_run_is_run_again_with_an_execution_id(client: DaemonClientScenario) -> None:
    """Each command makes up another one, and sends the one that it is given."""
    words = ("rerun", "flow_run", "31")
    done = [await client.type(*words), await client.type(*words)]
    done.append(await client.type(*words, "--execution-id", "e" * 16, "-w", "acme"))
    assert [(each.code, each.out, each.err) for each in done] == [(0, "acted on 31\n", "")] * 3
    asked = [action for _, action in client.site.requested]
    assert all(isinstance(action, Rerun) for action in asked)
    assert {(action.kind, action.id) for action in asked} == {(RunKind.FLOW_RUN, "31")}
    assert len({action.execution_id for action in asked}) == 3
    assert asked[2].execution_id == "e" * 16


async def test_a_run_is_canceled(client: DaemonClientScenario) -> None:
    """The answer is one sentence; a run that is not there is one error, exit 1."""
    done = await client.type("cancel", "job_group", "9")
    assert (done.code, done.out, done.err) == (0, "acted on 9\n", "")
    assert client.site.requested == [("acme", Cancel(kind=RunKind.JOB_GROUP, id="9"))]
    refused = await client.type("cancel", "job_group", "404")
    assert (refused.code, refused.out) == (1, "")
    assert refused.err == "error: the daemon answered 404: there is no such run\n"


@pytest.mark.parametrize("command", ["rerun", "cancel"])
def test_a_text_that_is_no_id_calls_no_daemon(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 2 with the value and what would fit, although there is no daemon."""
    assert main([command, "job_group", "../flows/1", "-c", "/nowhere/monitor.toml"]) == 2
    assert "'../flows/1' is not the id of a job_group" in capsys.readouterr().err

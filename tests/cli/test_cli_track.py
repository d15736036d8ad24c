"""``track --wait``: the end of a run as an exit code."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from monitor.cli.main import main
from monitor.model.runs import RunKind, Status
from tests.app.eventually import eventually
from tests.cli.canned_server import always, other_server
from tests.cli.command_process import CommandProcess
from tests.cli.daemon_scenario import DaemonClientScenario, daemon_client


@pytest.fixture
async def client(
    tmp_path: Path, run_command: CommandProcess
) -> AsyncIterator[DaemonClientScenario]:
    async with daemon_client(tmp_path, run_command) as scenario:
        yield scenario


async def test_a_success_is_waited_for(client: DaemonClientScenario) -> None:
    """The run is not known at first; its end is printed with how long it took, exit 0."""
    site = client.site
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(client.type("track", "job_group", "9", "--wait"))
        await eventually(lambda: bool(site.requested), why="track was not requested")
        begun = site.clock.now() - timedelta(minutes=2, seconds=5)
        await site.observe(site.run("9", Status.SUCCEEDED, started_at=begun))
    done = waiting.result()
    assert site.requested == [("acme", RunKind.JOB_GROUP, "9")]
    assert (done.code, done.err) == (0, "")
    assert done.out == "job_group/9 succeeded after 2 min 5 s\n"


@pytest.mark.parametrize("status", [Status.FAILED, Status.CANCELED, Status.LOST])
async def test_any_other_end_is_a_failure(client: DaemonClientScenario, status: Status) -> None:
    """Exit 1, with the reason in one line."""
    await client.site.observe(client.site.run("9", status, error="no such\ncolumn"))
    done = await client.type("track", "job_group", "9", "-w", "acme", "--wait")
    assert (done.code, done.err) == (1, "")
    assert done.out == f"job_group/9 {status} after 0 s: no such column\n"


async def test_waiting_has_an_end(client: DaemonClientScenario) -> None:
    """A run that has not ended in time is named with its status, exit 1."""
    await client.site.observe(client.site.run("9"))
    done = await client.type("track", "job_group", "9", "--wait", "--timeout", "1s")
    assert (done.code, done.out) == (1, "")
    assert done.err == (
        "error: job_group/9 is running after 1 s of waiting; the daemon follows it further; wait "
        "longer with --timeout\n"
    )


async def test_a_terminal_shows_how_far_the_run_is(client: DaemonClientScenario) -> None:
    """Status and time stand in one line, which is cleared before the last message."""
    await client.site.observe(client.site.run("9"))
    master, slave = os.openpty()
    words = ("track", "job_group", "9", "--wait", "--timeout", "1s", "-c", str(client.config))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "monitor.cli.main", *words),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=slave,
        cwd=Path(__file__).parents[2],
    )
    os.close(slave)
    async with asyncio.timeout(30):
        assert await process.wait() == 1
    with os.fdopen(master, "rb", buffering=0) as terminal:
        shown = terminal.read(65_536).decode()
    lines = shown.split("\r\x1b[K")
    assert lines[1].startswith("job_group/9: running, for ")
    assert lines[-1].startswith("error: job_group/9 is running after 1 s of waiting")


async def test_of_several_workspaces_one_is_named(run_command: CommandProcess) -> None:
    """Which of them has the run cannot be guessed: exit 2, and which there are."""
    workspaces = {"detail": "ok", "data": [{"workspace": "north"}, {"workspace": "south"}]}
    async with other_server(always(workspaces)) as url:
        done = await run_command("track", "plan_run", "9", "--wait", "--url", url, config=None)
    assert (done.code, done.err) == (2, "--workspace: name one of north, south\n")


def test_a_time_limit_is_a_length_of_time(capsys: pytest.CaptureFixture[str]) -> None:
    """It is refused before the daemon is asked for anything."""
    words = ["track", "job_group", "9", "--wait", "--timeout", "soon", "-c", "/nowhere"]
    assert main(words) == 2
    assert capsys.readouterr().err.startswith("--timeout: 'soon' is no length of time; write one")


async def test_a_busy_daemon_is_asked_again(run_command: CommandProcess) -> None:
    """A refusal for now, as while the store is busy, says nothing about the run."""
    answers = iter(
        [
            web.json_response({"detail": "following 9"}),
            web.json_response({"data": [{"workspace": "acme"}], "next": None}),
            web.json_response({"run": {"status": "running"}}),
            web.json_response({"detail": "the store is busy"}, status=503),
            web.json_response({"detail": "too many requests"}, status=429),
            web.json_response({"run": {"status": "succeeded"}}),
        ]
    )

    async def handle(_: web.Request) -> web.Response:
        return next(answers)

    async with other_server(handle) as url:
        done = await run_command("track", "job_group", "9", "--wait", "--url", url, config=None)
    assert (done.code, done.out, done.err) == (0, "job_group/9 succeeded\n", "")


async def test_a_daemon_that_says_when_is_asked_again(run_command: CommandProcess) -> None:
    """A long list is read to its end, however often the daemon limits what a source may read."""
    page: dict[str, Any] = {"data": [], "next": None, "total": 0}
    limited = {"detail": "a source may not read so much in a minute"}
    asked: list[str] = []

    async def handle(request: web.Request) -> web.Response:
        asked.append(request.path)
        if len(asked) <= 3:
            return web.json_response(limited, status=429, headers={"Retry-After": "0"})
        return web.json_response(page)

    async with other_server(handle) as url:
        done = await run_command("runs", "--url", url, config=None)
    assert (done.code, len(asked)) == (0, 4)


async def test_a_daemon_that_stays_busy_is_one_error(run_command: CommandProcess) -> None:
    """It is asked a few times, and not where it says to come back much later."""
    after = iter(["0"] * 6 + ["3600"])

    async def handle(_: web.Request) -> web.Response:
        headers = {"Retry-After": next(after)}
        return web.json_response({"detail": "too much"}, status=429, headers=headers)

    async with other_server(handle) as url:
        first = await run_command("runs", "--url", url, config=None)
        second = await run_command("runs", "--url", url, config=None)
    for done in (first, second):
        assert done.code != 0
        assert "the daemon answered 429: too much" in done.err
    assert next(after, None) is None


async def test_a_run_that_is_denied_later_is_waited_for_no_more(
    run_command: CommandProcess,
) -> None:
    """The workspace answers after an outage, and has no such run: exit 1, long before the time."""
    requests: list[str] = []

    async def handle(request: web.Request) -> web.Response:
        if request.path == "/api/v1/workspaces":
            return web.json_response({"data": [{"workspace": "acme"}], "next": None})
        if request.path != "/api/v1/track":
            return web.json_response({"detail": "run is not known"}, status=404)
        requests.append(request.path)
        if len(requests) == 1:
            return web.json_response({"detail": "the request is stored"}, status=202)
        return web.json_response({"detail": "acme:job_group:9 is denied"}, status=404)

    async with other_server(handle) as url:
        words = ("track", "job_group", "9", "--wait", "--timeout", "60s")
        done = await run_command(*words, "--url", url, config=None)
    assert (done.code, done.out) == (1, "")
    assert done.err == "error: the daemon answered 404: acme:job_group:9 is denied\n"


async def test_a_request_is_dropped_by_a_command(client: DaemonClientScenario) -> None:
    """Exit 0 with what the daemon answers; 1 where no such request waits."""
    done = await client.type("untrack", "job_group", "9")
    assert (done.code, done.out) == (0, "acme asks for job_group 9 no more\n")
    missing = await client.type("untrack", "job_group", "404")
    assert (missing.code, missing.out) == (1, "")
    assert missing.err == "error: the daemon answered 404: it is not asked for\n"

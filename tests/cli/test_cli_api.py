"""``api`` calls any operation of a configured workspace."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import zipfile
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest
from aiohttp import web

from monitor.cli.main import main
from monitor.sandbox.settings import WorldOptions
from monitor.sandbox.world.records.objects import Flow
from tests.app.eventually import eventually
from tests.app.processes import COMMAND, running
from tests.cli.api_scenario import TOKEN, api_scenario, configured
from tests.cli.command_process import CommandProcess
from tests.workspace.scripted import answer, refusal, serving


async def test_an_operation_is_called_by_either_name(
    tmp_path: Path, run_command: CommandProcess
) -> None:
    """The answer is printed as JSON, whichever way the operation was named."""
    async with api_scenario(tmp_path, run_command) as api:
        flow = next(iter(api.world.flows.live()))
        by_id = await api.answer("getFlow", flow.id)
        by_path = await api.answer("GET", f"/v4/flows/{flow.id}", "-q", "fields=id;name")
    assert by_id["name"] == by_path["name"] == flow.name
    assert set(by_path) == {"id", "name"}
    assert [path for path, _ in api.requests] == ["getFlow", "getFlow"]


async def test_all_follows_the_pages_of_a_list(tmp_path: Path, run_command: CommandProcess) -> None:
    """Without --all the workspace's first page, with it every row once, as lines of an array."""
    async with api_scenario(tmp_path, run_command) as api:
        person = min(flow.creator_id for flow in api.world.flows.live())
        for number in range(1_000):
            api.world.create(Flow, by=person, name=f"flow {number}")
        first = await api.answer("listFlows", "-q", "flowsFilter=all")
        done = await api("listFlows", "--all", "-q", "flowsFilter=all", "-q", "fields=id;name")
        names = {flow.id: flow.name for flow in api.world.flows.live()}
        into = tmp_path / "flows.json"
        pages = ("--all", "-q", "flowsFilter=all", "-q", "limit=400")
        saved = await api("GET", "flows", *pages, "--out", into)
    assert len(first["data"]) == 25
    rows = json.loads(done.out)
    assert len(rows) == len(names) >= 1_000
    assert {row["id"]: row["name"] for row in rows} == names
    assert len(done.out.splitlines()) == len(names) + 2
    assert (saved.code, saved.out, saved.err) == (0, "", "")
    assert len(json.loads(into.read_text())) == len(names)
    assert [query["limit"] for _, query in api.requests[-3:]] == ["400"] * 3
    assert [query.get("sort") for _, query in api.requests[1:]] == ["id"] * (len(api.requests) - 1)


async def test_an_empty_list_is_an_empty_array(tmp_path: Path, run_command: CommandProcess) -> None:
    """Nothing to follow is still a JSON document."""
    async with api_scenario(tmp_path, run_command) as api:
        assert await api.answer("listJobLibrary", "--all") == []
    assert api.requests[0][1]["limit"] == "250"


async def test_a_file_is_written_where_o_names_it(
    tmp_path: Path, run_command: CommandProcess
) -> None:
    """A PDF goes to --out, or as it is into a pipe; what has no body makes no file."""
    into = tmp_path / "result.pdf"
    async with api_scenario(tmp_path, run_command) as api:
        flow = next(iter(api.world.flows.live()))
        api.engine.start_flow_run(flow, by=flow.creator_id)
        group = next(iter(api.world.job_groups.live()))
        done = await api("getJobGroupPdfResults", group.id, "--out", into)
        piped = await api("getJobGroupPdfResults", group.id)
        missing = await api("getJobGroupPdfResults", 1, "--out", tmp_path / "none.pdf")
    assert (done.code, done.out, done.err) == (0, "", "")
    assert into.read_bytes().startswith(b"%PDF-")
    assert piped.content.startswith(b"%PDF-")
    assert missing.code == 1
    assert not (tmp_path / "none.pdf").exists()


async def test_a_body_comes_from_the_line_a_file_or_stdin(
    tmp_path: Path, run_command: CommandProcess
) -> None:
    """JSON is sent as JSON; a file that is a ZIP is uploaded as one."""
    (tmp_path / "body.json").write_text('{"name": "from a file"}')
    with zipfile.ZipFile(tmp_path / "sales.zip", "w") as file:
        file.writestr("flow.json", "{}")
    async with serving(answer({"id": 1}, 201)) as workspace:
        config = configured(tmp_path, workspace.url)
        for data in ('{"name": "typed"}', f"@{tmp_path}/body.json", f"@{tmp_path}/sales.zip"):
            done = await run_command("api", "POST", "/v4/flows/package", "-d", data, config=config)
            assert (done.code, json.loads(done.out)) == (0, {"id": 1})
        process = await asyncio.create_subprocess_exec(
            *COMMAND,
            *("api", "createFlow", "-c", config, "-d", "@-"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        await process.communicate(b'{"name": "piped"}')
    bodies = [json.loads(workspace.bodies[number])["name"] for number in (0, 1, 3)]
    assert bodies == ["typed", "from a file", "piped"]
    assert workspace.requests[2].content_type == "multipart/form-data"
    assert (tmp_path / "sales.zip").read_bytes() in workspace.bodies[2]


async def test_a_run_that_was_started_is_not_started_again(
    tmp_path: Path, run_command: CommandProcess
) -> None:
    """The same --execution-id, a lost answer and its retries all mean one run."""
    options = WorldOptions(dropped=1.0, only=frozenset({"runFlow"}))
    async with api_scenario(tmp_path, run_command, options=options) as api:
        flow = next(iter(api.world.flows.live()))
        lost = asyncio.create_task(api("runFlow", flow.id, "--execution-id", "mine"))
        await eventually(lambda: len(api.requests) > 1, why="the run was not tried again")
        api.world.options.dropped = 0.0
        first = await lost
        again = await api("runFlow", flow.id, "--execution-id", "mine")
        runs = len(list(api.world.flow_runs.live()))
        other = await api.answer("runFlow", flow.id)
    assert runs == 1
    for done in (first, again):
        assert (done.code, done.out) == (0, "")
        assert done.err == "answered 304: it was started before, with the same execution id\n"
    assert other["flowRunId"]


async def test_a_run_of_unknown_fate_reports_how_to_continue(
    tmp_path: Path, run_command: CommandProcess
) -> None:
    """An answer cut in two names the execution id with which no second run starts."""

    async def half(_: web.Request) -> web.Response:
        return web.Response(status=201, text='{"planSnapshotRunId":', content_type="text/plain")

    async with serving(half) as workspace:
        config = configured(tmp_path, workspace.url)
        done = await run_command("api", "runPlan", "5", "--execution-id", "mine", config=config)
    assert (done.code, done.out) == (1, "")
    assert "should it have started, --execution-id mine starts no second\n" in done.err
    assert workspace.requests[0].headers["x-execution-id"] == "mine"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["createAccessToken"], "createAccessToken is not part of edition LE; RL has it\n"),
        (["GET", "/v4/flows"], "listFlows is not part of edition LE; PC, PL and RL have it\n"),
    ],
)
async def test_an_operation_that_the_edition_lacks_is_refused(
    tmp_path: Path, run_command: CommandProcess, arguments: list[str], sentence: str
) -> None:
    """One line that names who has it, exit 2, and nothing sent."""
    async with serving(answer({})) as workspace:
        config = configured(tmp_path, workspace.url, edition="LE")
        done = await run_command("api", *arguments, config=config)
    assert (done.code, done.out, done.err) == (2, "", sentence)
    assert workspace.requests == []


async def test_a_refusal_is_reported_with_its_details(
    tmp_path: Path, run_command: CommandProcess
) -> None:
    """Name, message and details of the envelope, on one line without token or colours."""
    printed = {
        "exception": {"name": "ValidationFailed", "message": "bad", "details": f"\x1b[1m{TOKEN}"}
    }
    async with serving(answer(printed, 400)) as workspace:
        config = configured(tmp_path, workspace.url)
        done = await run_command("api", "createFlow", "-d", "{}", config=config)
    assert (done.code, done.out) == (1, "")
    assert done.err == "error: createFlow answered 400: ValidationFailed: bad: \\x1b[1m***\n"


async def test_an_unknown_edition_is_read_from_the_workspace(
    tmp_path: Path, run_command: CommandProcess
) -> None:
    """Where the edition is not configured, the refusal adds who has the operation."""
    async with serving(refusal(404, "RouteNotFoundException")) as workspace:
        config = configured(tmp_path, workspace.url, edition="auto")
        done = await run_command("api", "createAccessToken", config=config)
    assert done.code == 1
    assert done.err.endswith("; in the catalogue RL has it\n")
    assert len(workspace.requests) == 1


async def test_an_unknown_parameter_is_sent_with_a_warning(
    tmp_path: Path, run_command: CommandProcess
) -> None:
    """The workspace may know more than its description, and a typing error is reported."""
    async with serving(answer({"count": 3})) as workspace:
        config = configured(tmp_path, workspace.url)
        done = await run_command(
            "api",
            "countJobLibrary",
            "-q",
            "stat=x",
            "-q",
            "dateFilter[updatedAt][gte]=1",
            config=config,
        )
    assert done.code == 0
    assert done.err.startswith("warning: countJobLibrary is not known to take stat, only ")
    assert dict(workspace.requests[0].query) == {"stat": "x", "dateFilter[updatedAt][gte]": "1"}


async def test_a_page_instead_of_an_answer_is_no_result(
    tmp_path: Path, run_command: CommandProcess
) -> None:
    """A login page with status 200 is a failure, and is not printed."""

    async def page(_: web.Request) -> web.Response:
        return web.Response(text="<html>sign in</html>", content_type="text/html")

    async with serving(page) as workspace:
        done = await run_command("api", "listFlows", config=configured(tmp_path, workspace.url))
    assert (done.code, done.out) == (1, "")
    assert done.err == "error: listFlows answered 200, but not as the API: text/html\n"


async def test_one_of_several_workspaces_is_chosen(
    tmp_path: Path, run_command: CommandProcess
) -> None:
    """With several configured -w says which; without it, or with a wrong one, exit 2."""
    async with serving(answer({"count": 3})) as workspace:
        config = configured(tmp_path, workspace.url, names=("north", "south"))
        none = await run_command("api", "countFlows", config=config)
        wrong = await run_command("api", "countFlows", "-w", "west", config=config)
        right = await run_command("api", "countFlows", "-w", "south", config=config)
    assert (none.code, wrong.code, right.code) == (2, 2, 0)
    assert "which one is meant; choose with -w of these: north, south" in none.err
    assert "'west' is not configured" in wrong.err
    assert len(workspace.requests) == 1


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["getFlw", "1"], "did you mean getFlow"),
        (["countFlows", "-q", "noequals"], "is not NAME=VALUE"),
        (["createFlow", "-d", "{"], "is no JSON"),
        (["createFlow", "-d", "@/nowhere/body.json"], "No such file"),
        (["listFlows", "--all", "-d", "{}"], "take no body"),
        (["getFlow", "1", "--execution-id", "x"], "only runFlow, runJobGroup, runPlan take one"),
        (["runFlow", "1", "--execution-id", "a\nb"], "no header can carry it"),
        ([], "Missing argument"),
    ],
)
def test_wrong_usage_exits_2(
    capsys: pytest.CaptureFixture[str], arguments: list[str], sentence: str
) -> None:
    """A request that cannot be sent is reported before a configuration is read."""
    assert main(["api", *arguments, "-c", "/nowhere/monitor.toml"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert sentence in " ".join(captured.err.split())


@contextlib.asynccontextmanager
async def on_a_terminal(config: Path, *arguments: str) -> AsyncIterator[Mapping[str, object]]:
    """Run ``api`` with stdout and stderr on a terminal; yields its exit code and what it showed."""
    ours, theirs = os.openpty()
    process = await asyncio.create_subprocess_exec(
        *COMMAND,
        *("api", *arguments),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={
            **os.environ,
            "DATAPREP_MONITOR_CONFIG": str(config),
            "TERM": "xterm",
            "COLUMNS": "90",
        },
    )
    os.close(theirs)
    try:
        shown = await asyncio.to_thread(_read_all, ours)
        yield {"code": await process.wait(), "shown": shown}
    finally:
        os.close(ours)


def _read_all(descriptor: int) -> str:
    output = b""
    with contextlib.suppress(OSError):  # how a terminal shows that nothing writes any more
        while piece := os.read(descriptor, 65_536):
            output += piece
    return output.decode()


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


async def test_a_terminal_shows_how_far_a_download_is(tmp_path: Path) -> None:
    """A bar with name and size while a file comes, and no file's bytes on the screen."""

    async def package(_: web.Request) -> web.Response:
        return web.Response(body=b"PK\x03\x04" + bytes(2**20), content_type="application/zip")

    async with serving(package) as workspace:
        config = configured(tmp_path, workspace.url)
        into = tmp_path / "sales.zip"
        async with on_a_terminal(config, "getFlowPackage", "7", "--out", str(into)) as saved:
            assert saved["code"] == 0
            assert "sales.zip" in str(saved["shown"])
            assert "1.0/1.0 MB" in str(saved["shown"])
        async with on_a_terminal(config, "getFlowPackage", "7") as refused:
            assert refused["code"] == 2
            assert "say where it goes" in str(refused["shown"])
    assert into.stat().st_size == 2**20 + 4
    assert len(workspace.requests) == 1


async def test_a_terminal_shows_what_a_call_waits_for(tmp_path: Path) -> None:
    """A failed attempt is reported with reason and wait; nothing else comes before the end."""
    throttled = refusal(429, "TooManyRequestsException", {"x-retry-after": "1"})
    async with serving(throttled, answer({"count": 3})) as workspace:
        config = configured(tmp_path, workspace.url)
        async with on_a_terminal(config, "countFlows") as done:
            assert done["code"] == 0
            first, *rest = str(done["shown"]).splitlines()
    assert "request is tried again" in first
    assert "throttled" in first
    assert json.loads("".join(rest)) == {"count": 3}


async def test_an_interrupted_download_leaves_nothing(tmp_path: Path) -> None:
    """Ctrl-C exits 130 without a trace, and no part of the file stays."""
    run_checks = asyncio.Event()

    async def stuck(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"PK" * 1000)
        run_checks.set()
        await asyncio.Event().wait()
        return response

    folder = tmp_path / "out"
    folder.mkdir()
    async with serving(stuck) as workspace:
        config = configured(tmp_path, workspace.url)
        into = str(folder / "sales.zip")
        async with running("api", "getFlowPackage", "7", "--out", into, config=config) as process:
            async with asyncio.timeout(20):
                await run_checks.wait()
            await eventually(lambda: bool(names_in(folder)), why="nothing is written")
            process.send_signal(signal.SIGINT)
            out, err = await process.communicate()
    assert (process.returncode, out, err) == (130, b"", b"")
    assert names_in(folder) == []

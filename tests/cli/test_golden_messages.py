"""The best messages of several commands, compared to the letter.

``golden/<command>.toml`` holds for each case what is typed and the whole message that it gets, and
names the three parts that make it a good one: the location, the value and the hint. To reword a
message, edit the text there, so that a review sees it beside the code; the three parts must stay
in it. Nothing rewrites these files. A failure shows the difference between the two texts.

Placeholders stand for what changes from run to run, in what is typed and in what is printed:
``<folder>`` of the configuration, ``<url>`` of the workspace, ``<address>`` of the daemon's server,
``<broker>``, and ``<number>`` of an error of the operating system.
"""

from __future__ import annotations

import contextlib
import difflib
import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import msgspec
import pytest
from msgspec import Struct

from monitor.cli.main import main
from monitor.model.clock import SystemClock
from monitor.model.runs import PipelineKind, Status
from monitor.sandbox.sandbox import Sandbox
from monitor.sandbox.settings import SandboxSettings
from monitor.web.settings import ServerSettings
from tests.cli.command_process import CommandProcess
from tests.cli.doctor_scenario import other_server
from tests.servers import Mosquitto
from tests.web.serving import serving

GOLDEN = Path(__file__).parent / "golden"
DEAD = "127.0.0.1:9"  # discard, which no machine serves any more
TOKEN = "the-token-itself"

Placeholders = dict[str, str]


class Case(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One wrong command line. ``adds`` follows the base, ``configuration`` replaces it."""

    about: str
    exit_code: int
    message: str
    location: str  # this and the next two must be in one line of the message, however it is worded
    hint: str
    value: str = ""  # empty where something is missing
    adds: str = ""
    configuration: str | None = None
    arguments: tuple[str, ...] = ()
    environment: dict[str, str] = {}
    scenario: str = "dead"
    token: str | None = None  # instead of the valid one


class Golden(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The file of one command."""

    base: str
    cases: dict[str, Case]


def golden(command: str) -> Golden:
    return msgspec.toml.decode((GOLDEN / f"{command}.toml").read_bytes(), type=Golden)


CASES = {
    (command, name): case
    for command in ("check", "api", "doctor", "silence", "explain", "status", "track")
    for name, case in golden(command).cases.items()
}


@contextlib.asynccontextmanager
async def dead(_: Path) -> AsyncIterator[Placeholders]:
    """Neither workspace nor daemon answers."""
    yield {"url": f"http://{DEAD}", "address": DEAD, "token": TOKEN}


@contextlib.asynccontextmanager
async def sandbox(_: Path) -> AsyncIterator[Placeholders]:
    """A workspace without traffic of its own."""
    workspace = Sandbox(SandboxSettings(traffic=None, schedules_fire=False), SystemClock())
    url = await workspace.start()
    try:
        yield {"url": url, "token": workspace.token}
    finally:
        await workspace.stop()


@contextlib.asynccontextmanager
async def broker(folder: Path) -> AsyncIterator[Placeholders]:
    """A workspace, and a broker that lets no client publish."""
    (folder / "acl").write_text("topic read #\n")
    (folder / "acl").chmod(0o644)
    options = (f"acl_file {folder}/acl",)
    async with sandbox(folder) as placeholders, Mosquitto(folder, options=options) as server:
        yield {**placeholders, "broker": server.url}


@contextlib.asynccontextmanager
async def stranger(folder: Path) -> AsyncIterator[Placeholders]:
    """A workspace, and another program on the port of the daemon's server."""
    async with sandbox(folder) as placeholders, other_server(200, {"status": "up"}) as port:
        yield {**placeholders, "address": f"127.0.0.1:{port}"}


@contextlib.asynccontextmanager
async def daemon(folder: Path) -> AsyncIterator[Placeholders]:
    """The daemon's server, at 10:00 on 2026-11-21."""
    async with serving(folder, ServerSettings(listen="127.0.0.1:0")) as site:
        yield {"address": site.url.removeprefix("http://"), "token": TOKEN}


@contextlib.asynccontextmanager
async def pipelines(folder: Path) -> AsyncIterator[Placeholders]:
    """The daemon's server, with a run, two flows and a plan that has the name of one of them."""
    async with serving(folder, ServerSettings(listen="127.0.0.1:0")) as site:
        for kind, pipeline_id, name in (
            (PipelineKind.FLOW, "7", "month end"),
            (PipelineKind.FLOW, "8", "orders"),
            (PipelineKind.PLAN, "3", "month end"),
        ):
            site.live_state.name_pipeline("acme", kind, pipeline_id, name)
        await site.observe(site.run("17", Status.FAILED))
        yield {"address": site.url.removeprefix("http://"), "token": TOKEN}


SCENARIOS: Mapping[str, Callable[[Path], AbstractAsyncContextManager[Placeholders]]] = {
    "dead": dead,
    "sandbox": sandbox,
    "broker": broker,
    "stranger": stranger,
    "daemon": daemon,
    "pipelines": pipelines,
}


def without_placeholders(text: str, placeholders: Mapping[str, str]) -> str:
    for name, value in placeholders.items():
        text = text.replace(f"<{name}>", value)
    return text


def with_placeholders(text: str, placeholders: Mapping[str, str]) -> str:
    """Return the text with a placeholder for each value that changes from run to run."""
    for name, value in placeholders.items():
        # The dead address never changes and reads better as it is; a token must not be hidden.
        if DEAD not in value and name != "token":
            text = text.replace(value, f"<{name}>")
    return re.sub(r"\[Errno \d+\]", "[Errno <number>]", text)


def written(command: str, case: Case, placeholders: Mapping[str, str]) -> Path:
    """Write the configuration of a case and its token; return the configuration's path."""
    folder = Path(placeholders["folder"])
    (folder / "token").write_text(case.token or placeholders["token"])
    text = golden(command).base + case.adds if case.configuration is None else case.configuration
    path = folder / "monitor.toml"
    path.write_text(without_placeholders(text, placeholders))
    return path


def assert_same(command: str, name: str, message: str) -> None:
    """Compare a message with the golden one; a failure shows the difference line by line."""
    expected = CASES[command, name].message
    difference = difflib.unified_diff(
        expected.splitlines(keepends=True),
        message.splitlines(keepends=True),
        f"tests/cli/golden/{command}.toml [cases.{name}]",
        f"output of {command}",
    )
    assert message == expected, f"the message has changed:\n{''.join(difference)}"


@pytest.mark.parametrize(
    "name", [name for command, name in CASES if command == "check"], ids=lambda name: name
)
def test_messages_of_check(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
) -> None:
    """Every problem has its line on stderr, and nothing is on stdout."""
    case, placeholders = CASES["check", name], {"folder": str(tmp_path), "token": TOKEN}
    for variable, text in case.environment.items():
        monkeypatch.setenv(variable, text)
    code = main(["check", *case.arguments, "-c", str(written("check", case, placeholders))])
    out, err = capsys.readouterr()
    assert_same("check", name, with_placeholders(err, placeholders))
    assert (code, out) == (case.exit_code, "")


@pytest.mark.parametrize(
    ("command", "name"),
    [key for key in CASES if key[0] not in {"check", "doctor"}],
    ids=lambda word: word,
)
async def test_messages_of_commands_that_ask(
    tmp_path: Path, run_command: CommandProcess, command: str, name: str
) -> None:
    """A refused call of the workspace or of the daemon is explained on stderr."""
    case = CASES[command, name]
    async with SCENARIOS[case.scenario](tmp_path) as scenario:
        placeholders = {"folder": str(tmp_path), **scenario}
        path = written(command, case, placeholders)
        done = await run_command(command, *case.arguments, config=path)
    assert_same(command, name, with_placeholders(done.err, placeholders))
    assert done.code == case.exit_code


@pytest.mark.parametrize(
    "name", [name for command, name in CASES if command == "doctor"], ids=lambda name: name
)
async def test_messages_of_doctor(tmp_path: Path, run_command: CommandProcess, name: str) -> None:
    """Warnings and failures have their lines on stdout, wrong usage on stderr."""
    case = CASES["doctor", name]
    async with SCENARIOS[case.scenario](tmp_path) as scenario:
        placeholders = {"folder": str(tmp_path), **scenario}
        path = written("doctor", case, placeholders)
        done = await run_command("doctor", *case.arguments, config=path)
    lines = done.out.splitlines(keepends=True)
    not_ok = "".join(line for line in lines if not line.startswith("ok  "))
    assert_same("doctor", name, with_placeholders(done.err + not_ok, placeholders))
    assert done.code == case.exit_code


@pytest.mark.parametrize(("command", "name"), CASES, ids=lambda word: word)
def test_a_message_names_location_value_and_hint(command: str, name: str) -> None:
    """One line of each golden message gives the location, the value found and a hint."""
    case = CASES[command, name]
    assert case.location
    assert case.hint
    needed = (case.location, case.value, case.hint)
    lines = case.message.splitlines()
    assert any(all(part in line for part in needed) for line in lines), needed


@pytest.mark.parametrize(("command", "name"), CASES, ids=lambda word: word)
def test_no_message_shows_a_secret(command: str, name: str) -> None:
    """No message contains a token or password of its case."""
    message = CASES[command, name].message
    for secret in (TOKEN, "the-password", "not-the-token-of-this-workspace"):
        assert secret not in message

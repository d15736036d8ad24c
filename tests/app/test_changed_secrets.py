"""A secret that changes where it stands is put in force without a reload, if it can be used."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import aiohttp
import msgspec
import pytest
import structlog
from prometheus_client import CollectorRegistry

from monitor.app.daemon import Addresses, Daemon
from monitor.callbacks.settings import CallbackSettings
from monitor.cli.service_manager import ServiceManager
from monitor.cli.settings_files import load
from monitor.cli.sighup import READ_SECRETS_SECONDS, SighupReload
from monitor.config import Configuration, read_secrets_again
from monitor.logs import Redactor
from monitor.model.clock import SystemClock
from monitor.model.errors import ConfigurationError
from monitor.model.secrets import Secret
from tests.app.eventually import eventually
from tests.clocks import ManualClock

KEY = "whsec_" + "a" * 32
NEW_KEY = "whsec_" + "b" * 32
SECRETS = {
    "token": "the first token",
    "callbacks": "the first callback secret",
    "mqtt": "the first password",
    "webhook": KEY,
    "channel": "json://first.example.com",
    "server": "the first token of the server 1a2b3c",
}
CONFIGURATION = """
[[workspaces]]
name = "north"
url = "http://127.0.0.1:9"
token_file = "token"
[workspaces.callbacks]
secret_file = "callbacks"
[callbacks]
listen = "127.0.0.1:0"
[server]
listen = "127.0.0.1:0"
token_file = "server"
[storage]
url = "sqlite://{folder}/state.db"
"""
OUTPUTS = """
[mqtt]
url = "mqtt://127.0.0.1:9"
username = "monitor"
password_file = "mqtt"
[webhook]
url = "http://127.0.0.1:9"
secret_file = "webhook"
[[notify]]
name = "team"
url_file = "channel"
"""


@pytest.fixture(name="path")
def _path(tmp_path: Path) -> Path:
    for name, text in SECRETS.items():
        (tmp_path / name).write_text(text)
    path = tmp_path / "monitor.toml"
    path.write_text(CONFIGURATION.format(folder=tmp_path) + OUTPUTS)
    return path


def test_what_has_not_changed_is_the_same_object(path: Path) -> None:
    """So that nothing is rebuilt every half minute."""
    configuration = load(path)
    read = read_secrets_again(configuration)
    assert read.configuration is configuration
    assert read.problems == ()


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("callbacks", "the second callback secret"),
        ("mqtt", "the second password"),
        ("webhook", NEW_KEY),
        ("channel", "json://second.example.com"),
        ("server", "the second token of the server 4d5e6f"),
    ],
)
def test_each_is_read_again_where_it_stands(path: Path, file: str, text: str) -> None:
    """The configuration differs in that secret only, and is what a reload would give."""
    configuration = load(path)
    (path.parent / file).write_text(text)
    read = read_secrets_again(configuration)
    assert read.problems == ()
    assert Secret(text) in read.configuration.secrets()
    assert Secret(SECRETS[file]) not in read.configuration.secrets()
    assert read.configuration == load(path) != configuration
    (path.parent / file).write_text("")
    assert read_secrets_again(read.configuration).configuration is read.configuration


def test_the_token_of_a_workspace_is_left_to_its_client(path: Path) -> None:
    """It is taken over there without a restart of the workspace."""
    configuration = load(path)
    (path.parent / "token").write_text("the second token")
    assert read_secrets_again(configuration).configuration is configuration


@pytest.mark.parametrize(
    ("file", "text", "problem"),
    [
        ("callbacks", "short", "workspaces[0].callbacks.secret: must hold at least 16 characters"),
        ("mqtt", None, "mqtt.password: there is no such file"),
        ("webhook", "no key", "webhook.secret: must be whsec_"),
        ("channel", "two\nlines", "notify[0].url: the secret holds a line end"),
    ],
)
def test_one_that_cannot_be_used_leaves_the_former_one(
    path: Path, file: str, text: str | None, problem: str
) -> None:
    """One sentence names its key and not its text; what else has changed is taken over."""
    configuration = load(path)
    (path.parent / "server").write_text("the second token of the server 4d5e6f")
    if text is None:
        (path.parent / file).unlink()
    else:
        (path.parent / file).write_text(text)
    read = read_secrets_again(configuration)
    assert [found.startswith(problem) for found in read.problems] == [True]
    assert Secret(SECRETS[file]) in read.configuration.secrets()
    assert Secret(SECRETS["server"]) not in read.configuration.secrets()


def test_commands_run_together(path: Path) -> None:
    """Each of them ends only once the others run: one after the other, none would in its time."""
    names = ("callbacks", "mqtt", "webhook", "channel", "server")
    script = path.parent / "print"
    script.write_text(
        f"#!/bin/sh\n[ -e together ] || exec cat $1\n: > $1.runs\n"
        f'until [ "$(ls *.runs | wc -l)" = {len(names)} ]; do sleep 0.02; done\ncat $1\n'
    )
    script.chmod(0o700)
    text = path.read_text()
    for name in names:
        text = text.replace(f'_file = "{name}"', f'_command = ["./print", "{name}"]')
    path.write_text(text)
    configuration = load(path)
    (path.parent / "together").touch()
    (path.parent / "callbacks").write_text("the second callback secret")
    read = read_secrets_again(configuration)
    assert read.problems == ()
    assert Secret("the second callback secret") in read.configuration.secrets()


def test_no_more_than_eight_are_read_at_once(path: Path) -> None:
    """Sixteen are read in two groups, and one that cannot be read leaves all others to change."""
    together, lock = threading.Barrier(8), threading.Lock()
    running, most, begun = 0, 0, 0

    def read() -> Secret:
        nonlocal running, most, begun
        with lock:
            running, begun = running + 1, begun + 1
            most, number = max(most, running), begun
        together.wait(timeout=20)
        with lock:
            running -= 1
        if number == 5:
            raise ConfigurationError("it cannot be read")
        return Secret(f"the second secret of callbacks {number}")

    configuration = load(path)
    (first,) = configuration.workspaces
    many = tuple(
        msgspec.structs.replace(
            first,
            callbacks=CallbackSettings(secret=Secret("the first one of all", read_again=read)),
        )
        for _ in range(16)
    )
    read_again = read_secrets_again(
        msgspec.structs.replace(configuration, workspaces=many, outputs={})
    )
    secrets = [
        part.callbacks.secret for part in read_again.configuration.workspaces if part.callbacks
    ]
    assert most == 8
    assert len(set(secrets)) == 16
    assert [problem.endswith("it cannot be read") for problem in read_again.problems] == [True]


async def test_a_running_daemon_takes_a_new_one_by_itself(path: Path) -> None:
    """Within half a minute the new secret of callbacks is the right one; a flaw is logged once."""
    folder, clock, redactor = path.parent, ManualClock(), Redactor()
    path.write_text(CONFIGURATION.format(folder=folder))  # noqa: ASYNC240 - before anything runs
    configuration = load(path)
    daemon = Daemon(configuration, clock=SystemClock(), registry=CollectorRegistry())
    reloaded: list[Configuration] = []
    sighup = SighupReload(
        daemon,
        path,
        configuration=configuration,
        manager=ServiceManager(None, clock=clock),
        redactor=redactor,
        clock=clock,
        on_reloaded=reloaded.append,
    )
    stop, started = asyncio.Event(), asyncio.get_running_loop().create_future()
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        running = daemon.run(stop, on_started=started.set_result, beside={"reload": sighup.run})
        group.create_task(running)
        addresses: Addresses = await started
        url = f"http://127.0.0.1:{addresses.callbacks_port}/hooks/north"

        async def accepts(secret: str) -> bool:
            headers = {"X-Monitor-Secret": secret, "Content-Type": "application/json"}
            body = b'{"monitor_test":"north"}'
            async with (
                aiohttp.ClientSession() as session,
                session.post(url, data=body, headers=headers) as answer,
            ):
                return answer.status != 404

        assert await accepts("the first callback secret")
        with structlog.testing.capture_logs() as logged:
            (folder / "callbacks").write_text("short")

            async def is_logged() -> bool:
                await clock.advance(READ_SECRETS_SECONDS)
                return any("cannot be read again" in line["event"] for line in logged)

            await eventually(is_logged, why="the flaw was not logged")
            assert await accepts("the first callback secret")
            (folder / "callbacks").write_text("the second callback secret")

            async def is_taken() -> bool:
                await clock.advance(READ_SECRETS_SECONDS)
                return await accepts("the second callback secret")

            await eventually(is_taken, why="the new secret was not taken over")
        assert not await accepts("the first callback secret")
        assert redactor.text("the second callback secret") == "***"
        assert sum("cannot be read again" in line["event"] for line in logged) == 1
        assert reloaded == []  # SIGHUP alone reads the rest of the file
        stop.set()

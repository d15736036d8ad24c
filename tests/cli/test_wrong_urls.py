"""A url that leads to no API: `run` and `doctor` say so at once, in one line with what to do."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from monitor.catalogue.operations import Edition
from monitor.model.clock import SystemClock
from monitor.sandbox.sandbox import Sandbox
from monitor.sandbox.settings import SandboxSettings
from tests.app.processes import command, running
from tests.servers import free_port

_UNKNOWN_HOST = "http://api.clouddatapreb.invalid"
_ANSWER_SECONDS = 60.0


@pytest.fixture
async def url() -> AsyncIterator[str]:
    settings = SandboxSettings(
        edition=Edition.LE, token="of-ada", traffic=None, schedules_fire=False
    )
    sandbox = Sandbox(settings, SystemClock())
    yield await sandbox.start()
    await sandbox.stop()


@pytest.fixture
def wrong(url: str) -> dict[str, tuple[str, str, str]]:
    """Return by workspace: its url, and what reason and hint must say."""
    _, _, port = url.rpartition(":")
    closed = free_port()
    return {
        "host": (_UNKNOWN_HOST, "no name server knows the host", "correct the host in url"),
        "port": (
            f"http://127.0.0.1:{closed}",
            f"nothing listens on port {closed} of 127.0.0.1",
            "correct host and port in url",
        ),
        "path": (
            f"{url}/some/page",
            "answers, but not as the API does",
            "name the API's base in url",
        ),
        "tls": (
            f"https://127.0.0.1:{port}",
            f"port {port} of 127.0.0.1 does not speak TLS",
            "write http:// in url",
        ),
    }


def written(folder: Path, urls: dict[str, str]) -> Path:
    """Write a configuration that watches these workspaces."""
    path = folder / "monitor.toml"
    (folder / "token").write_text("of-ada")
    workspaces = "".join(
        f'[[workspaces]]\nname = "{name}"\nurl = "{url}"\ntoken_file = "token"\n'
        for name, url in urls.items()
    )
    path.write_text(
        f'{workspaces}[server]\nlisten = "127.0.0.1:0"\n'
        f'[storage]\nurl = "sqlite://{folder}/state.db"\n'
    )
    return path


async def test_run_names_each_wrong_url_and_the_page(
    tmp_path: Path, url: str, wrong: dict[str, tuple[str, str, str]]
) -> None:
    """One error each, none for the url that is right; the page's address is logged."""
    path = written(tmp_path, {"right": url, **{name: row[0] for name, row in wrong.items()}})
    errors: dict[str, dict[str, str]] = {}
    page = ""
    async with running("run", "-c", str(path)) as process, asyncio.timeout(_ANSWER_SECONDS):
        assert process.stderr is not None
        while len(errors) < len(wrong) or not page:
            line = json.loads(await process.stderr.readline())
            if line["event"] == "page served":
                page = line["url"]
            elif line["event"] == "workspace not reached":
                assert line["level"] == "error"
                assert line["workspace"] not in errors
                errors[line["workspace"]] = line
    assert page.startswith("http://127.0.0.1:")
    assert not page.endswith(":0/")
    for name, (_, reason, hint) in wrong.items():
        assert reason in errors[name]["reason"]
        assert errors[name]["hint"].startswith(hint)
    assert errors.keys() == wrong.keys()


async def test_doctor_names_each_wrong_url(
    tmp_path: Path, wrong: dict[str, tuple[str, str, str]]
) -> None:
    """One failed line for each, and nothing that only follows from it."""
    path = written(tmp_path, {name: row[0] for name, row in wrong.items()})
    done = await command("doctor", "-c", str(path))
    failed = [line for line in done.out.splitlines() if line.startswith("failed")]
    assert done.code == 1
    assert len(failed) == len(wrong), done.out
    for name, (_, reason, hint) in wrong.items():
        (line,) = [line for line in failed if line.split()[1] == name]
        if name == "tls":  # found out by the check of certificates
            assert "does not speak TLS" in line or "no TLS there" in line
        else:
            assert reason in line
            assert hint in line

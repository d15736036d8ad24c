"""The event loop of the daemon as a process."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tests.app import fixture
from tests.app.processes import Settings, Watched, daemon_process


@pytest.mark.parametrize(("setting", "loop"), [({}, "uvloop"), ({"UVLOOP": "false"}, "asyncio")])
async def test_one_setting_turns_uvloop_off(
    tmp_path: Path, setting: dict[str, str], loop: str
) -> None:
    """The daemon runs on uvloop, and on Python's own loop where `process.uvloop` is false."""
    workspace = fixture.sandbox()
    environment = {f"DATAPREP_MONITOR__PROCESS__{key}": value for key, value in setting.items()}
    async with (
        fixture.started(workspace) as url,
        daemon_process(
            Settings(tmp_path, Watched("acme", url, workspace.token)), environment=environment
        ) as daemon,
    ):
        lines = [msgspec.json.decode(line) for line in daemon.log.splitlines() if line[:1] == "{"]
        code = await daemon.end()

    started = [line["event_loop"] for line in lines if line["event"] == "daemon started"]
    assert started == [loop]
    assert code == 0

"""How faults are requested: by name on a command line, and the message for a wrong one."""

from __future__ import annotations

import asyncio
import sys

import aiohttp
import msgspec
import pytest

from monitor.cli.main import main
from monitor.sandbox.sandbox import Sandbox
from monitor.sandbox.settings import SandboxSettings
from monitor.sandbox.world.faults import Fault, FaultError, WorldOptions, parse_faults, table
from tests.clocks import ManualClock


def test_faults_are_combined() -> None:
    """Several in one text, several texts, spaces between; what is left out is healthy."""
    specs = ["latency=0.2, status_500=0.05", "clock_offset_seconds=-90,library_rows=bare", ""]
    assert parse_faults(specs) == WorldOptions(
        latency=0.2, status_500=0.05, clock_offset_seconds=-90.0, library_rows="bare"
    )
    assert parse_faults([]) == WorldOptions()


def test_a_later_value_replaces_an_earlier_one() -> None:
    """So a fault of a script can be weakened at its end; operations are added instead."""
    options = parse_faults(
        ["latency=5", "only=listPlans", "lose=listPlans@5+readFull"],
        WorldOptions(dropped=0.5, lose={"getFlow": 1.0}),
    )
    options = parse_faults(["latency=1", "only=getJobGroup+listPlans", "lose=listPlans@7"], options)
    assert options == WorldOptions(
        latency=1.0,
        dropped=0.5,
        only=frozenset({"listPlans", "getJobGroup"}),
        lose={"getFlow": 1.0, "listPlans": 7.0, "readFull": 0.0},
    )


@pytest.mark.parametrize("fault", table(), ids=lambda fault: fault.name)
def test_a_name_alone_switches_its_fault_on(fault: Fault) -> None:
    """A name without value has the effect that the table documents."""
    if fault.alone is None:
        with pytest.raises(FaultError, match=f"fault '{fault.name}' needs a value"):
            parse_faults([fault.name])
    else:
        options = parse_faults([fault.name])
        assert options == parse_faults([f"{fault.name}={fault.alone}"]) != WorldOptions()


@pytest.mark.parametrize(
    ("spec", "named"),
    [
        ("sped=2", "there is no fault 'sped'"),
        ("=2", "there is no fault ''"),
        ("latency=", "fault 'latency' cannot be ''"),
        ("latency=-1", "fault 'latency' cannot be '-1'"),
        ("latency=inf", "fault 'latency' cannot be 'inf'"),
        ("status_500=nan", "fault 'status_500' cannot be 'nan'"),
        ("status_500=1.01", "fault 'status_500' cannot be '1.01'"),
        ("clock_offset_seconds=soon", "fault 'clock_offset_seconds' cannot be 'soon'"),
        ("library_rows=none", "fault 'library_rows' cannot be 'none'"),
        ("page_shift=1.5", "fault 'page_shift' cannot be '1.5'"),
        ("cancels_fail=perhaps", "fault 'cancels_fail' cannot be 'perhaps'"),
        ("only=listNothing", "'listNothing' is no operation"),
        ("lose=listPlans+", "'' is no operation"),
        ("lose=listPlans@soon", "fault 'lose' cannot be 'listPlans@soon'"),
    ],
)
def test_a_wrong_fault_is_one_clear_line(
    spec: str, named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The line names the fault, what it takes and all that there are; the exit code is 2."""
    assert main(["sandbox", "--fault", "dropped=0.1", "--fault", spec]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    assert named in line
    assert all(fault.name in line for fault in table())


def test_every_option_of_the_world_is_in_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    """Each option that can be changed can be requested, and is explained as table and as JSON."""
    names = [fault.name for fault in table()]
    assert tuple(names) == WorldOptions.__struct_fields__
    assert all(fault.description and fault.takes for fault in table())
    assert main(["sandbox", "--faults"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[1:]] == names
    assert main(["sandbox", "--faults", "--json"]) == 0
    rows = msgspec.json.decode(capsys.readouterr().out)
    assert [row["name"] for row in rows] == names


def test_a_fault_stays_in_its_sandbox() -> None:
    """One that is switched on at run time touches no other sandbox of the same settings."""
    settings = SandboxSettings(options=parse_faults(["dropped=0.5,lose=listPlans@1"]))
    first, second = Sandbox(settings, ManualClock()), Sandbox(settings, ManualClock())
    first.world.options.dropped = 1.0
    first.world.options.lose["getFlow"] = 0.0
    assert (
        second.world.options == settings.options == parse_faults(["dropped=0.5,lose=listPlans@1"])
    )


async def test_the_command_runs_with_faults() -> None:
    """A sandbox that was started with a fault has it from its first answer on."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "monitor.cli.main", "sandbox", "--fault", "html_error=1", "--token", "t"),
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(20), aiohttp.ClientSession() as session:
            url = (await process.stdout.readline()).decode().removeprefix("url: ").strip()
            answer = await session.get(f"{url}/v4/flows", headers={"Authorization": "Bearer t"})
            assert (answer.status, answer.content_type) == (502, "text/html")
            process.terminate()
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()

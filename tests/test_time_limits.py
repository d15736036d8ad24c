"""The time limit of a test ends it, whatever runs at that moment."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_HANGING = """
import asyncio

async def test_that_hangs():
    async def compute():
        while True:
            sum(range(1_000))

    working = asyncio.create_task(compute())
    await asyncio.Event().wait()
"""


def test_a_limit_that_a_task_takes_for_its_own_error_ends_the_test(tmp_path: Path) -> None:
    """A busy task swallows the first alarm, as its own end; the next one ends the test by name."""
    file = tmp_path / "test_hanging.py"
    file.write_text(_HANGING)
    options = (
        *("-n", "0", "--timeout", "1", "-o", "asyncio_mode=auto"),
        *("-p", "tests.conftest", "-p", "no:cacheprovider"),
    )
    done = subprocess.run(
        (sys.executable, "-m", "pytest", *options, "--rootdir", str(tmp_path), str(file)),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=Path(__file__).parent.parent,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "Timeout (>1.0s)" in done.stdout
    assert "test_hanging.py::test_that_hangs" in done.stdout

"""The file descriptors of the process."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import PIPE

import pytest

_PROGRAM = (
    "from monitor.listening.file_descriptors import descriptor_limit, raise_descriptor_limit;"
    "raise_descriptor_limit(); print(descriptor_limit())"
)


@pytest.mark.parametrize(("soft", "hard", "raised"), [(200, 900, 900), (300, 300, 300)])
async def test_the_soft_limit_is_raised_to_the_hard_one(soft: int, hard: int, raised: int) -> None:
    """The daemon may open as many file descriptors as the system allows it."""
    script = f'ulimit -S -n {soft}; ulimit -H -n {hard}; exec "$0" -c "$1"'
    process = await asyncio.create_subprocess_exec(
        "bash", "-c", script, sys.executable, _PROGRAM, stdout=PIPE
    )
    output, _ = await process.communicate()

    assert output.decode().strip() == str(raised)

"""The debug switch `log.slow_steps` names the step that held the event loop."""

from __future__ import annotations

import asyncio
import logging
import time

import pytest

from monitor.cli.daemon_process import loop_factory, name_slow_steps
from monitor.model.slices import STEP_SECONDS


@pytest.mark.parametrize("may_be_uvloop", [True, False])
def test_a_slow_step_is_named(
    caplog: pytest.LogCaptureFixture,
    may_be_uvloop: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    """A task that holds the loop for too long is logged by its name, with how long it took."""

    async def hold(seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            pass

    async def run_both() -> None:
        name_slow_steps(asyncio.get_running_loop())
        await asyncio.create_task(hold(2 * STEP_SECONDS), name="acme: slow poll")

    factory = loop_factory(may_be_uvloop=may_be_uvloop)
    with (
        caplog.at_level(logging.WARNING, logger="asyncio"),
        asyncio.Runner(loop_factory=factory) as runner,
    ):
        runner.run(run_both())

    slow = [record.getMessage() for record in caplog.records if "slow poll" in record.getMessage()]
    assert len(slow) == 1
    assert "took" in slow[0]

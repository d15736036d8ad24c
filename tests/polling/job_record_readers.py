"""The readers of job records in a scenario, and what has come of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from monitor.model.runs import RunState
from tests.polling.conftest import Scenario


@asynccontextmanager
async def readers(scenario: Scenario) -> AsyncIterator[None]:
    """Let the readers of job records run."""
    running = asyncio.create_task(scenario.polls.details.run(), name="details")
    try:
        yield
    finally:
        running.cancel()
        await asyncio.wait({running})


async def detailed(scenario: Scenario, run_id: int) -> RunState:
    """Return the run once its job records are in."""
    async with asyncio.timeout(30):
        while True:
            state = await scenario.state(run_id)
            if state is not None and state.detailed:
                return state
            await asyncio.sleep(0)

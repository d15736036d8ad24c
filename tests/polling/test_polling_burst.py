"""Thousands of ends in one poll: all published, in bounded memory, and their records still read."""

from __future__ import annotations

import pytest

from monitor.polling.settings import PollSettings
from tests.polling.conftest import Scenario
from tests.polling.tiny_workspace import TinyWorkspace

ENDS = 1_500


@pytest.fixture
def settings() -> PollSettings:
    return PollSettings(detail_wait_seconds=0.0, waiting_details=1_000)


async def test_more_ends_than_may_wait_are_all_published_and_none_is_forgotten(
    scenario: Scenario, workspace: TinyWorkspace
) -> None:
    """Above the bound only the job records come later; a restart reads all that lack them."""
    for number in range(1, ENDS + 1):
        workspace.put_job_group(number, "Complete")
    await scenario.polls.changes.poll()
    first = await scenario.run_events()
    await scenario.polls.changes.poll()
    waiting = scenario.polls.details.waiting
    scenario.settings = PollSettings(detail_wait_seconds=0.0)
    await scenario.restart()
    await scenario.polls.details.pick_up()

    assert len(first) == len(set(first)) == 3 * ENDS
    assert len(await scenario.run_events()) == len(first)
    assert waiting == 1_000
    assert scenario.polls.details.waiting == ENDS

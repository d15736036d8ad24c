"""What the requests of a minute are spent on when there are not enough for everything."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from monitor.model.events import EventType, RunEvent
from monitor.polling.settings import PollSettings
from monitor.sandbox.running.engine import Outcome
from tests.decisions.followed import Followed

FAILED, OTHERS = 6, 80


@pytest.mark.parametrize("is_listed", [False, True])
async def test_details_leave_the_change_polls_their_turn(
    tmp_path: Path,
    is_listed: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    """With ends by the dozen, changes are polled in time, and failures' records come first.

    In order of arrival, the next failure is observed only when the last success has been read.
    So it is where a list shows the records of many.
    """
    settings = PollSettings(detail_wait_seconds=0.0, jitter_share=0.0)
    async with Followed(tmp_path, settings=settings, requests_per_minute=30) as it:
        polls: list[float] = []
        it.options.lose = {} if is_listed else {"listJobGroups": 0.0}
        it.begin_unawaited()
        await it.live(60)
        for outcome in (Outcome.COMPLETE,) * OTHERS + (Outcome.FAILED,) * FAILED:
            it.run_job_group(outcome)
        it.on_list(lambda _: polls.append(it.clock.monotonic()))
        await it.live(100)
        detailed = await detailed_ends(it)

        assert len(polls) >= 3
        # Their pace is 30 s.
        assert max(later - first for first, later in itertools.pairwise(polls)) <= 36
        assert FAILED < len(detailed) <= FAILED + OTHERS
        assert is_listed or len(detailed) < FAILED + OTHERS
        assert detailed[:FAILED] == ["failed"] * FAILED
        assert "failed" not in detailed[FAILED:]


async def detailed_ends(it: Followed) -> list[str]:
    """Return how the runs ended whose records have been read, in the order of reading."""
    recorded = await it.scenario.bus.events(after=0, limit=10_000)
    return [
        str(event.event.run.status)
        for event in recorded
        if isinstance(event.event, RunEvent) and event.event.type is EventType.RUN_DETAILED
    ]

"""A workspace that answers without bound: an outage with its reason, few log lines, an end."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from structlog.testing import capture_logs

from monitor.model.errors import TryLaterError, UnreadableAnswerError
from monitor.model.live_state import Reachability
from monitor.model.poll_outcomes import PollOutcome
from monitor.polling.job_groups.job_groups import CHANGES
from monitor.polling.poll_loop.runner import PollAttempts
from monitor.polling.settings import PollSettings
from tests.polling.conftest import NAME, Scenario
from tests.polling.tiny_workspace import TinyWorkspace

_FLOOD = {"data": [{"id": number} for number in range(1, 20_001)]}


def attempts_of(scenario: Scenario) -> PollAttempts:
    return PollAttempts(scenario.context, scenario.registry)


async def test_more_rows_than_were_asked_for_are_an_outage(
    scenario: Scenario, workspace: TinyWorkspace
) -> None:
    """The poll is unreadable, the workspace degraded and the reason shown; no row is followed."""
    workspace.texts["jobLibrary"] = _FLOOD
    attempts = attempts_of(scenario)
    failure = await attempts.attempt(CHANGES, scenario.polls.changes.poll, again_seconds=5)

    status = scenario.live_state.workspaces[NAME]
    assert isinstance(failure, UnreadableAnswerError)
    assert scenario.live_state.polls[NAME, CHANGES].last_outcome is PollOutcome.UNREADABLE
    assert status.reachability is Reachability.DEGRADED
    assert "has 20000 rows where 250 at most are expected" in str(status.reason)
    assert not scenario.live_state.active


@pytest.mark.parametrize(
    ("row", "event"),
    [
        ({"status": 7}, "undecodable rows without an id dropped"),
        ({"status": 7, "id": 0}, "undecodable rows queued"),
    ],
    ids=["nameless", "named"],
)
async def test_a_page_of_bad_rows_is_one_line_of_the_log(
    scenario: Scenario, workspace: TinyWorkspace, row: dict[str, Any], event: str
) -> None:
    """However many rows of a page cannot be read, the log says so once, with their number."""
    bad = [{key: row[key] or number for key in row} for number in range(1, 201)]
    rows = [{"id": 900, "status": "Complete"}, *bad]
    workspace.texts["jobLibrary"] = {"data": rows}
    with capture_logs() as lines:
        await scenario.polls.changes.poll()

    told = [(line["event"], line["rows"]) for line in lines if line["event"].startswith("undec")]
    assert set(told) == {(event, 200)}
    assert len(told) <= workspace.count("jobLibrary")


async def test_what_could_not_be_read_is_not_kept(
    scenario: Scenario, workspace: TinyWorkspace
) -> None:
    """The failure is kept as the workspace's reason; the answer that caused it is not."""
    workspace.texts["jobLibrary"] = _FLOOD
    failure = await attempts_of(scenario).attempt(
        CHANGES, scenario.polls.changes.poll, again_seconds=5
    )

    assert failure is not None
    assert failure.__traceback__ is None
    assert failure.__cause__ is None
    assert failure.__context__ is None


async def test_a_poll_has_an_end_in_time(scenario: Scenario, workspace: TinyWorkspace) -> None:
    """A poll that the workspace keeps busy is stopped, and the next one is not held up."""
    workspace.holds["jobLibrary"] = asyncio.Event()
    context = replace(scenario.context, settings=PollSettings(longest_poll_seconds=0.2))
    attempts = PollAttempts(context, scenario.registry)
    failure = await attempts.attempt(CHANGES, scenario.polls.changes.poll, again_seconds=5)
    first = scenario.live_state.polls[NAME, CHANGES].last_outcome
    del workspace.holds["jobLibrary"]
    again = await attempts.attempt(CHANGES, scenario.polls.changes.poll, again_seconds=5)

    assert isinstance(failure, TryLaterError)
    assert "stopped after 0.2 seconds" in str(failure)
    assert first is PollOutcome.INCOMPLETE
    assert again is None

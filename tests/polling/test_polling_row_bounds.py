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
from tests.clocks import ManualClock
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


def active_rows(first: int, last: int) -> dict[str, Any]:
    rows = [
        {
            "id": number,
            "status": "InProgress",
            "createdAt": "2026-11-21T09:59:00.000Z",
            "updatedAt": "2026-11-21T09:59:00.000Z",
        }
        for number in range(first, last)
    ]
    return {"data": rows}


async def test_more_active_runs_than_the_limit_degrade_the_workspace(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """Fresh ids cost memory up to the limit; the reason is shown until a list shows fewer."""
    scenario.observer.active_limit.set(NAME, 20)
    attempts = attempts_of(scenario)
    workspace.texts["jobLibrary"] = active_rows(1, 51)
    await attempts.attempt(CHANGES, scenario.polls.changes.poll, again_seconds=5)
    known, crowded = len(scenario.live_state.active), scenario.live_state.workspaces[NAME]
    await scenario.poll("reconciliation")
    still = scenario.live_state.workspaces[NAME].too_many_runs
    scenario.observer.active_limit.set(NAME, 60)
    await clock.advance(300)
    await scenario.poll("reconciliation")
    after = scenario.live_state.workspaces[NAME]

    assert known == 20
    assert crowded.reachability is Reachability.DEGRADED
    assert "active_runs_limit is 20" in str(crowded.reason)
    assert still is not None
    assert (len(scenario.live_state.active), after.too_many_runs) == (50, None)


async def test_a_list_without_ids_has_an_end_soon(
    scenario: Scenario, workspace: TinyWorkspace
) -> None:
    """Nothing shows that it advances, so a few pages are enough to call it unreadable."""
    workspace.texts["jobLibrary"] = {"data": [{"status": "Complete"}] * 250}
    failure = await attempts_of(scenario).attempt(
        CHANGES, scenario.polls.changes.poll, again_seconds=5
    )

    assert isinstance(failure, UnreadableAnswerError)
    assert "the list has no id on 5 pages" in str(failure)
    assert workspace.count("jobLibrary") <= 6

"""Reachability: an outage is the whole workspace's, trouble of one list is not."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from monitor.model.errors import (
    BudgetExhaustedError,
    BusUnavailableError,
    LeaseUncertainError,
    MonitorError,
    NotAvailableError,
    ThrottledError,
    TryLaterError,
    UnauthorizedError,
    UnreadableAnswerError,
    WorkspaceUnreachableError,
)
from monitor.model.live_state import Reachability
from monitor.model.poll_outcomes import PollOutcome
from monitor.polling.poll_loop.poll import Poll, every
from monitor.polling.poll_loop.reachability import ReachabilityJudge
from monitor.polling.poll_loop.runner import PollAttempts, PollRunner
from monitor.workspace.priority import Priority
from tests.clocks import ManualClock
from tests.polling.conftest import NAME, Scenario


def down(operation_id: str, status_code: int | None = 503) -> WorkspaceUnreachableError:
    return WorkspaceUnreachableError("down", operation_id=operation_id, status_code=status_code)


@pytest.fixture
def judge(unbegun: Scenario) -> ReachabilityJudge:
    """Reachability after three successful polls."""
    made = ReachabilityJudge(unbegun.context)
    for poll in ("changes", "plan_runs", "reconciliation"):
        made.succeeded(poll)
    return made


def reachability(scenario: Scenario) -> Reachability:
    return scenario.live_state.workspaces[NAME].reachability


def test_silence_is_an_outage_at_once(unbegun: Scenario, judge: ReachabilityJudge) -> None:
    """No answer at all concerns every operation."""
    judge.failed("changes", down("listJobLibrary", None))

    assert reachability(unbegun) is Reachability.UNREACHABLE


def test_one_failing_operation_is_no_outage(
    unbegun: Scenario, judge: ReachabilityJudge, clock: ManualClock
) -> None:
    """Several polls that fail by the same operation leave the workspace degraded, steadily."""
    judge.failed("plan_runs", down("listPlanSnapshotRuns"))
    since = unbegun.live_state.workspaces[NAME].since
    for _ in range(3):
        clock.set_wall(clock.now().replace(minute=clock.now().minute + 1))
        judge.failed("reconciliation", down("listPlanSnapshotRuns"))
        judge.succeeded("changes")
        assert reachability(unbegun) is Reachability.DEGRADED

    assert unbegun.live_state.workspaces[NAME].since == since


def test_two_failing_operations_are_an_outage(unbegun: Scenario, judge: ReachabilityJudge) -> None:
    """It ends with the first success of any poll, also for the polls that have not run since."""
    judge.failed("plan_runs", down("listPlanSnapshotRuns"))
    judge.failed("changes", down("listJobLibrary"))
    assert reachability(unbegun) is Reachability.UNREACHABLE

    judge.succeeded("changes")

    assert reachability(unbegun) is Reachability.REACHABLE
    assert unbegun.live_state.workspaces[NAME].reason is None


@pytest.mark.parametrize(
    "error",
    [
        TryLaterError("rows are left"),
        BudgetExhaustedError("no room"),
        ThrottledError("slow down", retry_after_seconds=5),
        UnauthorizedError("401"),
        NotAvailableError("403"),
        UnreadableAnswerError("not JSON"),
    ],
)
def test_other_failures_degrade(
    unbegun: Scenario, judge: ReachabilityJudge, error: MonitorError
) -> None:
    """An error in an answer or of our own budget is no outage; the reason is reported."""
    for poll in ("changes", "plan_runs", "reconciliation"):
        judge.failed(poll, error)

    assert reachability(unbegun) is Reachability.DEGRADED
    assert str(error) in str(unbegun.live_state.workspaces[NAME].reason)


@pytest.mark.parametrize(
    "error", [BusUnavailableError("disk full"), LeaseUncertainError("lease not sure")]
)
def test_our_own_store_shows_nothing_about_the_workspace(
    unbegun: Scenario, judge: ReachabilityJudge, error: MonitorError
) -> None:
    """A full disk or a lost lease leaves the workspace as reachable as it was."""
    judge.failed("changes", error)

    assert reachability(unbegun) is Reachability.REACHABLE


def test_a_request_in_vain_is_an_outage_until_anything_is_answered(
    unbegun: Scenario, judge: ReachabilityJudge
) -> None:
    """It does not wait for the retries of a poll, and the poll's own failure replaces it."""
    judge.silence(down("listJobLibrary", None))
    status = unbegun.live_state.workspaces[NAME]
    assert (status.reachability, status.reason) == (Reachability.UNREACHABLE, "no answer: down")
    judge.failed("changes", down("listJobLibrary", None))
    assert unbegun.live_state.workspaces[NAME].reason == "changes: down"

    judge.silence(None)

    assert reachability(unbegun) is Reachability.REACHABLE
    assert unbegun.live_state.workspaces[NAME].reason is None


def test_a_request_in_vain_is_forgotten_with_the_next_success(
    unbegun: Scenario, judge: ReachabilityJudge
) -> None:
    """Also where a failure of another kind has changed the reachability meanwhile."""
    judge.silence(down("listJobLibrary", None))
    judge.failed("names", BudgetExhaustedError("no room"))
    judge.succeeded("names")

    assert reachability(unbegun) is Reachability.REACHABLE


def test_a_failure_is_over_when_its_poll_has_nothing_to_request(
    unbegun: Scenario, judge: ReachabilityJudge
) -> None:
    """Where nothing can be listed, a poll that had failed succeeds without any request."""
    judge.failed("reconciliation", TryLaterError("the list lacks 7"))
    judge.recovered("changes")
    assert reachability(unbegun) is Reachability.DEGRADED
    judge.recovered("reconciliation")
    assert reachability(unbegun) is Reachability.REACHABLE
    judge.failed("reconciliation", down("listJobLibrary", None))
    judge.recovered("reconciliation")
    assert reachability(unbegun) is Reachability.UNREACHABLE


@pytest.mark.parametrize(
    ("priority", "expected"),
    [
        (Priority.INVENTORY, Reachability.REACHABLE),
        (Priority.RECONCILIATION, Reachability.DEGRADED),
    ],
)
async def test_what_can_wait_for_our_own_budget_degrades_nothing(
    unbegun: Scenario, clock: ManualClock, priority: Priority, expected: Reachability
) -> None:
    """No room for a poll that reads what can wait shows in its outcome, and nowhere as trouble."""

    async def starve() -> None:
        raise BudgetExhaustedError("no room")

    async def succeed() -> None: ...

    attempts = PollAttempts(unbegun.context, unbegun.registry)
    await attempts.attempt("changes", succeed, again_seconds=5)
    runner = PollRunner(
        unbegun.context,
        attempts=attempts,
        after_attempt=lambda: None,
        random=Random(1),  # noqa: S311 - spreads polls
    )
    poll = Poll(name="starved", priority=priority, timing=every(5), run=starve)

    async def run() -> None:
        async with asyncio.TaskGroup() as group:
            runner.start(group, poll)

    running = asyncio.create_task(run(), name="runner")
    await clock.advance(20)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    found, outcome = reachability(unbegun), unbegun.live_state.polls[NAME, "starved"].last_outcome

    assert (found, outcome) == (expected, PollOutcome.BUDGET)

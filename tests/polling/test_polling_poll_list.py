"""The list of polls, and what an attempt of a poll records."""

from __future__ import annotations

from structlog.testing import capture_logs

from monitor.model.errors import TryLaterError
from monitor.polling.discovery.capability_discovery import CapabilityDiscovery
from monitor.polling.poll_list import declared_polls
from monitor.polling.poll_loop.reachability import ReachabilityJudge
from monitor.polling.poll_loop.runner import PollAttempts
from tests.polling.conftest import Scenario


async def test_every_poll_is_declared_once(scenario: Scenario) -> None:
    """A poll's name is its metric label, so no two polls share one."""
    discovery = CapabilityDiscovery(scenario.context, ReachabilityJudge(scenario.context))
    names = [poll.name for poll in declared_polls(scenario.polls, discovery)]

    assert len(names) == len(set(names))
    assert {"changes", "plan_children", "refetch_queue", "specification", "tokens"} <= set(names)


async def test_a_poll_without_a_request_is_not_logged_as_recovered(scenario: Scenario) -> None:
    """After a failure only an attempt that sent a request shows that the poll recovered."""
    results: list[bool | TryLaterError] = [TryLaterError("not now"), False, False, True]

    async def run() -> bool:
        result = results.pop(0)
        if isinstance(result, TryLaterError):
            raise result
        return result

    attempts = PollAttempts(scenario.context, scenario.registry)
    with capture_logs() as lines:
        events = []
        while results:
            await attempts.attempt("by_id", run, again_seconds=None)
            events.append([line["event"] for line in lines])

    assert events == [["poll failed"]] * 3 + [["poll failed", "poll recovered"]]

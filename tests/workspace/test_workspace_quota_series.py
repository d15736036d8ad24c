"""The series of quotas show what counts now, and nothing that is over."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from monitor.workspace.answer_headers import Quota
from monitor.workspace.api_metrics import ApiMetrics
from monitor.workspace.priority import Priority
from monitor.workspace.request_budget import RequestBudget
from tests.clocks import ManualClock

REMAINING = "dataprep_monitor_api_rate_limit_remaining"


async def test_a_quota_that_is_over_is_no_longer_shown() -> None:
    """A quota whose window has ended is dropped, or it would show 0 remaining forever."""
    clock, registry = ManualClock(), CollectorRegistry()
    budget = RequestBudget(
        workspace="w", requests_per_minute=60, clock=clock, metrics=ApiMetrics.of(registry)
    )
    now = clock.now().timestamp()
    quota = Quota(scope="user", limit=40, remaining=0, reset_at=now + 30)
    budget.learn((quota,), operation_id="runFlow", workspace_now=now)
    remaining = registry.get_sample_value(REMAINING, {"workspace": "w", "scope": "user"})
    await clock.advance(31)
    await budget.acquire(Priority.CHANGES, wait_seconds=0, operation_id="listFlows")

    assert remaining == 0
    assert registry.get_sample_value(REMAINING, {"workspace": "w", "scope": "user"}) is None
    assert registry.get_sample_value(REMAINING, {"workspace": "w", "scope": "own"}) is not None

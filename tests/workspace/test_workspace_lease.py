"""A workspace hears nothing from a daemon that does not surely hold its shard."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from prometheus_client import CollectorRegistry

from monitor.model.errors import LeaseUncertainError
from monitor.workspace.client import WorkspaceClient
from monitor.workspace.priority import Priority
from monitor.workspace.settings import WorkspaceSettings
from tests.workspace.scripted import SkippingClock, answer, serving


def yes(times: int) -> Callable[[], bool]:
    """Return a lease that is lost when it is asked for after so many times more."""
    left = [True] * times

    def may_send() -> bool:
        return bool(left and left.pop())

    return may_send


@pytest.mark.parametrize("allowed", [0, 1])
async def test_no_request_is_sent_without_the_lease(allowed: int) -> None:
    """It ends unsent before its headers or its body, is not retried and not counted."""
    registry = CollectorRegistry()
    async with serving(answer({"id": 1})) as workspace:
        client = WorkspaceClient(
            WorkspaceSettings(name="north", url=workspace.url, requests_per_minute=60_000),
            clock=(clock := SkippingClock()),
            registry=registry,
            may_send=yes(allowed),
        )
        async with client:
            with pytest.raises(LeaseUncertainError) as raised:
                await client.requester.request(
                    "createFlow", body={"name": "x"}, priority=Priority.CHANGES
                )
    assert raised.value.operation_id == "createFlow"
    assert workspace.requests == []
    assert clock.slept == []
    assert "north" not in {
        sample.labels.get("workspace")
        for metric in registry.collect()
        for sample in metric.samples
        if sample.name == "dataprep_monitor_api_requests_total"
    }


async def test_requests_are_sent_while_the_lease_is_sure() -> None:
    """Each request asks again: after a good one, the next may be refused."""
    async with serving(answer({"id": 1})) as workspace:
        client = WorkspaceClient(
            WorkspaceSettings(name="north", url=workspace.url, requests_per_minute=60_000),
            clock=SkippingClock(),
            registry=CollectorRegistry(),
            may_send=yes(2),
        )
        async with client:
            for _ in range(2):
                await client.requester.request("listFlows", priority=Priority.CHANGES)
            with pytest.raises(LeaseUncertainError):
                await client.requester.request("listFlows", priority=Priority.CHANGES)
    assert len(workspace.requests) == 2

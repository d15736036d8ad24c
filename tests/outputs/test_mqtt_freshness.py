"""A retained state is never older than it claims: past a limit it is unknown."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from monitor.model.live_state import (
    ActiveRun,
    PollStatus,
    Reachability,
    UnsharedPipeline,
    pipeline_key,
)
from monitor.model.poll_outcomes import PollOutcome
from monitor.model.runs import Pipeline, PipelineKind, RunKind, Source, Status
from tests.outputs.histories import run_state
from tests.outputs.mqtt_scenario import MqttScenario, Subscriber, settings_for
from tests.servers import Mosquitto

WORKSPACE = "dataprep/v1/w/state"
PIPELINE = "dataprep/v1/w/flow_run/7/state"
LIMIT = timedelta(seconds=300)
SubscribedScenario = tuple[MqttScenario, Subscriber]


@pytest.fixture
async def subscribed(tmp_path: Path) -> AsyncIterator[SubscribedScenario]:
    """Return a subscriber to the output of a workspace with one running flow run."""
    async with (
        Mosquitto(tmp_path) as broker,
        MqttScenario(tmp_path, settings_for(broker.url)) as scenario,
    ):
        run, now = run_state("2"), scenario.clock.now()
        scenario.live_state.active[run.key] = ActiveRun(
            run=run, confirmed_at=now, confirmed_by=Source.POLL
        )
        scenario.live_state.update_workspace(
            "w", reachability=Reachability.REACHABLE, since=now, known_at=now
        )
        scenario.live_state.confirm("w", RunKind.FLOW_RUN, now)
        async with Subscriber(broker.port) as subscriber:
            await scenario.start()
            yield scenario, subscriber


async def until_state(subscriber: Subscriber, topic: str, state: str) -> dict[str, Any]:
    """Wait until the topic has that state and return its payload."""
    await subscriber.until(
        lambda: any(message.json()["state"] == state for message in subscriber.on(topic))
    )
    document: dict[str, Any] = subscriber.on(topic)[-1].json()
    return document


async def test_unconfirmed_state_becomes_unknown_and_known_again(
    subscribed: SubscribedScenario,
) -> None:
    """After the limit neither count nor status is repeated; a new observation restores both."""
    scenario, subscriber = subscribed
    first = await until_state(subscriber, PIPELINE, "known")
    old = scenario.clock.now() - LIMIT
    (active,) = scenario.live_state.active.values()
    scenario.live_state.active[active.run.key] = ActiveRun(
        run=active.run, confirmed_at=old, confirmed_by=Source.POLL
    )
    scenario.live_state.confirm("w", RunKind.FLOW_RUN, old)
    stale = await until_state(subscriber, PIPELINE, "unknown")
    subscriber.messages.clear()
    scenario.live_state.confirm("w", RunKind.FLOW_RUN, scenario.clock.now())
    again = await until_state(subscriber, PIPELINE, "known")

    assert (first["active_count"], again["active_count"]) == (1, 1)
    assert stale["active_count"] is None
    assert [run["status"] for run in stale["active_runs"]] == ["unknown"]
    assert [run["status"] for run in again["active_runs"]] == [Status.RUNNING]


async def test_a_workspace_that_is_away_makes_its_pipelines_unknown(
    subscribed: SubscribedScenario,
) -> None:
    """When a workspace is unreachable for longer than the limit, its pipelines are unknown."""
    scenario, subscriber = subscribed
    await until_state(subscriber, PIPELINE, "known")
    now = scenario.clock.now()
    scenario.live_state.update_workspace(
        "w", reachability=Reachability.UNREACHABLE, since=now - LIMIT, known_at=now
    )
    pipeline = await until_state(subscriber, PIPELINE, "unknown")
    workspace = await until_state(subscriber, WORKSPACE, "unreachable")

    assert pipeline["active_count"] is None
    assert workspace["known_at"] is not None


async def test_a_workspace_without_polls_becomes_unknown(subscribed: SubscribedScenario) -> None:
    """It is unknown when its polls are overdue, and reachable while they are not."""
    scenario, subscriber = subscribed
    await until_state(subscriber, WORKSPACE, "reachable")
    now = scenario.clock.now()
    poll = PollStatus(
        workspace="w",
        poll="specification",
        last_attempt_at=now,
        last_success_at=now,
        last_outcome=PollOutcome.OK,
        overdue_at=scenario.clock.monotonic(),
    )
    scenario.live_state.record_poll(poll)
    scenario.live_state.update_workspace("w", known_at=now - 2 * LIMIT, reason="seldom asked")
    await subscriber.until(
        lambda: any(
            message.json()["reason"] == "seldom asked" for message in subscriber.on(WORKSPACE)
        )
    )
    seldom = subscriber.on(WORKSPACE)[-1].json()["state"]
    scenario.live_state.polls.clear()
    overdue = await until_state(subscriber, WORKSPACE, "unknown")

    assert seldom == "reachable"
    assert overdue["reason"] == "seldom asked"


async def test_a_flow_that_is_not_shared_is_unknown_and_its_workspace_is_not(
    subscribed: SubscribedScenario,
) -> None:
    """Its run may have ended since; once it is shared again, it is known again."""
    scenario, subscriber = subscribed
    await until_state(subscriber, PIPELINE, "known")
    now, flow = scenario.clock.now(), Pipeline(kind=PipelineKind.FLOW, id="7")
    of = UnsharedPipeline(pipeline=flow, since=now, hidden_from=now, reason="403")
    scenario.live_state.update_workspace("w", unshared={pipeline_key(flow.kind, flow.id): of})
    pipeline = await until_state(subscriber, PIPELINE, "unknown")
    assert pipeline["active_count"] is None
    assert subscriber.on(WORKSPACE)[-1].json()["state"] == "reachable"
    subscriber.messages.clear()
    scenario.live_state.update_workspace("w", unshared={})
    await until_state(subscriber, PIPELINE, "known")

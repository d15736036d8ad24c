"""A retained state is never older than it says: past a limit it says that it is unknown."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from monitor.model.live_state import ActiveRun, PollStatus, Reachability
from monitor.model.runs import RunKind, Source, Status
from tests.outputs.mqtt_scene import MqttScene, Subscriber, settings_for
from tests.outputs.stories import run_state
from tests.servers import Mosquitto

WORKSPACE = "dataprep/v1/w/state"
PIPELINE = "dataprep/v1/w/flow_run/7/state"
LIMIT = timedelta(seconds=300)
Ear = tuple[MqttScene, Subscriber]


@pytest.fixture
async def ear(tmp_path: Path) -> AsyncIterator[Ear]:
    """Return an output that tells of a workspace with one running flow run, and a listener."""
    async with Mosquitto(tmp_path) as broker, MqttScene(tmp_path, settings_for(broker.url)) as it:
        run, now = run_state("2"), it.clock.now()
        it.live_state.active[run.key] = ActiveRun(
            run=run, confirmed_at=now, confirmed_by=Source.POLL
        )
        it.live_state.update_workspace(
            "w", reachability=Reachability.REACHABLE, since=now, known_at=now
        )
        it.live_state.confirm("w", RunKind.FLOW_RUN, now)
        async with Subscriber(broker.port) as subscriber:
            await it.start()
            yield it, subscriber


async def told(ear: Subscriber, topic: str, state: str) -> dict[str, Any]:
    """Wait until the topic tells that state and return what it tells."""
    await ear.until(lambda: any(item.json()["state"] == state for item in ear.on(topic)))
    document: dict[str, Any] = ear.on(topic)[-1].json()
    return document


async def test_what_nobody_confirms_becomes_unknown_and_known_again(ear: Ear) -> None:
    """After the limit neither count nor status is repeated; a new look brings both back."""
    it, subscriber = ear
    first = await told(subscriber, PIPELINE, "known")
    old = it.clock.now() - LIMIT
    (active,) = it.live_state.active.values()
    it.live_state.active[active.run.key] = ActiveRun(
        run=active.run, confirmed_at=old, confirmed_by=Source.POLL
    )
    it.live_state.confirm("w", RunKind.FLOW_RUN, old)
    stale = await told(subscriber, PIPELINE, "unknown")
    subscriber.messages.clear()
    it.live_state.confirm("w", RunKind.FLOW_RUN, it.clock.now())
    again = await told(subscriber, PIPELINE, "known")

    assert (first["active_count"], again["active_count"]) == (1, 1)
    assert stale["active_count"] is None
    assert [run["status"] for run in stale["active_runs"]] == ["unknown"]
    assert [run["status"] for run in again["active_runs"]] == [Status.RUNNING]


async def test_a_workspace_that_is_away_makes_its_pipelines_unknown(ear: Ear) -> None:
    """Unreachable for longer than the limit, nobody knows what runs there."""
    it, subscriber = ear
    await told(subscriber, PIPELINE, "known")
    now = it.clock.now()
    it.live_state.update_workspace(
        "w", reachability=Reachability.UNREACHABLE, since=now - LIMIT, known_at=now
    )
    pipeline = await told(subscriber, PIPELINE, "unknown")
    workspace = await told(subscriber, WORKSPACE, "unreachable")

    assert pipeline["active_count"] is None
    assert workspace["known_at"] is not None


async def test_a_workspace_that_nobody_judges_becomes_unknown(ear: Ear) -> None:
    """It is not called reachable when its polls are overdue, and is while they are not."""
    it, subscriber = ear
    await told(subscriber, WORKSPACE, "reachable")
    now = it.clock.now()
    poll = PollStatus(
        workspace="w",
        poll="specification",
        last_attempt_at=now,
        last_success_at=now,
        last_outcome="ok",
        is_expected_by=now,
    )
    it.live_state.record_poll(poll)
    it.live_state.update_workspace("w", known_at=now - 2 * LIMIT, reason="seldom asked")
    await subscriber.until(
        lambda: any(item.json()["reason"] == "seldom asked" for item in subscriber.on(WORKSPACE))
    )
    seldom = subscriber.on(WORKSPACE)[-1].json()["state"]
    it.live_state.polls.clear()
    overdue = await told(subscriber, WORKSPACE, "unknown")

    assert seldom == "reachable"
    assert overdue["reason"] == "seldom asked"

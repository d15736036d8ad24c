"""What a daemon shows between its start and its first polls: what it knew, and how old it is."""

from __future__ import annotations

import json
import re
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from monitor.catalogue.operations import Edition
from tests.app import fixture
from tests.app.daemon_http import Face
from tests.app.eventually import eventually
from tests.app.mqtt_subscriber import Subscriber, keeping_broker
from tests.clocks import FastClock

ACTIVE = "dataprep_runs_active"
LIMIT = timedelta(seconds=300)


async def running(face: Face) -> set[tuple[str, ...]]:
    """Return kind and name of the pipelines with active runs in the metrics."""
    lines = [line for line in (await face.text("/metrics")).splitlines() if line.endswith(" 1.0")]
    found = (re.match(rf'{ACTIVE}{{kind="(\w+)",pipeline="([^"#]*)', line) for line in lines)
    return {match.groups() for match in found if match}


def pipelines(subscriber: Subscriber, *, after: int = 0) -> list[dict[str, Any]]:
    """Return the states of pipelines in the messages after the first so many."""
    messages = subscriber.messages[after:]
    documents = [
        json.loads(message.payload)
        for message in messages
        if message.topic.endswith("/state") and message.payload
    ]
    return [state for state in documents if "active_runs" in state]


@pytest.mark.parametrize("away_seconds", [0.0, 600.0])
async def test_a_restart_repeats_what_was_confirmed_until_it_is_too_old(
    tmp_path: Path, away_seconds: float
) -> None:
    """Nothing turns unknown while it is fresh; after ten minutes away nothing is repeated."""
    clock = FastClock()
    workspace = fixture.sandbox(Edition.RL, clock=clock, speed=1.0)
    async with (
        fixture.started(workspace) as url,
        keeping_broker(tmp_path) as broker,
        Subscriber(broker.port) as subscriber,
    ):
        settings = fixture.configuration(
            tmp_path, fixture.workspace_configuration(workspace, url), broker_url=broker.url
        )
        async with fixture.daemon(settings, clock=clock) as face:
            await eventually(lambda: face.is_following("acme"), why="not followed")
            workspace.open_for_work()
            await eventually(
                lambda: len([s for s in pipelines(subscriber) if s["active_count"]]) >= 2,
                why="nothing runs",
            )
            before = await running(face)
        if away_seconds:
            clock.set_wall(clock.now() + timedelta(seconds=away_seconds))
        first = len(subscriber.messages)
        workspace.world.options.latency = 15.0  # each request of the start
        async with fixture.daemon(settings, clock=clock) as face:
            await eventually(
                lambda: len(pipelines(subscriber, after=first)) >= 2, why="nothing published"
            )
            after = await running(face)
            published = pipelines(subscriber, after=first)
            expected = {"unknown"} if away_seconds else {"known"}

            assert {state["state"] for state in published} == expected
            for state in published:
                known_at = datetime.fromisoformat(state["known_at"])
                assert known_at <= clock.now()
                assert state["state"] == "unknown" or clock.now() - known_at < LIMIT
            assert before
            assert after >= before if not away_seconds else not after

"""Retained messages of a broker, and how they are kept up to date."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest

from monitor.bus.contract import Start, Step
from monitor.model.live_state import ActiveRun, Reachability
from monitor.model.runs import RunKind, Source, Status
from monitor.tracking.kept_ends import with_end_of_run
from tests.outputs.histories import FLOW, NOON, run_event, run_state
from tests.outputs.mqtt_scenario import MqttScenario, Subscriber, settings_for
from tests.pipeline_healths import end_at, failures_until, health_after, show
from tests.servers import Mosquitto, Relay

BRIDGE = "dataprep/v1/bridge/monitor"
PIPELINE = "dataprep/v1/w/flow_run/7/state"
HEALTH = health_after(
    end_at(NOON + timedelta(seconds=60), seconds=60.0),
    workspace="w",
    kind=RunKind.FLOW_RUN,
    pipeline=FLOW,
)
IDENTITY = ("w", RunKind.FLOW_RUN, "7", None)


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Mosquitto]:
    """Return a running broker that stores nothing over a restart."""
    async with Mosquitto(tmp_path) as running:
        yield running


@pytest.fixture
async def scenario(tmp_path: Path, broker: Mosquitto) -> AsyncIterator[MqttScenario]:
    """Return an output that is not running yet, with one pipeline that has run."""
    async with MqttScenario(tmp_path, settings_for(broker.url)) as scenario:
        scenario.live_state.pipeline_health[IDENTITY] = HEALTH
        yield scenario


async def retained_messages(broker: Mosquitto, *, topic: str) -> dict[str, bytes]:
    """Return the broker's retained messages once they include ``topic``."""
    async with Subscriber(broker.port) as subscriber:
        await subscriber.until(lambda: topic in {message.topic for message in subscriber.messages})
        await subscriber.receive_all()
        return {
            message.topic: message.payload for message in subscriber.messages if message.payload
        }


async def test_the_bridge_publishes_online_and_then_stopped(
    scenario: MqttScenario, broker: Mosquitto
) -> None:
    """Birth and information come on connect, ``stopped`` on a clean stop; all are retained."""
    async with Subscriber(broker.port) as subscriber:
        await scenario.start()
        await scenario.stop()
        await subscriber.until(lambda: len(subscriber.on(f"{BRIDGE}/state")) == 2)
        published = [message.payload for message in subscriber.on(f"{BRIDGE}/state")]
        assert published == [b'{"state":"online"}', b'{"state":"stopped"}']
        assert subscriber.on(f"{BRIDGE}/info")[0].json() == {
            "version": "1.2.3",
            "contract_version": "1",
            "workspaces": ["w"],
            "config_hash": "abc",
        }
    assert (await retained_messages(broker, topic=f"{BRIDGE}/state"))[
        f"{BRIDGE}/state"
    ] == published[1]


async def test_a_killed_link_leaves_the_last_will(tmp_path: Path, broker: Mosquitto) -> None:
    """The broker publishes ``offline`` for the daemon, which publishes ``online`` on its return."""
    async with (
        Relay(broker.port) as relay,
        Subscriber(broker.port) as subscriber,
        MqttScenario(tmp_path, settings_for(f"mqtt://127.0.0.1:{relay.port}")) as scenario,
    ):
        await scenario.start()
        relay.cut()
        await subscriber.until(lambda: len(subscriber.on(f"{BRIDGE}/state")) == 3)
        published = [message.json()["state"] for message in subscriber.on(f"{BRIDGE}/state")]
        assert published == ["online", "offline", "online"]


async def test_a_pipeline_snapshot_is_the_live_state(
    scenario: MqttScenario, broker: Mosquitto
) -> None:
    """Name, active runs, last run and last success are on the pipeline's topic."""
    run, now = run_state("2"), scenario.clock.now().replace(microsecond=0)
    scenario.live_state.active[run.key] = ActiveRun(
        run=run, confirmed_at=now, confirmed_by=Source.RECONCILIATION, percent_complete=40.0
    )
    scenario.live_state.name_pipeline("w", FLOW.kind, FLOW.id, "orders, renamed")
    scenario.live_state.update_workspace("w", reachability=Reachability.REACHABLE)
    scenario.live_state.confirm("w", RunKind.FLOW_RUN, scenario.clock.now())
    await scenario.start()
    published = json.loads((await retained_messages(broker, topic=PIPELINE))[PIPELINE])
    assert published == {
        "workspace": "w",
        "kind": "flow_run",
        "pipeline": {"kind": "flow", "id": "7", "name": "orders, renamed"},
        "state": "known",
        "active_count": 1,
        "active_runs": [
            {
                "id": "2",
                "status": "running",
                "unconfirmed_end": None,
                "native_status": "running",
                "created": "2026-11-21T12:00:00Z",
                "started": "2026-11-21T12:00:05Z",
                "percent_complete": 40.0,
                "heartbeat": None,
                "url": None,
            }
        ],
        "last_run": {
            "id": "1",
            "status": "succeeded",
            "started": "2026-11-21T12:00:00Z",
            "finished": "2026-11-21T12:01:00Z",
            "duration_seconds": 60.0,
        },
        "last_success": "2026-11-21T12:01:00Z",
        "consecutive_failures": 0,
        "next_expected_start": None,
        "known_at": f"{now:%Y-%m-%dT%H:%M:%SZ}",
        "known_by": "reconciliation",
    }


async def test_a_failing_recipe_is_not_hidden_by_a_later_success_of_another(
    scenario: MqttScenario, broker: Mosquitto
) -> None:
    """The run that ended last is the last one; failures and the last success are the worst's."""
    failing = health_after(
        *failures_until(NOON - timedelta(hours=1), 3),
        workspace="w",
        kind=RunKind.FLOW_RUN,
        pipeline=FLOW,
        recipe_id="5",
    )
    show(scenario.live_state, failing)
    await scenario.start()
    published = json.loads((await retained_messages(broker, topic=PIPELINE))[PIPELINE])
    assert (published["last_run"]["id"], published["last_run"]["status"]) == ("1", "succeeded")
    assert (published["last_success"], published["consecutive_failures"]) == (None, 3)


async def test_a_change_is_published_once(scenario: MqttScenario, broker: Mosquitto) -> None:
    """Unchanged state is not repeated, although the age of the live state changes."""
    topic = "dataprep/v1/w/state"
    async with Subscriber(broker.port) as subscriber:
        await scenario.start()
        health = HEALTH
        for number in range(1, 4):
            known_at = scenario.clock.now() + timedelta(seconds=number)
            scenario.live_state.update_workspace(
                "w", reachability=Reachability.REACHABLE, known_at=known_at
            )
            # The pipeline's message shows that the workspace has been compared once more.
            failed = end_at(known_at, Status.FAILED, run_id=f"failed {number}")
            health = with_end_of_run(health, failed, before=None)
            show(scenario.live_state, health)
            await subscriber.until(partial(is_notified, subscriber, number))
        scenario.live_state.update_workspace(
            "w", reachability=Reachability.UNREACHABLE, reason="down"
        )
        await subscriber.until(lambda: subscriber.on(topic)[-1].json()["state"] == "unreachable")
        published = [message.json()["state"] for message in subscriber.on(topic)]
        assert published[-2:] == ["reachable", "unreachable"]
        assert len(published) == len(set(published))


def is_notified(subscriber: Subscriber, failures: int) -> bool:
    """True when the pipeline's newest message counts so many failures."""
    published = subscriber.on(PIPELINE)
    return bool(published) and published[-1].json()["consecutive_failures"] == failures


async def test_an_event_brings_its_pipelines_state_up_to_date(
    tmp_path: Path, broker: Mosquitto
) -> None:
    """The snapshot follows an event at once, without waiting for the next comparison of all."""
    settings = settings_for(broker.url, state_scan_seconds=3_600.0)
    async with Subscriber(broker.port) as subscriber, MqttScenario(tmp_path, settings) as scenario:
        scenario.live_state.pipeline_health[IDENTITY] = HEALTH
        await scenario.start()
        await subscriber.until(lambda: len(subscriber.on(PIPELINE)) == 1)
        failed = end_at(NOON + timedelta(seconds=65), Status.FAILED, run_id="2")
        show(scenario.live_state, with_end_of_run(HEALTH, failed, before=None))
        await scenario.emit(run_event("2", Status.FAILED))
        await subscriber.until(lambda: len(subscriber.on(PIPELINE)) == 2)
        assert subscriber.on(PIPELINE)[-1].json()["last_run"]["id"] == "2"


async def test_a_broker_that_lost_everything_is_published_to_again(
    scenario: MqttScenario, broker: Mosquitto
) -> None:
    """After a broker's restart without persistence all retained topics are published again."""
    await scenario.start()
    before = await retained_messages(broker, topic=PIPELINE)
    await broker.stop(at_once=True)
    await scenario.until(lambda: not scenario.output.is_well)
    await broker.start()
    await scenario.until(lambda: scenario.output.is_well)
    after = await retained_messages(broker, topic=PIPELINE)
    assert set(after) == set(before)
    assert after[PIPELINE] == before[PIPELINE]


async def test_the_topic_of_a_pipeline_that_vanished_is_cleared(
    scenario: MqttScenario, broker: Mosquitto
) -> None:
    """It is deleted from the broker and from the list, also after a restart of the monitor."""
    await scenario.start()
    await retained_messages(broker, topic=PIPELINE)
    await scenario.stop()
    scenario.live_state.forget_pipeline("w", FLOW.kind, FLOW.id)
    scenario.live_state.update_workspace("w", known_at=NOON)
    async with Subscriber(broker.port) as subscriber:
        await scenario.start()
        await subscriber.until(
            lambda: any(not message.payload for message in subscriber.on(PIPELINE))
        )
        # The list follows the broker's acknowledgement, which a subscriber does not receive.
        async with asyncio.timeout(15):
            while scenario.listed(PIPELINE) in await scenario.bus.consumer_state("mqtt"):
                await scenario.clock.sleep(0.005)
    await scenario.stop()
    assert PIPELINE not in await retained_messages(broker, topic=f"{BRIDGE}/state")
    assert scenario.listed(PIPELINE) not in await scenario.bus.consumer_state("mqtt")


async def test_nothing_is_cleared_before_the_workspace_has_answered(
    scenario: MqttScenario, broker: Mosquitto
) -> None:
    """A start while the workspace is down does not clear its topics."""
    await scenario.start()
    await retained_messages(broker, topic=PIPELINE)
    await scenario.stop()
    scenario.live_state.pipeline_health.clear()
    # A leftover of no workspace shows that the others have been compared.
    gone = "dataprep/v1/gone/state"
    listed = Step(consumer="mqtt", state={scenario.listed(gone): b"1"})
    await scenario.bus.advance(listed, timeout_seconds=5)
    async with Subscriber(broker.port) as subscriber:
        await scenario.start()
        await subscriber.until(lambda: bool(subscriber.on(gone)))
    await scenario.stop()
    assert PIPELINE in await retained_messages(broker, topic=PIPELINE)
    assert scenario.listed(PIPELINE) in await scenario.bus.consumer_state("mqtt")


async def test_only_our_own_topics_are_cleared(scenario: MqttScenario, broker: Mosquitto) -> None:
    """Leftovers of a removed workspace are cleared; topics of other publishers stay."""
    gone, foreign = "dataprep/v1/gone/flow_run/3/state", "dataprep/v1/gone/flow_run/4/state"
    await scenario.bus.subscribe("mqtt", start=Start.NEWEST)
    listed = Step(consumer="mqtt", state={scenario.listed(gone): b"1"})
    await scenario.bus.advance(listed, timeout_seconds=5)
    publish = ("mosquitto_pub", "-p", str(broker.port), "-r", "-m", "{}", "-t")
    for topic in (gone, foreign):
        process = await asyncio.create_subprocess_exec(*publish, topic)
        assert await process.wait() == 0
    async with Subscriber(broker.port) as subscriber:
        await scenario.start()
        await subscriber.until(lambda: any(not message.payload for message in subscriber.on(gone)))
    left = await retained_messages(broker, topic=PIPELINE)
    assert gone not in left
    assert foreign in left


async def test_a_former_broker_is_cleared_when_it_is_used_again(
    scenario: MqttScenario, broker: Mosquitto, tmp_path: Path
) -> None:
    """Messages at another broker meanwhile say nothing about the topics of this one."""
    (tmp_path / "other").mkdir()
    async with Mosquitto(tmp_path / "other") as other:
        here = scenario.settings
        await scenario.start()
        await retained_messages(broker, topic=PIPELINE)
        await scenario.stop()
        scenario.live_state.forget_pipeline("w", FLOW.kind, FLOW.id)
        scenario.live_state.update_workspace("w", known_at=NOON)
        scenario.settings = settings_for(other.url)
        await scenario.start()
        assert PIPELINE not in await retained_messages(other, topic="dataprep/v1/w/state")
        await scenario.stop()
    scenario.settings = here
    async with Subscriber(broker.port) as subscriber:
        await scenario.start()
        await subscriber.until(
            lambda: any(not message.payload for message in subscriber.on(PIPELINE))
        )


async def test_topics_are_listed_before_they_are_published(
    scenario: MqttScenario, broker: Mosquitto
) -> None:
    """The store lists every retained topic of ours, so no crash can orphan a topic."""
    await scenario.start()
    retained = await retained_messages(broker, topic=PIPELINE)
    listed = await scenario.bus.consumer_state("mqtt")
    assert {scenario.listed(topic) for topic in retained} <= set(listed)

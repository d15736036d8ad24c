"""What a broker remembers of us, and what becomes of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import timedelta
from functools import partial
from pathlib import Path

import msgspec
import pytest

from monitor.bus.contract import Start, Step
from monitor.model.live_state import ActiveRun, PipelineHealth, Reachability
from monitor.model.runs import RunKind, Source, Status
from tests.outputs.mqtt_scene import MqttScene, Subscriber, settings_for
from tests.outputs.stories import FLOW, NOON, run_event, run_state
from tests.servers import Mosquitto, Relay

BRIDGE = "dataprep/v1/bridge/monitor"
PIPELINE = "dataprep/v1/w/flow_run/7/state"
HEALTH = PipelineHealth(
    workspace="w",
    run_kind=RunKind.FLOW_RUN,
    pipeline=FLOW,
    last_started_at=NOON,
    last_finished_at=NOON + timedelta(seconds=60),
    last_success_at=NOON + timedelta(seconds=60),
    last_status=Status.SUCCEEDED,
    last_duration_seconds=60.0,
    last_run_id="1",
)
IDENTITY = ("w", RunKind.FLOW_RUN, "7", None)


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Mosquitto]:
    """Return a running broker that remembers nothing over a restart."""
    async with Mosquitto(tmp_path) as running:
        yield running


@pytest.fixture
async def it(tmp_path: Path, broker: Mosquitto) -> AsyncIterator[MqttScene]:
    """Return an output that is not running yet, with one pipeline that has run."""
    async with MqttScene(tmp_path, settings_for(broker.url)) as scene:
        scene.live_state.pipeline_health[IDENTITY] = HEALTH
        yield scene


async def held(broker: Mosquitto, *, wanted: str) -> dict[str, bytes]:
    """Return what the broker holds once it holds the topic ``wanted``."""
    async with Subscriber(broker.port) as ear:
        await ear.until(lambda: wanted in {message.topic for message in ear.messages})
        await ear.hear_all()
        return {message.topic: message.payload for message in ear.messages if message.payload}


async def test_the_bridge_says_that_it_is_online_and_then_stopped(
    it: MqttScene, broker: Mosquitto
) -> None:
    """Birth and information come on connect, ``stopped`` on a clean stop; all are retained."""
    async with Subscriber(broker.port) as ear:
        await it.start()
        await it.stop()
        await ear.until(lambda: len(ear.on(f"{BRIDGE}/state")) == 2)
        told = [item.payload for item in ear.on(f"{BRIDGE}/state")]
        assert told == [b'{"state":"online"}', b'{"state":"stopped"}']
        assert ear.on(f"{BRIDGE}/info")[0].json() == {
            "version": "1.2.3",
            "contract_version": "1",
            "workspaces": ["w"],
            "config_hash": "abc",
        }
    assert (await held(broker, wanted=f"{BRIDGE}/state"))[f"{BRIDGE}/state"] == told[1]


async def test_a_killed_link_leaves_the_last_will(tmp_path: Path, broker: Mosquitto) -> None:
    """The broker says ``offline`` for us, and we say ``online`` when we are back."""
    async with (
        Relay(broker.port) as relay,
        Subscriber(broker.port) as ear,
        MqttScene(tmp_path, settings_for(f"mqtt://127.0.0.1:{relay.port}")) as it,
    ):
        await it.start()
        relay.cut()
        await ear.until(lambda: len(ear.on(f"{BRIDGE}/state")) == 3)
        told = [item.json()["state"] for item in ear.on(f"{BRIDGE}/state")]
        assert told == ["online", "offline", "online"]


async def test_a_pipeline_snapshot_tells_the_present(it: MqttScene, broker: Mosquitto) -> None:
    """Name, active runs, last run and last success stand on the pipeline's topic."""
    run, now = run_state("2"), it.clock.now().replace(microsecond=0)
    it.live_state.active[run.key] = ActiveRun(
        run=run, confirmed_at=now, confirmed_by=Source.RECONCILIATION, percent_complete=40.0
    )
    it.live_state.name_pipeline("w", FLOW.kind, FLOW.id, "orders, renamed")
    it.live_state.update_workspace("w", reachability=Reachability.REACHABLE)
    it.live_state.confirm("w", RunKind.FLOW_RUN, it.clock.now())
    await it.start()
    told = json.loads((await held(broker, wanted=PIPELINE))[PIPELINE])
    assert told == {
        "workspace": "w",
        "kind": "flow_run",
        "pipeline": {"kind": "flow", "id": "7", "name": "orders, renamed"},
        "state": "known",
        "active_count": 1,
        "active_runs": [
            {
                "id": "2",
                "status": "running",
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


async def test_the_worst_recipe_speaks_for_the_pipeline(it: MqttScene, broker: Mosquitto) -> None:
    """One failing recipe is not hidden by another that succeeded later."""
    failing = msgspec.structs.replace(
        HEALTH,
        recipe_id="5",
        last_status=Status.FAILED,
        last_run_id="0",
        last_success_at=None,
        consecutive_failures=3,
    )
    it.live_state.pipeline_health["w", RunKind.FLOW_RUN, "7", "5"] = failing
    await it.start()
    told = json.loads((await held(broker, wanted=PIPELINE))[PIPELINE])
    assert (told["last_run"]["id"], told["last_run"]["status"]) == ("0", "failed")
    assert (told["last_success"], told["consecutive_failures"]) == (None, 3)


async def test_a_change_is_published_once(it: MqttScene, broker: Mosquitto) -> None:
    """What stays the same is not repeated, although the age of the knowledge moves."""
    topic = "dataprep/v1/w/state"
    async with Subscriber(broker.port) as ear:
        await it.start()
        for number in range(1, 4):
            known_at = it.clock.now() + timedelta(seconds=number)
            it.live_state.update_workspace(
                "w", reachability=Reachability.REACHABLE, known_at=known_at
            )
            # The pipeline's message shows that the workspace has been looked at once more.
            again = msgspec.structs.replace(HEALTH, consecutive_failures=number)
            it.live_state.pipeline_health[IDENTITY] = again
            await ear.until(partial(is_notified, ear, number))
        it.live_state.update_workspace("w", reachability=Reachability.UNREACHABLE, reason="down")
        await ear.until(lambda: ear.on(topic)[-1].json()["state"] == "unreachable")
        told = [item.json()["state"] for item in ear.on(topic)]
        assert told[-2:] == ["reachable", "unreachable"]
        assert len(told) == len(set(told))


def is_notified(ear: Subscriber, failures: int) -> bool:
    """True when the pipeline's newest message tells so many failures."""
    told = ear.on(PIPELINE)
    return bool(told) and told[-1].json()["consecutive_failures"] == failures


async def test_an_event_brings_its_pipelines_state_up_to_date(
    tmp_path: Path, broker: Mosquitto
) -> None:
    """The snapshot follows an event at once, without waiting for the next comparison of all."""
    settings = settings_for(broker.url, state_scan_seconds=3_600.0)
    async with Subscriber(broker.port) as ear, MqttScene(tmp_path, settings) as it:
        it.live_state.pipeline_health[IDENTITY] = HEALTH
        await it.start()
        await ear.until(lambda: len(ear.on(PIPELINE)) == 1)
        failed = msgspec.structs.replace(HEALTH, last_status=Status.FAILED, last_run_id="2")
        it.live_state.pipeline_health[IDENTITY] = failed
        await it.tell(run_event("2", Status.FAILED))
        await ear.until(lambda: len(ear.on(PIPELINE)) == 2)
        assert ear.on(PIPELINE)[-1].json()["last_run"]["id"] == "2"


async def test_a_broker_that_forgot_everything_is_told_again(
    it: MqttScene, broker: Mosquitto
) -> None:
    """After a restart without persistence all retained topics are there again."""
    await it.start()
    before = await held(broker, wanted=PIPELINE)
    await broker.stop(at_once=True)
    await it.until(lambda: not it.output.is_connected)
    await broker.start()
    await it.until(lambda: it.output.is_connected)
    after = await held(broker, wanted=PIPELINE)
    assert set(after) == set(before)
    assert after[PIPELINE] == before[PIPELINE]


async def test_the_topic_of_a_pipeline_that_vanished_is_cleared(
    it: MqttScene, broker: Mosquitto
) -> None:
    """It is deleted from the broker and from the list, also after a restart of the monitor."""
    await it.start()
    await held(broker, wanted=PIPELINE)
    await it.stop()
    it.live_state.forget_pipeline("w", FLOW.kind, FLOW.id)
    it.live_state.update_workspace("w", known_at=NOON)
    async with Subscriber(broker.port) as ear:
        await it.start()
        await ear.until(lambda: any(not item.payload for item in ear.on(PIPELINE)))
        # The list follows the broker's acknowledgement, of which a subscriber hears nothing.
        async with asyncio.timeout(15):
            while f"retained:{PIPELINE}" in await it.bus.consumer_state("mqtt"):
                await it.clock.sleep(0.005)
    await it.stop()
    assert PIPELINE not in await held(broker, wanted=f"{BRIDGE}/state")
    assert f"retained:{PIPELINE}" not in await it.bus.consumer_state("mqtt")


async def test_nothing_is_cleared_before_the_workspace_has_answered(
    it: MqttScene, broker: Mosquitto
) -> None:
    """A start with a workspace that is down does not wipe what was known of it."""
    await it.start()
    await held(broker, wanted=PIPELINE)
    await it.stop()
    it.live_state.pipeline_health.clear()
    # A leftover that may go shows that the others have been looked at.
    gone = "dataprep/v1/gone/state"
    listed = Step(consumer="mqtt", state={f"retained:{gone}": b"1"})
    await it.bus.advance(listed, timeout_seconds=5)
    async with Subscriber(broker.port) as ear:
        await it.start()
        await ear.until(lambda: bool(ear.on(gone)))
    await it.stop()
    assert PIPELINE in await held(broker, wanted=PIPELINE)
    assert f"retained:{PIPELINE}" in await it.bus.consumer_state("mqtt")


async def test_only_what_we_published_is_cleared(it: MqttScene, broker: Mosquitto) -> None:
    """Leftovers of a workspace that is configured no more go; what others retained stays."""
    gone, foreign = "dataprep/v1/gone/flow_run/3/state", "dataprep/v1/gone/flow_run/4/state"
    await it.bus.subscribe("mqtt", start=Start.NEWEST)
    listed = Step(consumer="mqtt", state={f"retained:{gone}": b"1"})
    await it.bus.advance(listed, timeout_seconds=5)
    publish = ("mosquitto_pub", "-p", str(broker.port), "-r", "-m", "{}", "-t")
    for topic in (gone, foreign):
        process = await asyncio.create_subprocess_exec(*publish, topic)
        assert await process.wait() == 0
    async with Subscriber(broker.port) as ear:
        await it.start()
        await ear.until(lambda: any(not item.payload for item in ear.on(gone)))
    left = await held(broker, wanted=PIPELINE)
    assert gone not in left
    assert foreign in left


async def test_topics_are_listed_before_they_are_published(
    it: MqttScene, broker: Mosquitto
) -> None:
    """Whatever the broker holds of ours, the store knows it, so no crash can orphan a topic."""
    await it.start()
    retained = await held(broker, wanted=PIPELINE)
    listed = await it.bus.consumer_state("mqtt")
    assert {f"retained:{topic}" for topic in retained} <= set(listed)

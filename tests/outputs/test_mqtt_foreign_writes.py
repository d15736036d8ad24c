"""Retained topics of ours that another client overwrites or deletes, at a real broker."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import aiomqtt
import pytest
from aiomqtt.client import ProtocolVersion
from prometheus_client import CollectorRegistry

from monitor.model.live_state import ActiveRun, Reachability
from monitor.model.runs import RunKind, Source
from monitor.outputs.mqtt.foreign_writes import ForeignWrites
from tests.clocks import ManualClock
from tests.outputs.histories import run_state
from tests.outputs.mqtt_scenario import MqttScenario, Subscriber, settings_for
from tests.servers import Mosquitto

WORKSPACE = "dataprep/v1/w/state"
PIPELINE = "dataprep/v1/w/flow_run/7/state"
BRIDGE = "dataprep/v1/bridge/monitor/state"
FOREIGN = "dataprep/v1/other/state"
OVERWRITTEN = "dataprep_monitor_mqtt_overwritten_total"
Attacked = tuple[MqttScenario, Mosquitto]


@pytest.fixture
async def attacked(tmp_path: Path) -> AsyncIterator[Attacked]:
    """Return a running output that has published what it knows of one workspace."""
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
            await subscriber.until(lambda: bool(subscriber.on(PIPELINE)))
        yield scenario, broker


async def publish(broker: Mosquitto, payloads: dict[str, bytes]) -> None:
    """Publish retained messages as a stranger."""
    async with aiomqtt.Client("127.0.0.1", broker.port, protocol=ProtocolVersion.V5) as stranger:
        for topic, payload in payloads.items():
            await stranger.publish(topic, payload, qos=1, retain=True)


async def test_messages_that_another_client_overwrites_or_deletes_are_restored(
    attacked: Attacked,
) -> None:
    """States of workspaces, pipelines and the bridge are ours again; others' topics stay."""
    scenario, broker = attacked
    async with Subscriber(broker.port) as subscriber:
        await subscriber.receive_all()
        before = subscriber.retained()
        payloads = {
            WORKSPACE: b'{"state":"reachable","forged":true}',
            PIPELINE: b"",
            BRIDGE: b'{"state":"offline"}',
            FOREIGN: b"whatever",
        }
        await publish(broker, payloads)
        for topic in (WORKSPACE, PIPELINE, BRIDGE):
            own = before[topic]
            await subscriber.until(
                lambda topic=topic, own=own: (
                    subscriber.on(topic)[-1].payload == own  # type: ignore[misc]  # a default binds it
                    and len(subscriber.on(topic)) >= 3
                )
            )
    async with Subscriber(broker.port) as late:
        await late.receive_all()
        retained = late.retained()

    assert {topic: retained.get(topic) for topic in (WORKSPACE, PIPELINE, BRIDGE)} == {
        topic: before[topic] for topic in (WORKSPACE, PIPELINE, BRIDGE)
    }
    assert retained[FOREIGN] == b"whatever"
    assert scenario.registry.get_sample_value(OVERWRITTEN) == 3
    assert scenario.output.overwritten() is None


async def test_a_client_that_goes_on_is_not_fought_but_reported(attacked: Attacked) -> None:
    """The second overwriting within a minute is left for now, and it is known who is at it."""
    scenario, broker = attacked
    async with Subscriber(broker.port) as subscriber:
        await subscriber.receive_all()
        own = subscriber.retained()[WORKSPACE]
        await publish(broker, {WORKSPACE: b"first"})
        await subscriber.until(
            lambda: (
                [message.payload for message in subscriber.on(WORKSPACE)][-2:] == [b"first", own]
            )
        )
        for _ in range(5):
            await publish(broker, {WORKSPACE: b"again"})
        await publish(broker, {PIPELINE: b"another"})
        await subscriber.until(lambda: subscriber.on(PIPELINE)[-1].payload != b"another")
        await subscriber.receive_all()

        assert subscriber.on(WORKSPACE)[-1].payload == b"again"
        lasting = scenario.output.overwritten()
        assert lasting is not None
        assert lasting.topic == WORKSPACE


async def test_repairs_come_once_a_minute_and_the_report_ends() -> None:
    """Whatever arrives in between; ten minutes without any, and it is over."""
    clock = ManualClock()
    writes = ForeignWrites(clock=clock, registry=CollectorRegistry())
    repaired_at = []
    for second in range(300):
        writes.notice("a")
        if writes.due():
            repaired_at.append(second)
        await clock.advance(1)
    assert repaired_at == [0, 60, 120, 180, 240]
    assert writes.lasting() is not None

    await clock.advance(700)
    assert writes.due() == {"a"}
    assert writes.lasting() is None
    writes.notice("b")
    assert writes.due() == {"b"}
    assert writes.lasting() is None

"""Events at a real broker: properties, refusals, lost links, old brokers."""

from __future__ import annotations

import asyncio
import socket
from collections import defaultdict
from collections.abc import AsyncIterator
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest

from monitor.model.runs import Pipeline, PipelineKind, Status
from monitor.outputs.mqtt.settings import MqttProtocol
from tests.outputs.histories import detailed_event, run_event, workspace_event
from tests.outputs.mqtt_scenario import MqttScenario, ReceivedMessage, Subscriber, settings_for
from tests.servers import Mosquitto, Relay, free_port

PATH = (Status.PENDING, Status.RUNNING, Status.SUCCEEDED)


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Mosquitto]:
    """Return a running broker that stores nothing over a restart."""
    async with Mosquitto(tmp_path) as running:
        yield running


def events_of(messages: list[ReceivedMessage]) -> list[ReceivedMessage]:
    return [message for message in messages if "/event/" in message.topic]


def in_first_order(messages: list[ReceivedMessage]) -> dict[str, list[str]]:
    """Return, by source, the ids of events in the order of their first arrival."""
    first: dict[str, dict[str, None]] = defaultdict(dict)
    for event in events_of(messages):
        content = event.json()
        first[content["source"]][content["id"]] = None
    return {source: list(ids) for source, ids in first.items()}


def indexes_of(
    messages: list[ReceivedMessage], published: dict[str, list[str]]
) -> dict[str, list[int]]:
    """Return, by source, the index among the published events of each event as it arrived."""
    indexes: dict[str, list[int]] = defaultdict(list)
    for message in events_of(messages):
        event = message.json()
        indexes[event["source"]].append(published[event["source"]].index(event["id"]))
    return indexes


async def test_events_are_published_with_their_properties(
    tmp_path: Path, broker: Mosquitto
) -> None:
    """A run's events arrive on its pipeline's topics; MQTT 5 has type, expiry and attributes."""
    async with (
        Subscriber(broker.port) as subscriber,
        MqttScenario(tmp_path, settings_for(broker.url)) as scenario,
    ):
        await scenario.start()
        await scenario.emit(*[run_event("1", status) for status in PATH], workspace_event())
        await subscriber.until(lambda: len(events_of(subscriber.messages)) == 4)
        assert [event.topic for event in events_of(subscriber.messages)] == [
            "dataprep/v1/w/flow_run/7/event/queued",
            "dataprep/v1/w/flow_run/7/event/started",
            "dataprep/v1/w/flow_run/7/event/succeeded",
            "dataprep/v1/w/event/edition",
        ]
        first = events_of(subscriber.messages)[0]
        assert not first.is_retained
        assert first.json()["id"] == "w:flow_run:1:queued"
        assert first.properties["ContentType"] == "application/cloudevents+json"
        assert first.properties["PayloadFormatIndicator"] == 1
        assert 0 < first.properties["MessageExpiryInterval"] <= 7 * 86_400
        assert dict(first.properties["UserProperty"]) == {
            "id": "w:flow_run:1:queued",
            "type": "dataprep.run.queued.v1",
            "source": "/dataprep/w/flow_run/7",
            "subject": "run/1",
            "time": "2026-11-21T12:00:00Z",
        }
        await scenario.until_delivered()
        labels = {"output": "mqtt", "outcome": "delivered"}
        assert scenario.metric("notifications_total", **labels) == 4
        assert scenario.metric("mqtt_connected", broker=f"127.0.0.1:{broker.port}") == 1


@pytest.mark.parametrize(
    ("selected", "ids"),
    [
        (("*",), ["w:flow_run:1:detailed", "w:flow_run:2:started"]),
        (("*", "!run.detailed"), ["w:flow_run:2:started"]),
        (("run.detailed",), ["w:flow_run:1:detailed"]),
    ],
)
async def test_selected_types_are_published(
    tmp_path: Path, broker: Mosquitto, selected: tuple[str, ...], ids: list[str]
) -> None:
    """Details of a run among them, unless they are left out; the position passes over the rest."""
    async with (
        Subscriber(broker.port) as subscriber,
        MqttScenario(tmp_path, settings_for(broker.url, events=selected)) as scenario,
    ):
        await scenario.start()
        await scenario.emit(detailed_event("1"), run_event("2"))
        await scenario.until_delivered()
        await subscriber.until(lambda: len(events_of(subscriber.messages)) == len(ids))
        assert [event.json()["id"] for event in events_of(subscriber.messages)] == ids


async def test_a_lost_link_loses_no_event_and_keeps_the_order(
    tmp_path: Path, broker: Mosquitto
) -> None:
    """Broken links cause nothing but repetitions under the same ids."""
    flows = [Pipeline(kind=PipelineKind.FLOW, id=str(number)) for number in range(5)]
    async with (
        Relay(broker.port) as relay,
        Subscriber(broker.port) as subscriber,
        MqttScenario(tmp_path, settings_for(f"mqtt://127.0.0.1:{relay.port}")) as scenario,
    ):
        await scenario.start()
        published: dict[str, list[str]] = defaultdict(list)
        for number in range(120):
            flow = flows[number % len(flows)]
            events = [run_event(str(number), status, pipeline=flow) for status in PATH]
            published[f"/dataprep/w/flow_run/{flow.id}"] += [event.id for event in events]
            await scenario.emit(*events)
            if number % 30 == 20:
                before = relay.connections
                relay.cut()
                await scenario.until(partial(relay.has_more_than, before))
        await scenario.until_delivered()
        await subscriber.until(lambda: in_first_order(subscriber.messages) == published)
        assert relay.connections == 5
        for arrived in indexes_of(subscriber.messages, published).values():
            # After a break a pipeline may begin again further back, but never skips ahead.
            steps = [later - earlier for earlier, later in pairwise(arrived)]
            assert max(steps) == 1


async def test_a_broker_restart_in_the_middle_loses_no_event(tmp_path: Path) -> None:
    """With a broker that keeps sessions, a subscriber gets all events in order over a restart."""
    options = ("persistence true", f"persistence_location {tmp_path}/", "max_queued_messages 0")
    async with Mosquitto(tmp_path, options=options) as broker:
        async with Subscriber(broker.port, keep_session_as="subscriber"):
            pass  # the broker knows the session now, so it keeps what the subscriber misses
        async with MqttScenario(tmp_path, settings_for(broker.url)) as scenario:
            await scenario.start()
            expected: list[str] = []
            for number in range(60):
                events = [run_event(str(number), status) for status in PATH]
                expected += [event.id for event in events]
                await scenario.emit(*events)
                if number == 20:
                    await broker.stop()
                if number == 40:
                    await broker.start()
            await scenario.until_delivered()
            async with Subscriber(broker.port, keep_session_as="subscriber") as subscriber:
                source = "/dataprep/w/flow_run/7"
                await subscriber.until(
                    lambda: in_first_order(subscriber.messages).get(source) == expected
                )
                assert scenario.output.is_well


async def test_acknowledgements_that_never_come_end_the_link(
    tmp_path: Path, broker: Mosquitto
) -> None:
    """A broker that stops answering is disconnected after a while, and the event is sent again."""
    async with Relay(broker.port) as relay, Subscriber(broker.port) as subscriber:
        url = f"mqtt://127.0.0.1:{relay.port}"
        settings = settings_for(url, acknowledge_timeout_seconds=0.2, state_scan_seconds=60.0)
        async with MqttScenario(tmp_path, settings) as scenario:
            await scenario.start()
            relay.is_deaf = True
            await scenario.emit(run_event("1"))
            await scenario.until(lambda: not scenario.output.is_well)
            assert "did not acknowledge" in scenario.output.status
            relay.is_deaf = False
            await scenario.until_delivered()
            received_ids = [event.json()["id"] for event in events_of(subscriber.messages)]
            assert set(received_ids) == {"w:flow_run:1:started"}


async def test_a_refused_topic_becomes_a_dead_letter_and_blocks_no_other(tmp_path: Path) -> None:
    """Where the broker denies a topic for good, the event is kept and the rest arrives."""
    acl = tmp_path / "acl"
    acl.write_text(
        "topic readwrite dataprep/#\ntopic deny dataprep/v1/w/flow_run/8/event/#\ntopic read #\n"
    )
    async with Mosquitto(tmp_path, options=(f"acl_file {acl}",)) as broker:
        denied = Pipeline(kind=PipelineKind.FLOW, id="8")
        async with (
            Subscriber(broker.port) as subscriber,
            MqttScenario(tmp_path, settings_for(broker.url)) as scenario,
        ):
            await scenario.start()
            await scenario.emit(run_event("1"), run_event("2", pipeline=denied), run_event("3"))
            await scenario.until_delivered()
            await subscriber.until(lambda: len(events_of(subscriber.messages)) == 2)
            (letter,) = await scenario.bus.dead_letters("mqtt", limit=10)
            assert letter.event.id == "w:flow_run:2:started"
            assert "not authorized" in letter.reason
            refused = {"output": "mqtt", "outcome": "refused"}
            assert scenario.metric("notifications_total", **refused) == 1


async def test_a_message_above_the_brokers_limit_is_refused_without_losing_the_link(
    tmp_path: Path,
) -> None:
    """The limit that the broker states is kept, since exceeding it would cost the connection."""
    broker = Mosquitto(tmp_path, options=("max_packet_size 4000",))
    async with broker, MqttScenario(tmp_path, settings_for(broker.url)) as scenario:
        await scenario.start()
        await scenario.emit(run_event("1", Status.FAILED, error="x" * 8_000), run_event("2"))
        await scenario.until_delivered()
        (letter,) = await scenario.bus.dead_letters("mqtt", limit=10)
        assert letter.event.id == "w:flow_run:1:failed"
        assert "4000 that the broker takes" in letter.reason


async def test_version_3_1_1_is_used_when_configured(tmp_path: Path, broker: Mosquitto) -> None:
    """Everything but the properties is the same."""
    settings = settings_for(broker.url, protocol=MqttProtocol.V311)
    async with Subscriber(broker.port) as subscriber, MqttScenario(tmp_path, settings) as scenario:
        await scenario.start()
        await scenario.emit(run_event("1"))
        await scenario.until_delivered()
        await subscriber.until(lambda: bool(events_of(subscriber.messages)))
        (message,) = events_of(subscriber.messages)
        assert message.json()["type"] == "dataprep.run.started.v1"
        assert "ContentType" not in message.properties


async def test_a_broker_that_is_down_from_the_start_is_waited_for(tmp_path: Path) -> None:
    """The status reports no connection, and events that were emitted meanwhile arrive later."""
    broker = Mosquitto(tmp_path)
    async with MqttScenario(tmp_path, settings_for(broker.url)) as scenario:
        await scenario.start(is_connected=False)
        await scenario.until(lambda: "refused" in scenario.output.status)
        await scenario.emit(run_event("1"))
        assert not scenario.output.is_well
        assert scenario.metric("mqtt_connected", broker=str(scenario.settings.broker)) == 0
        async with broker:
            await scenario.until_delivered()
            delivered = {"output": "mqtt", "outcome": "delivered"}
            assert scenario.metric("notifications_total", **delivered) == 1
            await scenario.stop()


async def test_a_host_that_hangs_up_is_retried(tmp_path: Path) -> None:
    """A peer that accepts and closes at once is no broker; the output keeps retrying."""
    async with (
        Relay(free_port()) as relay,
        MqttScenario(tmp_path, settings_for(f"mqtt://127.0.0.1:{relay.port}")) as scenario,
    ):
        await scenario.start(is_connected=False)
        await scenario.until(lambda: relay.connections >= 4)
        assert not scenario.output.is_well


async def test_stopping_while_a_connection_is_being_made_ends_it(
    tmp_path: Path,
) -> None:
    """A broker that accepts and then stays silent does not delay the stop."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        silent.setblocking(False)
        url = f"mqtt://127.0.0.1:{silent.getsockname()[1]}"
        async with MqttScenario(tmp_path, settings_for(url)) as scenario:
            await scenario.start(is_connected=False)
            loop = asyncio.get_running_loop()
            accepted, _ = await loop.sock_accept(silent)
            with accepted:
                async with asyncio.timeout(2):
                    await scenario.stop()
                # On the loop, which closes what the connecting thread has only now brought back.
                async with asyncio.timeout(30):
                    while await loop.sock_recv(accepted, 1_000):
                        pass  # bytes sent before the stop
            assert not scenario.output.is_well

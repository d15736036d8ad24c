"""Topics of alerts on a real broker: events once, states retained while the alert exists."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from monitor.model.alerts import BRIDGE, Acknowledgement, Alert, AlertingSnapshot, AlertState
from monitor.model.events import EventType
from monitor.model.live_state import RefusedCapability
from monitor.model.runs import RunKind
from tests.outputs.alert_histories import BEGAN, ENDED, alert, event_of, fired, resolved
from tests.outputs.mqtt_scenario import MqttScenario, Subscriber, settings_for
from tests.servers import Mosquitto

KEY = alert().fingerprint
TOPIC = f"dataprep/v1/w/alert/run_failed/{KEY}"


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Mosquitto]:
    """Return a running broker."""
    async with Mosquitto(tmp_path) as made:
        yield made


@pytest.fixture
async def scenario(tmp_path: Path, broker: Mosquitto) -> AsyncIterator[MqttScenario]:
    """Return a scenario whose output is connected."""
    async with MqttScenario(tmp_path, settings_for(broker.url)) as made:
        await made.start()
        yield made


def snapshot_of(*alerts: Alert) -> AlertingSnapshot:
    return AlertingSnapshot(alerts=alerts)


async def states(broker: Mosquitto) -> dict[str, bytes]:
    """Return what the broker retains about alerts, by topic."""
    async with Subscriber(broker.port) as fresh:
        await fresh.receive_all()
        return {topic: payload for topic, payload in fresh.retained().items() if "/alert/" in topic}


async def until_retained(broker: Mosquitto, topics: set[str]) -> dict[str, bytes]:
    """Wait until the broker retains exactly these topics of alerts."""
    async with asyncio.timeout(15):
        while True:
            if set(found := await states(broker)) == topics:
                return found


async def test_an_alert_is_published_as_events_and_as_its_state(
    broker: Mosquitto, scenario: MqttScenario
) -> None:
    """Fired, then firing; resolved, then resolved; in the end nothing is retained of it."""
    async with Subscriber(broker.port) as subscriber:
        scenario.snapshot = snapshot_of(alert())
        await scenario.emit(fired())
        await subscriber.until(lambda: len(subscriber.on(f"{KEY}/state")) == 1)
        scenario.snapshot = snapshot_of(alert(state=AlertState.RESOLVED))
        await scenario.emit(resolved())
        await subscriber.until(lambda: len(subscriber.on(f"{KEY}/state")) == 2)
        scenario.snapshot = snapshot_of()
        await subscriber.until(lambda: len(subscriber.on(f"{KEY}/state")) == 3)

        events = subscriber.on("/event")
        assert [event.topic for event in events] == [f"{TOPIC}/event"] * 2
        assert [event.json()["id"] for event in events] == [fired().id, resolved().id]
        assert not any(event.is_retained for event in events)
        assert dict(events[0].properties["UserProperty"])["type"] == "dataprep.alert.fired.v1"
        firing, over, cleared = [message.payload for message in subscriber.on(f"{TOPIC}/state")]
        assert b'"status":"firing"' in firing
        assert b'"status":"resolved"' in over
        assert cleared == b""
    assert await states(broker) == {}


async def test_a_state_describes_the_alert(broker: Mosquitto, scenario: MqttScenario) -> None:
    """Alertmanager's names, and also silences, who knows of it, and its evidence."""
    by = Acknowledgement(author="Ada", comment="on it", at=BEGAN, until=ENDED)
    scenario.snapshot = snapshot_of(alert(muted_by=("silence:7",), reminders=2, acknowledged=by))
    async with Subscriber(broker.port) as subscriber:
        await subscriber.until(
            lambda: bool(subscriber.on("/state") and subscriber.on(TOPIC[-16:] + "/state"))
        )
        (state,) = subscriber.on(f"{KEY}/state")
    assert state.json() == {
        "status": "firing",
        "name": "run_failed",
        "rule": "run_failed",
        "severity": "critical",
        "labels": alert().labels,
        "annotations": alert().templates,
        "startsAt": "2024-11-21T09:30:00Z",
        "endsAt": None,
        "fingerprint": KEY,
        "run": "91",
        "evidence": ["w:flow_run:91:failed"],
        "evidence_count": 1,
        "facts": {"error": "no such file"},
        "preexisting": False,
        "over_when_seen": False,
        "is_flapping": False,
        "acknowledged": {
            "author": "Ada",
            "comment": "on it",
            "at": "2024-11-21T09:30:00Z",
            "until": "2024-11-21T09:40:00Z",
        },
        "muted_by": ["silence:7"],
        "reminders": 2,
        "unjudged": None,
    }


async def test_an_alert_whose_end_is_unknown_says_so(
    broker: Mosquitto, scenario: MqttScenario
) -> None:
    """Its state names the reason while its runs cannot be seen, and no longer than that."""
    scenario.snapshot = snapshot_of(alert())
    refused = RefusedCapability(
        capability="list_changes",
        since=datetime(2024, 11, 21, 9, 40, tzinfo=UTC),
        reason="was offered and is refused",
        unwatched=(RunKind.FLOW_RUN,),
    )
    async with Subscriber(broker.port) as subscriber:
        await subscriber.until(lambda: len(subscriber.on(f"{KEY}/state")) == 1)
        scenario.live_state.update_workspace("w", refused=(refused,))
        await subscriber.until(lambda: len(subscriber.on(f"{KEY}/state")) == 2)
        scenario.live_state.update_workspace("w", refused=())
        await subscriber.until(lambda: len(subscriber.on(f"{KEY}/state")) == 3)
    states = [message.json() for message in subscriber.on(f"{KEY}/state")]
    assert [state["unjudged"] for state in states] == [None, "was offered and is refused", None]
    assert {state["status"] for state in states} == {"firing"}


async def test_a_pending_alert_is_not_published(broker: Mosquitto, scenario: MqttScenario) -> None:
    """Only firing and resolved alerts have a retained state."""
    scenario.snapshot = snapshot_of(alert(1, AlertState.PENDING), alert(2))
    found = await until_retained(
        broker, {f"dataprep/v1/w/alert/run_failed/{alert(2).fingerprint}/state"}
    )
    assert len(found) == 1


async def test_alerts_about_the_daemon_have_topics_below_the_bridge(
    broker: Mosquitto, scenario: MqttScenario
) -> None:
    """Two daemons on one broker, each with its own topics, do not mix up theirs."""
    own = alert(workspace=BRIDGE, name="monitor_degraded", kind=None, pipeline=None, run=None)
    scenario.snapshot = snapshot_of(own)
    async with Subscriber(broker.port) as subscriber:
        await scenario.emit(event_of(own))
        await subscriber.until(lambda: bool(subscriber.on("/event")))
        above = f"dataprep/v1/bridge/monitor/alert/monitor_degraded/{KEY}"
        assert subscriber.on("/event")[0].topic == f"{above}/event"
    await until_retained(broker, {f"{above}/state"})
    scenario.snapshot = snapshot_of()
    assert await until_retained(broker, set()) == {}


async def test_an_alert_that_ended_while_the_daemon_was_down_is_cleared(
    broker: Mosquitto, scenario: MqttScenario
) -> None:
    """After a restart the topics of alerts that no longer exist are deleted, and no others."""
    scenario.snapshot = snapshot_of(alert(1), alert(2))
    topics = [f"dataprep/v1/w/alert/run_failed/{alert(n).fingerprint}/state" for n in (1, 2)]
    await until_retained(broker, set(topics))
    await scenario.stop()
    scenario.snapshot = snapshot_of(alert(2))
    await scenario.start()
    assert set(await until_retained(broker, {topics[1]})) == {topics[1]}


async def test_a_restart_of_the_broker_brings_them_back(tmp_path: Path) -> None:
    """A broker that lost its retained messages gets the states of alerts again."""
    async with (
        Mosquitto(tmp_path) as broker,
        MqttScenario(tmp_path, settings_for(broker.url)) as scenario,
    ):
        scenario.snapshot = snapshot_of(alert())
        await scenario.start()
        await until_retained(broker, {f"{TOPIC}/state"})
        await broker.stop(at_once=True)
        await broker.start()
        assert set(await until_retained(broker, {f"{TOPIC}/state"})) == {f"{TOPIC}/state"}


async def test_every_transition_is_published_on_one_topic_in_order(
    broker: Mosquitto, scenario: MqttScenario
) -> None:
    """What may recur arrives between start and end, each time under its own id."""
    events = [
        fired(),
        event_of(alert(), EventType.ALERT_REMINDED, number=1),
        event_of(alert(), EventType.ALERT_SILENCED, number=1),
        event_of(alert(), EventType.ALERT_REMINDED, number=2),
        event_of(alert(), EventType.ALERT_ACKNOWLEDGED, number=1),
        event_of(alert(is_flapping=True), EventType.ALERT_FLAPPING),
        resolved(),
    ]
    async with Subscriber(broker.port) as subscriber:
        await scenario.emit(*events)
        await subscriber.until(lambda: len(subscriber.on(f"{TOPIC}/event")) == len(events))
        received = [message.json()["id"] for message in subscriber.on(f"{TOPIC}/event")]
    assert received == [event.id for event in events]


async def test_a_storm_of_states_is_published_whole(
    broker: Mosquitto, scenario: MqttScenario
) -> None:
    """Hundreds of concurrent alerts have a state each, and all of them are cleared again."""
    numbers = range(300)
    scenario.snapshot = snapshot_of(*[alert(number) for number in numbers])
    await scenario.emit(*[fired(number) for number in numbers])
    topics = {f"dataprep/v1/w/alert/run_failed/{alert(n).fingerprint}/state" for n in numbers}
    assert len(await until_retained(broker, topics)) == len(numbers)
    scenario.snapshot = snapshot_of()
    assert await until_retained(broker, set()) == {}
